// What the lanes of a warp do together: prefix sums, and finding whose work a lane does when
// the work of 32 lanes is spread over all.
#pragma once

#include "grid.cuh"

namespace millstream {

// Asks for a line to be brought to the second-level cache.
__device__ __forceinline__ void prefetch(const void* address) {
    asm volatile("prefetch.global.L2 [%0];" : : "l"(address));
}

// The sum of the values of all lanes up to and including this one.
template <class T>
__device__ __forceinline__ T prefix_sum(T value) {
    for (u32 step = 1; step < 32; step *= 2) {
        const T before = __shfl_up_sync(~0u, value, step);
        if (lane() >= step) value += before;
    }
    return value;
}

// The first lane whose sum `last` is above `at`.
__device__ __forceinline__ u32 owner_of(u32 last, u32 at) {
    u32 owner = 0;
    for (u32 step = 16; step > 0; step /= 2) {
        if (at >= __shfl_sync(~0u, last, owner + step - 1)) owner += step;
    }
    return owner;
}

// The position of the set bit that has `before` set bits below it.
__device__ __forceinline__ u32 nth_bit(u32 word, u32 before) {
    u32 at = 0;
    for (u32 width = 16; width > 0; width /= 2) {
        const u32 below = __popc(word >> at & ((1u << width) - 1));
        if (before >= below) {
            before -= below;
            at += width;
        }
    }
    return at;
}

}  // namespace millstream
