// The queue of the fused worker: as `queue.cuh`, in the same memory, but many warps
// take from it while others put. Whoever wants items draws tickets, positions of its
// own, and looks there until an entry appears: nobody contends for one.
//
// An entry says of which lap it is: the upper bits of its position lie above its item,
// whose number is smaller than the capacity. So who holds a ticket for the next lap
// leaves it alone.
//
// Nothing overflows: an item has an entry for each time its bit was set, and there is
// room for all items beside all threads. Only deferred items leave entries behind
// when they are processed before their turn.
#pragma once

#include "queue.cuh"

namespace millstream {

struct OpenQueue {
    Queue queue;

    // Puts an item for each lane of `group`, which call this together and have set
    // the items' bits. False if there is no room, which ends the run.
    __device__ bool put(u32 group, u32 item) const {
        const u32 leader = __ffs(group) - 1;
        u32 base = 0;
        if (lane() == leader) {
            base = fetch_add_relaxed_gpu(queue.control + Queue::tail, u32(__popc(group)));
        }
        const u32 position =
            __shfl_sync(group, base, leader) + __popc(group & ((1u << lane()) - 1));
        // Whoever has the ticket of a lap ago is about to empty it, unless nobody
        // has: items that are queued again and again without a turn.
        // Relaxed: the bit publishes the value, the entry says where it is.
        u32 looks = 0;
        while (compare_exchange_relaxed_gpu(entry(position), 0u, lap(position) | (item + 1)) != 0) {
            if (++looks == most_looks) return false;
        }
        return true;
    }

    // Draws tickets: positions from the answer on.
    __device__ u32 draw(u32 count) const {
        return fetch_add_relaxed_gpu(queue.control + Queue::head, count);
    }

    // One thread: takes positions that producers have, up to `most` from `*first` on;
    // how many.
    __device__ u32 reserve(u32 most, u32* first) const {
        *first = head();
        const int there = int(tail() - *first);
        if (there <= 0) return 0;
        const u32 count = u32(there) < most ? u32(there) : most;
        u32* const word = queue.control + Queue::head;
        return compare_exchange_relaxed_gpu(word, *first, *first + count) == *first ? count : 0;
    }

    // The item that has come to a position, plus one; 0 as long as none has.
    __device__ u32 look(u32 position) const {
        const u32 item = load_relaxed_gpu(entry(position)) ^ lap(position);
        return item < queue.capacity ? item : 0;
    }

    // Empties a position whose item has come.
    __device__ void empty(u32 position) const { store_relaxed_gpu(entry(position), u32(0)); }

    // Entries that nobody has a ticket for; less than 0 if tickets wait.
    __device__ int backlog() const { return int(tail() - head()); }

    __device__ u32 head() const { return load_relaxed_gpu(queue.control + Queue::head); }
    __device__ u32 tail() const { return load_relaxed_gpu(queue.control + Queue::tail); }

   private:
    static constexpr u32 most_looks = 1 << 20;

    __device__ u32 lap(u32 position) const { return position & ~(queue.capacity - 1); }

    __device__ u32* entry(u32 position) const {
        return queue.entries + (position & (queue.capacity - 1));
    }
};

}  // namespace millstream
