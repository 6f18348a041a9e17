// Arcs of items that have very many: a warp that meets such an item puts its arcs
// here, and all warps of the kernel take pieces of them when they have nothing
// else to do.
#pragma once

#include "span.cuh"

namespace millstream {

template <class State>
struct SharedArcs {
    static_assert(sizeof(State) <= sizeof(u64), "one word");

    // How many arcs make an item worth sharing, and how many a piece has.
    static constexpr u64 many = 1024;
    static constexpr u64 piece = 256;

    enum Words { added, header };
    enum Entry { next, last, state, entry_words };

    // The header, then the entries; all 0 between kernels.
    Span<u64> words;

    __device__ u64 capacity() const { return (words.len - header) / entry_words; }

    __device__ u64* entry(u64 at) const { return words.items + header + at * entry_words; }

    // One thread. False if there is no room: the caller visits the arcs itself.
    __device__ bool add(u64 first, u64 end, State its) const {
        if (words.len <= header) return false;
        // Relaxed: `next` publishes the entry.
        const u64 at = fetch_add_relaxed_gpu(&words[added], u64(1));
        if (at >= capacity()) return false;
        u64 word = 0;
        memcpy(&word, &its, sizeof(its));
        entry(at)[last] = end;
        entry(at)[state] = word;
        // Release: pairs with the acquire in `is_open`.
        store_release_gpu(&entry(at)[next], first + 1);
        return true;
    }

    // Calls `use(first, last, state)` for pieces of what is here, all lanes of a warp
    // together.
    // Each warp looks through all entries, from a place of its own on; entries that are
    // added later are found by those who add them.
    template <class Use>
    __device__ void for_each(Use use) const {
        u64 before = 0;
        for_each_since(&before, use);
    }

    // The same for entries after the first `*before`, which then becomes the number of all.
    template <class Use>
    __device__ void for_each_since(u64* before, Use use) const {
        if (words.len <= header) return;
        // The most that any lane sees: others may add meanwhile, all lanes must take every
        // turn, and what a lane has added it sees itself.
        const u64 all = __reduce_max_sync(~0u, u32(used())) - *before;
        const u64 start = thread_in_grid() / 32 * all / (threads_in_grid() / 32);
        for (u64 seen = 0; seen < all;) {
            const bool is_there = seen + lane() < all;
            const u64 at = is_there ? *before + (start + seen + lane()) % all : 0;
            u64 first = 0;
            u64 end = 0;
            u32 open = __ballot_sync(~0u, is_there && is_open(at));
            if (open == 0) {
                seen += 32;
                continue;
            }
            const u32 taker = __ffs(open) - 1;
            u64 word = 0;
            if (lane() == taker) {
                end = entry(at)[last];
                // The lane that has acquired the entry reads all of it.
                word = entry(at)[state];
                const u64 taken = fetch_add_acq_rel_gpu(&entry(at)[next], piece) - 1;
                first = taken < end ? taken : end;
                end = first + piece < end ? first + piece : end;
            }
            first = __shfl_sync(~0u, first, taker);
            end = __shfl_sync(~0u, end, taker);
            word = __shfl_sync(~0u, word, taker);
            State its;
            memcpy(&its, &word, sizeof(its));
            use(first, end, its);
        }
        *before += all;
    }

    // The whole last block, when all arcs have been taken.
    __device__ void clear() const {
        if (words.len <= header) return;
        for (u64 at = threadIdx.x; at < used(); at += blockDim.x) entry(at)[next] = 0;
        __syncthreads();
        if (threadIdx.x == 0) words[added] = 0;
    }

   private:
    __device__ u64 used() const {
        const u64 all = load_relaxed_gpu(&words[added]);
        return all < capacity() ? all : capacity();
    }

    __device__ bool is_open(u64 at) const {
        u64 from;
        // Whoever counted the entry is about to write it. Acquire: pairs with `add`.
        while ((from = load_acquire_gpu(&entry(at)[next])) == 0) {
        }
        return from - 1 < entry(at)[last];
    }
};

}  // namespace millstream
