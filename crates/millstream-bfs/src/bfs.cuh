// Asynchronous BFS on the worklist (Ben-Nun et al., Groute, ACM TOPC 7(3), art. 18,
// 2020, figure 11); the twin of `rule.rs`.
#pragma once

#include "relaxation.cuh"

namespace millstream {

// Every arc is one level more.
struct Levels {
    using Weight = u32;
    static constexpr u32 least_step = 1;
    static constexpr bool has_weights = false;

    __device__ static u32 extended(u32 level, u32) { return level + 1; }
    __device__ static u32 priority(u32 level, const RelaxationSettings&) { return level; }
};

}  // namespace millstream
