// A meeting of all blocks of one device without a leader and, as a rule, without a fence:
// each block adds what it has counted to a word, and polls it. See NEAR_FAR.md in
// millstream-traversal.
#pragma once

#include "gang_barrier.cuh"

namespace millstream {

// The first `count_of_threads` threads of each block take part.
template <u32 count_of_threads>
class BlockTally {
   public:
    static constexpr u32 threads = count_of_threads;
    // Two counting words, used in turn, far from each other. Zero at first.
    static constexpr u32 apart = 16;
    static constexpr u32 words = 2 * apart;

    struct Sums {
        u32 found;
        u32 surplus;
        bool is_stopped;
    };

    // What a block shares, zero at first.
    struct Shared {
        u64 before[2];  // Each word's value after its last round.
        u64 looked;     // When the first block looked for a stop.
        u32 round;
        Sums sums;
    };

    __device__ BlockTally(u64* places, Shared& shared) : places(places), shared(shared) {}

    // The threads that take part.
    __device__ static void meet_in_block() {
        asm volatile("bar.sync 1, %0;" : : "n"(threads) : "memory");
    }

    // The threads that take part. When all of the block have come, the first calls `count(sums)`,
    // which must compute what the block found from the results of all their claims. A block that
    // says that it is stopped does not meet the others.
    // No claim sees one of a later round. If there is a surplus, or all blocks ask for
    // `order`, what all did before is visible to all after. The gang's barrier says when to
    // give up.
    template <class Count>
    __device__ void meet(const GangBarrier& barrier, bool order, const Count& count) {
        meet_in_block();
        if (threadIdx.x == 0) {
            Sums its{0, 0, false};
            count(its);
            shared.sums = its.is_stopped ? its : add(barrier, its, order);
        }
        meet_in_block();
    }

    // Of the last meeting, until the threads of the block meet again.
    __device__ const Sums& sums() const { return shared.sums; }

   private:
    // Fields of a word, from the lowest bit: blocks that have come, surplus, what was found.
    static constexpr u32 surplus_shift = 10;
    static constexpr u32 found_shift = 37;

    u64* const places;
    Shared& shared;

    // One thread: adds what its block has counted, and waits for the others.
    __device__ Sums add(const GangBarrier& barrier, const Sums& its, bool order) const {
        // Pairs with the fence in `hear`.
        if (its.surplus > 0 || order) fence_acq_rel_gpu();
        const u32 turn = shared.round++ % 2;
        // Relaxed, like the polls: data dependencies give the order of claims.
        fetch_add_relaxed_gpu(
            &places[turn * apart],
            u64(its.found) << found_shift | u64(its.surplus) << surplus_shift | 1);
        // Waits may be too short to look for a stop, and a lone block never waits. The others
        // wait for this block in the next round, and see the stop there.
        if (blockIdx.x == 0 && barrier.is_told_to_stop(shared.looked, nanoseconds()))
            return Sums{0, 0, true};
        return hear(barrier, places[turn * apart], shared.before[turn], order);
    }

    // One thread: waits for the other blocks.
    __device__ static Sums hear(const GangBarrier& barrier, const u64& place, u64& before,
                                bool order) {
        GangBarrier::Patience looks;
        u64 now;
        // Fields of the difference have no carries from earlier rounds.
        while (((now = load_relaxed_gpu(&place)) - before) % (1u << surplus_shift) != gridDim.x) {
            if (barrier.gives_up(looks)) return Sums{0, 0, true};
        }
        const u64 more = now - before;
        before = now;
        const u32 surplus = u32(more >> surplus_shift) % (1u << (found_shift - surplus_shift));
        // Acquires what the blocks with a surplus, or all, have released.
        if (surplus > 0 || order) fence_acq_rel_gpu();
        return Sums{u32(more >> found_shift), surplus, false};
    }
};

}  // namespace millstream
