// Copies by threads instead of the copy engine: into a peer's memory (push), out of
// it (pull), or to and from mapped memory of the host (Ben-Nun et al., Groute,
// section 2.1). The launch orders the copy; the kernel's end publishes it.
#pragma once

#include "span.cuh"
#include "tell.cuh"

namespace millstream {

// Loads that a thread has in flight before its first store.
constexpr u32 copies_in_flight = 4;

// Who copies: thread number `thread` of `threads`.
struct Copier {
    u64 thread, threads;
};

template <class Word>
__device__ __forceinline__ void copy_words(Copier by, const unsigned char* from,
                                           unsigned char* to, u64 bytes) {
    const Word* source = reinterpret_cast<const Word*>(from);
    Word* target = reinterpret_cast<Word*>(to);
    const u64 words = bytes / sizeof(Word);
    const u64 step = by.threads;
    u64 at = by.thread;
    for (; at + (copies_in_flight - 1) * step < words; at += copies_in_flight * step) {
        Word loaded[copies_in_flight];
#pragma unroll
        for (u32 turn = 0; turn < copies_in_flight; ++turn) loaded[turn] = source[at + turn * step];
#pragma unroll
        for (u32 turn = 0; turn < copies_in_flight; ++turn) target[at + turn * step] = loaded[turn];
    }
    for (; at < words; at += step) target[at] = source[at];
    // The rest at the end, shorter than a word.
    u64 place = words * sizeof(Word);
    if (sizeof(Word) > sizeof(u32)) {
        const u32* const small = reinterpret_cast<const u32*>(from);
        for (at = place / 4 + by.thread; at < bytes / 4; at += step)
            reinterpret_cast<u32*>(to)[at] = small[at];
        place = bytes / 4 * 4;
    }
    for (place += by.thread; place < bytes; place += step) to[place] = from[place];
}

// In the widest words that both addresses allow.
__device__ __forceinline__ void copy_bytes(Copier by, const unsigned char* from,
                                           unsigned char* to, u64 bytes) {
    const u64 unaligned = reinterpret_cast<u64>(from) | reinterpret_cast<u64>(to);
    if (unaligned % 16 == 0) return copy_words<uint4>(by, from, to, bytes);
    if (unaligned % 8 == 0) return copy_words<u64>(by, from, to, bytes);
    if (unaligned % 4 == 0) return copy_words<u32>(by, from, to, bytes);
    copy_words<unsigned char>(by, from, to, bytes);
}

// All threads of the grid.
__device__ __forceinline__ void copy_bytes(Span<const unsigned char> from,
                                           Span<unsigned char> to) {
    copy_bytes({thread_in_grid(), threads_in_grid()}, from.items, to.items, to.len);
}

// The threads of a grid of one block, which then tells that the copy is done.
__device__ __forceinline__ void copy_bytes_and_tell(Span<const unsigned char> from,
                                                    Span<unsigned char> to, Tell tell) {
    copy_bytes(from, to);
    __syncthreads();
    if (threadIdx.x == 0) tell.say();
}

}  // namespace millstream
