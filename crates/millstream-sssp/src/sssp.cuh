// Asynchronous shortest paths on the worklist (Ben-Nun et al., Groute, ACM TOPC
// 7(3), art. 18, 2020, section 4.6.3); the twin of `rule.rs`.
#pragma once

#include "relaxation.cuh"

namespace millstream {

// Sums of unsigned integers; those that are too long are all the same.
struct IntegerDistances {
    using Weight = u32;
    static constexpr u32 least_step = 0;
    static constexpr bool has_weights = true;
    static constexpr u32 too_far = ~0u - 1;

    __device__ static u32 extended(u32 distance, u32 weight) {
        const u64 sum = u64(distance) + weight;
        return sum < too_far ? u32(sum) : too_far;
    }
    __device__ static u32 priority(u32 distance, const RelaxationSettings&) { return distance; }
};

// Sums of reals that are not negative, whose bits are in the same order.
struct RealDistances {
    using Weight = float;
    static constexpr u32 least_step = 0;
    static constexpr bool has_weights = true;

    __device__ static u32 extended(u32 distance, float weight) {
        return __float_as_uint(__fadd_rn(__uint_as_float(distance), weight));
    }
    __device__ static u32 priority(u32 distance, const RelaxationSettings& settings) {
        return __float2uint_rz(__fmul_rn(__uint_as_float(distance), settings.priority_scale));
    }
};

}  // namespace millstream
