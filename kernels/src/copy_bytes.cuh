// Copies by threads instead of the copy engine: into a peer's memory (push), out of
// it (pull), or to and from mapped memory of the host (Ben-Nun et al., Groute,
// section 2.1). Whoever launches the kernel orders it; its end publishes the copy.
#pragma once

#include "span.cuh"

namespace millstream {

// Of a thread, to have that many loads under way before the first store.
constexpr u32 copies_in_flight = 4;

template <class Word>
__device__ __forceinline__ void copy_words(const unsigned char* from, unsigned char* to,
                                           u64 bytes) {
    const Word* source = reinterpret_cast<const Word*>(from);
    Word* target = reinterpret_cast<Word*>(to);
    const u64 words = bytes / sizeof(Word);
    const u64 step = threads_in_grid();
    u64 at = thread_in_grid();
    for (; at + (copies_in_flight - 1) * step < words; at += copies_in_flight * step) {
        Word loaded[copies_in_flight];
#pragma unroll
        for (u32 turn = 0; turn < copies_in_flight; ++turn) loaded[turn] = source[at + turn * step];
#pragma unroll
        for (u32 turn = 0; turn < copies_in_flight; ++turn) target[at + turn * step] = loaded[turn];
    }
    for (; at < words; at += step) target[at] = source[at];
    // What is less than a word, at the end.
    const u64 copied = words * sizeof(Word);
    const u64 place = copied + thread_in_grid();
    if (place < bytes) to[place] = from[place];
}

// All threads of the grid, in the widest words that both addresses allow. The grid
// has at least 16 threads.
__device__ __forceinline__ void copy_bytes(Span<const unsigned char> from,
                                           Span<unsigned char> to) {
    const u64 bytes = to.len;
    const u64 unaligned = reinterpret_cast<u64>(from.items) | reinterpret_cast<u64>(to.items);
    if (unaligned % 16 == 0) return copy_words<uint4>(from.items, to.items, bytes);
    if (unaligned % 8 == 0) return copy_words<u64>(from.items, to.items, bytes);
    if (unaligned % 4 == 0) return copy_words<u32>(from.items, to.items, bytes);
    copy_words<unsigned char>(from.items, to.items, bytes);
}

}  // namespace millstream
