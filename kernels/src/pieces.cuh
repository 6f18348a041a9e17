// Pieces of the arcs of items that have very many: the fused worker's way to share
// them. A warp that meets such an item cuts its arcs into pieces; every worker warp
// holds a ticket, a position of its own, and takes the piece that comes there.
//
// As in `open_queue.cuh`, an entry says to which lap it belongs. Whoever has exchanged it from
// empty writes it.
#pragma once

#include "grid.cuh"
#include "span.cuh"

namespace millstream {

template <class State>
struct Pieces {
    static_assert(sizeof(State) <= sizeof(u64), "one word");

    // How many arcs make an item worth sharing, and the fewest of a piece, by measurement.
    static constexpr u64 many = 2048;
    static constexpr u64 least = 1024;
    // Entries, a power of two; as `fused.rs` allocates them.
    static constexpr u64 capacity = u64(1) << 18;

    enum Words { tail, head, done, padding, header };
    // The tag: the lap, and below it the first arc plus one, or 0 while the entry is being written.
    // An empty entry's tag is 0.
    enum Entry { tag, last_arc, state, entry_words };
    static constexpr u32 lap_shift = 40;

    // The header, then a ring of entries; all 0 at the start.
    Span<u64> words;

    // Whether there is room for what all warps may add at once.
    __device__ bool has_room() const {
        const u64 used = load_relaxed_gpu(&words[tail]) - load_relaxed_gpu(&words[done]);
        return used + warps() * most_pieces() <= capacity;
    }

    // The whole warp, with the same arguments. False if there is no room after all.
    __device__ bool add(u64 first, u64 last, State its) const {
        const u64 arcs = last - first;
        const u64 most = most_pieces();
        const u64 equal = (arcs + most - 1) / most;
        const u64 size = equal < least ? least : equal;
        const u64 count = (arcs + size - 1) / size;
        u64 base = 0;
        if (lane() == 0) base = fetch_add_relaxed_gpu(&words[tail], count);
        base = __shfl_sync(~0u, base, 0);
        bool fits = true;
        for (u64 at = lane(); at < count && fits; at += 32) {
            const u64 begin = first + at * size;
            fits = put(base + at, begin, begin + size < last ? begin + size : last, its);
        }
        return __all_sync(~0u, fits);
    }

    // One thread. A position of its own.
    __device__ u64 draw() const { return fetch_add_relaxed_gpu(&words[head], u64(1)); }

    // Whether a piece has come to a position.
    __device__ bool has_come(u64 position) const {
        const u64 word = load_relaxed_gpu(entry(position) + tag);
        return word > lap(position) && word - lap(position) <= arc_mask;
    }

    // The whole warp. Takes the piece that has come to a position.
    __device__ void take(u64 position, u64* first, u64* last, State* its) const {
        u64* const from = entry(position);
        // Acquire: pairs with the release in `put`.
        *first = (load_acquire_gpu(from + tag) & arc_mask) - 1;
        *last = load_relaxed_gpu(from + last_arc);
        const u64 word = load_relaxed_gpu(from + state);
        memcpy(its, &word, sizeof(*its));
        __syncwarp();
        if (lane() != 0) return;
        // Release: the entry is read before it is written again.
        store_release_gpu(from + tag, u64(0));
        fetch_add_relaxed_gpu(&words[done], u64(1));
    }

   private:
    static constexpr u32 most_looks = 1 << 20;

    __device__ static u64 warps() { return threads_in_grid() / 32; }

    // Pieces of an item, by measurement; fewer if all warps at once would fill more than four fifths.
    __device__ static u64 most_pieces() {
        const u64 most = capacity / 5 * 4 / warps();
        return most < 64 ? most : 64;
    }

    static constexpr u64 arc_mask = (u64(1) << lap_shift) - 1;

    __device__ u64* entry(u64 at) const {
        return words.items + header + (at & (capacity - 1)) * entry_words;
    }

    // Not 0.
    __device__ static u64 lap(u64 position) { return (position / capacity + 1) << lap_shift; }

    __device__ bool put(u64 position, u64 first, u64 last, State its) const {
        u64* const to = entry(position);
        // Whoever has the ticket of a lap ago is about to empty it. Acquire: pairs
        // with the release in `take`.
        u32 looks = 0;
        while (compare_exchange_acquire_gpu(to + tag, u64(0), lap(position)) != 0) {
            if (++looks == most_looks) return false;
        }
        u64 word = 0;
        memcpy(&word, &its, sizeof(its));
        store_relaxed_gpu(to + last_arc, last);
        store_relaxed_gpu(to + state, word);
        // Release: pairs with the acquire in `take`.
        store_release_gpu(to + tag, lap(position) | (first + 1));
        return true;
    }
};

}  // namespace millstream
