// Asynchronous shortest paths on the worklist (Ben-Nun et al., Groute, ACM TOPC
// 7(3), art. 18, 2020, section 4.6.3); the twin of `rule.rs`.
#pragma once

#include "distances.cuh"
#include "relaxation.cuh"

namespace millstream {

struct IntegerPaths : IntegerDistances {
    static constexpr u32 least_step = 0;
    static constexpr bool has_weights = true;

    __device__ static u32 priority(u32 distance, const RelaxationSettings&) { return distance; }
};

struct RealPaths : RealDistances {
    static constexpr u32 least_step = 0;
    static constexpr bool has_weights = true;

    __device__ static u32 priority(u32 distance, const RelaxationSettings& settings) {
        return __float2uint_rz(__fmul_rn(__uint_as_float(distance), settings.priority_scale));
    }
};

}  // namespace millstream
