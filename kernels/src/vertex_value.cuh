// What a vertex holds, in one word that atomic operations change at once: its key,
// perhaps the predecessor that gave it, and in the lowest bit whether it is queued.
// The twin of `value.rs` of the traversal crate.
#pragma once

#include "atomics.cuh"

namespace millstream {

constexpr u32 queued = 1;
// Of a word of 32 bits: all larger ones are this one, and the one after is nobody's.
constexpr u32 largest_key = 0x7ffffffe;

__device__ __forceinline__ u32 key_of(u32 word) { return word >> 1; }
__device__ __forceinline__ u32 key_of(u64 word) { return u32(word >> 32); }

__device__ __forceinline__ u32 predecessor_of(u32) { return 0; }
__device__ __forceinline__ u32 predecessor_of(u64 word) { return u32(word) >> 1; }

__device__ __forceinline__ void make_value(u32 key, u32, u32* word) {
    *word = (key < largest_key ? key : largest_key) << 1;
}
__device__ __forceinline__ void make_value(u32 key, u32 predecessor, u64* word) {
    *word = u64(key) << 32 | predecessor << 1;
}

// Puts a value in place of one with a larger key, which is then queued or not as it
// was before; the word before. A predecessor stays with the same key: paths of weight
// 0 make no cycle.
template <class Word>
__device__ __forceinline__ Word lower(Word* place, Word value) {
    Word before = load_relaxed_gpu(place);
    while (key_of(value) < key_of(before)) {
        const Word now = compare_exchange_relaxed_gpu(place, before, value | (before & queued));
        if (now == before) break;
        before = now;
    }
    return before;
}

// The same where values are not queued.
__device__ __forceinline__ u32 lower_unqueued(u32* place, u32 value) {
    // A plain look first: most arcs lead to settled vertices.
    const u32 before = load_relaxed_gpu(place);
    return key_of(before) <= key_of(value) ? before : fetch_min_relaxed_gpu(place, value);
}
__device__ __forceinline__ u64 lower_unqueued(u64* place, u64 value) {
    return lower(place, value);
}

// As `lower`; the value is queued then. A word with the same key is never larger. A look
// first saves an operation where most arcs lead to settled vertices, and otherwise
// costs a trip.
__device__ __forceinline__ u32 lower_and_queue(u32* place, u32 value, bool looks) {
    if (looks) {
        const u32 before = load_relaxed_gpu(place);
        if (key_of(before) <= key_of(value)) return before;
    }
    return fetch_min_relaxed_gpu(place, value | queued);
}

__device__ __forceinline__ u64 lower_and_queue(u64* place, u64 value, bool) {
    u64 before = load_relaxed_gpu(place);
    while (key_of(value) < key_of(before)) {
        const u64 now = compare_exchange_relaxed_gpu(place, before, value | queued);
        if (now == before) break;
        before = now;
    }
    return before;
}

}  // namespace millstream
