// What a vertex holds while keys become smaller along arcs: its key, perhaps with the
// predecessor that gave it.
#pragma once

#include "atomics.cuh"

namespace millstream {

__device__ __forceinline__ u32 key_of(u32 value) { return value; }
__device__ __forceinline__ u32 key_of(u64 value) { return u32(value >> 32); }
__device__ __forceinline__ void make_value(u32 key, u32, u32* value) { *value = key; }
__device__ __forceinline__ void make_value(u32 key, u32 predecessor, u64* value) {
    *value = u64(key) << 32 | predecessor;
}

// Replaces a value that has a larger key; returns the value before.
__device__ __forceinline__ u32 lower_value(u32* place, u32 value) {
    // A plain look first: most arcs lead to settled vertices.
    const u32 before = load_relaxed_gpu(place);
    return before <= value ? before : fetch_min_relaxed_gpu(place, value);
}

// The same without a look first, where the look would take longer than it saves.
__device__ __forceinline__ u32 lower_value_at_once(u32* place, u32 value) {
    return fetch_min_relaxed_gpu(place, value);
}

// With an equal key the old predecessor stays: so paths of weight 0 make no cycle.
__device__ __forceinline__ u64 lower_value(u64* place, u64 value) {
    u64 before = load_relaxed_gpu(place);
    while (key_of(value) < key_of(before)) {
        const u64 now = compare_exchange_relaxed_gpu(place, before, value);
        if (now == before) break;
        before = now;
    }
    return before;
}

__device__ __forceinline__ u64 lower_value_at_once(u64* place, u64 value) {
    return lower_value(place, value);
}

}  // namespace millstream
