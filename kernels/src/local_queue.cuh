// The queue of one block of the fused worker, in its shared memory: what its warps
// make ready goes here first, where the next warp finds it without a trip to the
// device's memory. It is short, so that a block keeps no more than it can do soon;
// the rest goes to the open queue, for all blocks. FUSED.md has the protocol.
#pragma once

#include "grid.cuh"

namespace millstream {

// Any warp of the block puts, any takes.
struct LocalQueue {
    // Most items here, and most that a warp takes at once, by measurement.
    static constexpr u32 most = 16;
    static constexpr u32 at_once = 8;
    // More than `most`, so that a put rarely meets an unfinished take.
    static constexpr u32 places = 64;

    u32 head, tail;
    // Items plus one; 0 is an empty place.
    u32 items[places];

    // The whole block, before anything else.
    __device__ void clear() {
        for (u32 at = threadIdx.x; at < places; at += blockDim.x) items[at] = 0;
        if (threadIdx.x == 0) head = tail = 0;
        __syncthreads();
    }

    // Puts an item for each lane of `group`, which call this together; false, and
    // puts none, if there is no room for all.
    __device__ bool put(u32 group, u32 item) {
        const u32 count = __popc(group);
        const u32 leader = __ffs(group) - 1;
        u32 base = 0;
        bool fits = true;
        while (lane() == leader) {
            base = look(&tail);
            fits = base + count - look(&head) <= most;
            if (!fits || atomicCAS(&tail, base, base + count) == base) break;
        }
        if (!__shfl_sync(group, fits, leader)) return false;
        base = __shfl_sync(group, base, leader);
        u32* const place = &items[(base + __popc(group & ((1u << lane()) - 1))) % places];
        // Whoever took the last item here is about to empty the place. By exchange: whoever reserved
        // it a lap ago may not have put its item yet, and a store would lose one of the two.
        while (atomicCAS(place, 0u, item + 1) != 0) {
        }
        return true;
    }

    // The lanes of a warp together: takes items for those that are free. Returns the item
    // plus one; 0 for a lane that gets none.
    __device__ u32 take(bool is_free) {
        const u32 lanes = __ballot_sync(~0u, is_free);
        u32 base = 0;
        u32 count = 0;
        while (lane() == 0) {
            base = look(&head);
            const u32 there = look(&tail) - base;
            // The head may be older than the tail.
            if (there == 0 || there > most) break;
            count = there < at_once ? there : at_once;
            if (count > __popc(lanes)) count = __popc(lanes);
            if (atomicCAS(&head, base, base + count) == base) break;
            count = 0;
        }
        count = __shfl_sync(~0u, count, 0);
        base = __shfl_sync(~0u, base, 0);
        const u32 rank = __popc(lanes & ((1u << lane()) - 1));
        if (!is_free || rank >= count) return 0;
        u32* const place = &items[(base + rank) % places];
        u32 item;
        // Whoever reserved the place is about to put its item. By exchange: whoever takes a lap
        // later may be looking here, too.
        while ((item = atomicExch(place, 0u)) == 0) {
        }
        return item;
    }

   private:
    __device__ static u32 look(const u32* word) {
        return *static_cast<const volatile u32*>(word);
    }
};

}  // namespace millstream
