// Collectives called from a resident kernel: block b of a device's kernel with block b
// of all other devices' kernels, in lines (`collective_lines.cuh`). The blocks of one
// number make the same calls in the same order; blocks of different numbers have
// nothing to do with each other.
//
//     BlockCollectives collectives(resident);  // a `ResidentCollectives`, the kernel's argument
//     ...
//     if (!collectives.all_reduce(items, items, len, combine)) return;
//     ...
//     collectives.leave();
//
// A kernel that ends without `leave`, because it was stopped or a peer did not come, leaves
// its peers in the middle of a collective: the memory can no longer be used, and all calls of
// later kernels return false. So do all calls of blocks that have no memory. Both end the
// gang with an error.
//
// Every call is the whole block's. It returns when the block's results are there, for
// all its threads; false if the kernel must end, because it is stopped or a peer did not
// come in time. Any length will do: vectors longer than the lines are sent in several goes. Items
// have at most 256 bytes if their size is a multiple of 8, 128 if of 4, 64 if of 2, else 32.
// Parts that belong to ranks are as equal as can be, larger ones first, as in the host's
// collectives. The output may be the input where all ranks' pieces of the two are the
// same: not in reduce_scatter and all_gather.
//
// The host's side is `ResidentCollectives` of millstream-flow, where twins on host devices find the
// same calls: `block_collectives.rs`.
#pragma once

#include "collective_lines.cuh"

namespace millstream {

struct BlockCollectiveSettings {
    u64 patience_ns;  // Time without progress that ends the kernel.
    u64 capacity;     // Lines from one rank to another, for one collective.
    u32 rank;
    u32 ranks;
    u32 channels;     // Blocks that may call, at most.
    u32 unused;
};

// What a kernel takes, best as a `const __grid_constant__` parameter: blocks refer to it.
struct ResidentCollectives {
    SpanSet<u64> memory;  // Of each rank.
    Span<u32> host;       // The gang's words.
    BlockCollectiveSettings settings;
};

class BlockCollectives {
   public:
    // The fewest lines from one rank to another, and the most that a unit of items may need.
    static constexpr u32 least_capacity = 32;

    __device__ BlockCollectives(const ResidentCollectives& resident)
        : ranks{resident.memory,        &resident.host[host_stop], resident.settings.patience_ns,
                resident.settings.rank, resident.settings.ranks,   nullptr},
          first((u64(resident.settings.channels) + 1) / 2 * 2 +
                u64(blockIdx.x) * 4 * resident.settings.ranks * resident.settings.capacity),
          capacity(resident.settings.capacity),
          own(blockIdx.x < resident.settings.channels ? ranks.word(resident.settings.rank, blockIdx.x)
                                                      : nullptr),
          epoch(enter()) {}

    __device__ u32 rank() const { return ranks.rank; }

    // Before the kernel ends, so that the next one goes on where this one was.
    __device__ void leave() const {
        if (threadIdx.x == 0 && own != nullptr) *own = epoch;
    }

    // Everyone gets the items of all ranks, combined.
    template <class Element, class Combine>
    __device__ bool all_reduce(const Element* input, Element* output, u64 len, Combine combine) {
        const Piece all{0, len};
        return run(input, output, len, combine, true, [=](u32) { return all; },
                   [=](u32) { return all; });
    }

    // Rank `root` gets the items of all ranks, combined.
    template <class Element, class Combine>
    __device__ bool reduce(u32 root, const Element* input, Element* output, u64 len,
                           Combine combine) {
        const bool is_root = ranks.rank == root;
        return run(input, output, len, combine, true,
                   [=](u32 to) { return Piece{0, to == root ? len : 0}; },
                   [=](u32) { return Piece{0, is_root ? len : 0}; });
    }

    // Each rank gets its part of the combined items, at `output`.
    template <class Element, class Combine>
    __device__ bool reduce_scatter(const Element* input, Element* output, u64 len,
                                   Combine combine) {
        const u32 count = ranks.ranks;
        const u64 own = part(ranks.rank, count, len).len;
        return run(input, output, part(0, count, len).len, combine, true,
                   [=](u32 to) { return part(to, count, len); },
                   [=](u32) { return Piece{0, own}; });
    }

    // Everyone gets the items of rank `root`.
    template <class Element>
    __device__ bool broadcast(u32 root, const Element* input, Element* output, u64 len) {
        const bool is_root = ranks.rank == root;
        return run(input, output, len, First(), false,
                   [=](u32) { return Piece{0, is_root ? len : 0}; },
                   [=](u32 from) { return Piece{0, from == root ? len : 0}; });
    }

    // Everyone gets the parts of all ranks, `len` items in all.
    template <class Element>
    __device__ bool all_gather(const Element* input, Element* output, u64 len) {
        const u32 count = ranks.ranks;
        const u64 own = part(ranks.rank, count, len).len;
        return run(input, output, part(0, count, len).len, First(), false,
                   [=](u32) { return Piece{0, own}; },
                   [=](u32 from) { return part(from, count, len); });
    }

    // Each rank has `len` items for every rank, in the order of the ranks, and gets `len` from each.
    template <class Element>
    __device__ bool all_to_all(const Element* input, Element* output, u64 len) {
        const auto piece = [=](u32 other) { return Piece{other * len, len}; };
        return run(input, output, len, First(), false, piece, piece);
    }

    // What all blocks of this number did before is visible to all after.
    __device__ bool barrier() {
        const auto nothing = [](u32) { return Piece{0, 0}; };
        // The first thread sends and hears: it releases what the block did, and acquires
        // for the block, because lines are relaxed.
        __syncthreads();
        if (threadIdx.x == 0) fence_acq_rel_sys();
        const bool goes_on = run<u64>(nullptr, nullptr, 0, First(), false, nothing, nothing);
        if (threadIdx.x == 0) fence_acq_rel_sys();
        __syncthreads();
        return goes_on;
    }

   private:
    using Piece = LinePiece;

    struct First {
        template <class Element>
        __device__ Element operator()(Element one, Element) const {
            return one;
        }
    };

    // Set beside the epoch in the block's word, from the start until `leave`.
    static constexpr u64 is_inside = u64(1) << 63;

    const Ranks ranks;
    u64 first;  // Word of the block's lines.
    u64 capacity;
    u64* own;   // The block's word; null for a block that there is no memory for.
    u64 epoch;  // Of the last collective; with `is_inside` if an earlier one has not ended well.

    __device__ u64 enter() const {
        if (own == nullptr) return is_inside;
        const u64 before = *own;
        // All have read it before one writes it.
        __syncthreads();
        if (threadIdx.x == 0) *own = before | is_inside;
        return before;
    }

    // A rank's part of `len` items that are divided among `ranks` ranks.
    static __device__ Piece part(u32 rank, u32 ranks, u64 len) {
        const u64 share = len / ranks, more = len % ranks;
        return {rank * share + (rank < more ? rank : more), share + (rank < more)};
    }

    // What is left of a piece from an item on, `most` items at most.
    static __device__ Piece rest(Piece piece, u64 done, u64 most) {
        if (piece.len <= done) return {piece.start, 0};
        const u64 left = piece.len - done;
        return {piece.start + done, left < most ? left : most};
    }

    // `longest` is the length of the longest piece of all ranks: so all ranks send equally often.
    template <class Element, class Combine, class Sends, class Receives>
    __device__ bool run(const Element* input, Element* output, u64 longest, Combine combine,
                        bool combines, Sends sends, Receives receives) {
        if (epoch & is_inside) {
            if (threadIdx.x == 0) give_up(ranks.stop, own == nullptr ? no_memory : not_left);
            return false;
        }
        __shared__ LinePieces pieces;
        using Unit = LineUnit<Element>;
        static_assert(Unit::words <= least_capacity, "items of so many bytes are too large");
        const u64 most = capacity / Unit::words * Unit::count;
        u64 done = 0;
        do {
            // No thread uses the pieces any more, and all threads see what the block wrote.
            __syncthreads();
            const u32 other = threadIdx.x;
            if (other < ranks.ranks) {
                pieces.sends[other] = rest(sends(other), done, most);
                pieces.receives[other] = rest(receives(other), done, most);
            }
            if (other == 0) {
                pieces.in_place = input == output;
                pieces.combines = combines;
            }
            __syncthreads();
            const Lines lines{ranks, first, capacity, ++epoch};
            const LineExchange<Element, Combine, 0> exchange{lines, pieces, input, output, combine};
            const u64 left = longest - done < most ? longest - done : most;
            const u64 units = left == 0 ? 1 : (left + Unit::count - 1) / Unit::count;
            const bool goes_on = exchange.run(threadIdx.x, blockDim.x, units);
            if (!__syncthreads_and(goes_on)) {
                epoch |= is_inside;
                return false;
            }
            done += most;
        } while (done < longest);
        return true;
    }
};

}  // namespace millstream
