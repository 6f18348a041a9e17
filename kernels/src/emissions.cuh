// Items that a warp has emitted and not sent yet: gathered in shared memory until
// there is one for each lane, since queueing one item takes as long as queueing 32.
#pragma once

#include "grid.cuh"

namespace millstream {

struct Emissions {
    u32 items[64];
    u32 priorities[64];

    // Adds the items of `group`'s lanes behind `count` others, at most 31. The lanes
    // of a warp call this together.
    __device__ void add(u32 group, u32 count, u32 item, u32 priority) {
        const u32 place = count + __popc(group & ((1u << lane()) - 1));
        if (group >> lane() & 1) {
            items[place] = item;
            priorities[place] = priority;
        }
        __syncwarp();
    }

    // Moves what comes after the first 32 to the front.
    __device__ void drop_sent() {
        const u32 item = items[32 + lane()];
        const u32 priority = priorities[32 + lane()];
        __syncwarp();
        items[lane()] = item;
        priorities[lane()] = priority;
        __syncwarp();
    }
};

}  // namespace millstream
