// Distances in two types, and how they grow along arcs. Keys are 32 bits, in the order of
// the distances; 2^32 - 1 is larger than any: no path leads there.
#pragma once

#include "atomics.cuh"

namespace millstream {

// Sums of unsigned integers; all sums that are too large become `too_far`.
struct IntegerDistances {
    using Weight = u32;
    static constexpr u32 too_far = ~0u - 1;

    // A weight in 32 bits.
    __device__ static u32 weight(u32 bits) { return bits; }
    // `part` of `parts` equal parts of a weight, rounded up.
    __device__ static u32 part_of(u32 weight, u32 part, u32 parts) {
        return u32((u64(weight) * part + parts - 1) / parts);
    }
    __device__ static u32 extended(u32 distance, u32 weight) {
        const u64 sum = u64(distance) + weight;
        return sum < too_far ? u32(sum) : too_far;
    }
};

// Sums of non-negative reals, whose bits have the same order as the reals.
struct RealDistances {
    using Weight = float;

    __device__ static float weight(u32 bits) { return __uint_as_float(bits); }
    __device__ static float part_of(float weight, u32 part, u32 parts) {
        return weight * (float(part) / float(parts));
    }
    __device__ static u32 extended(u32 distance, float weight) {
        return __float_as_uint(__fadd_rn(__uint_as_float(distance), weight));
    }
};

}  // namespace millstream
