// Arcs of items that have very many: a warp that meets such an item puts its arcs
// here, and all warps of the kernel take pieces of them when they have nothing
// else to do.
#pragma once

#include "span.cuh"

namespace millstream {

template <class State>
struct SharedArcs {
    static_assert(sizeof(State) <= sizeof(u64), "one word");

    // Arcs from which an item is worth sharing, and arcs of a piece.
    static constexpr u64 many = 1024;
    static constexpr u64 piece = 256;

    enum Words { added, first_open, header };
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
        // Release: pairs with the acquire in `take`.
        store_release_gpu(&entry(at)[next], first + 1);
        return true;
    }

    // A whole warp. Takes arcs `*first..*end`, all of one item; false if none are
    // left. What others add later they find themselves.
    __device__ bool take(u64* first, u64* end, State* its) const {
        if (words.len <= header) return false;
        u64 from = 0;
        u64 to = 0;
        u64 word = 0;
        if (lane() == 0) {
            for (;;) {
                const u64 open = load_relaxed_gpu(&words[first_open]);
                const u64 all = load_relaxed_gpu(&words[added]);
                if (open >= (all < capacity() ? all : capacity())) break;
                u64* const its_entry = entry(open);
                // Whoever counted it is about to write it.
                while (load_acquire_gpu(&its_entry[next]) == 0) {
                }
                const u64 at = fetch_add_acq_rel_gpu(&its_entry[next], piece) - 1;
                const u64 its_last = its_entry[last];
                if (at < its_last) {
                    from = at;
                    to = at + piece < its_last ? at + piece : its_last;
                    word = its_entry[state];
                    break;
                }
                compare_exchange_relaxed_gpu(&words[first_open], open, open + 1);
            }
        }
        *first = __shfl_sync(~0u, from, 0);
        *end = __shfl_sync(~0u, to, 0);
        word = __shfl_sync(~0u, word, 0);
        memcpy(its, &word, sizeof(*its));
        return *first < *end;
    }

    // The whole last block, when all arcs have been taken.
    __device__ void clear() const {
        if (words.len <= header) return;
        const u64 all = load_relaxed_gpu(&words[added]);
        const u64 used = all < capacity() ? all : capacity();
        for (u64 at = threadIdx.x; at < used; at += blockDim.x) entry(at)[next] = 0;
        __syncthreads();
        if (threadIdx.x == 0) words[added] = words[first_open] = 0;
    }
};

}  // namespace millstream
