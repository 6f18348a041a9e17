// The queue of the fused worker: as `queue.cuh`, in the same memory, but many warps
// take from it while others put. Whoever wants items draws tickets, positions of its
// own, and looks there until an entry appears: nobody contends for one.
//
// Nothing overflows: an item has an entry for each time its bit was set, and there is
// room for all items beside all threads. Only deferred items leave entries behind
// when they are processed before their turn.
#pragma once

#include "queue.cuh"

namespace millstream {

struct OpenQueue {
    Queue queue;

    // As `Queue::push`. Sets `*full` if there is no room, which ends the run.
    __device__ bool push(u32 group, u32 item, bool* full) const {
        const u32 mask = 1u << (item & 31);
        // Release: the value is before the bit. Acquire: pairs with `claim`.
        const bool is_new = !(fetch_or_acq_rel_gpu(queue.bits + item / 32, mask) & mask);
        const u32 news = __ballot_sync(group, is_new);
        if (news == 0) return false;
        const u32 leader = __ffs(news) - 1;
        u32 base = 0;
        if (lane() == leader) {
            base = fetch_add_relaxed_gpu(queue.control + Queue::tail, u32(__popc(news)));
        }
        base = __shfl_sync(group, base, leader);
        if (is_new) {
            u32* const place = entry(base + __popc(news & ((1u << lane()) - 1)));
            // Whoever has the ticket of a lap ago is about to empty it, unless it is of
            // this lap: items that are queued again and again without a turn.
            for (u32 looks = 0; load_relaxed_gpu(place) != 0; ++looks) {
                if (looks == most_looks) {
                    *full = true;
                    return true;
                }
            }
            // Relaxed: the bit publishes the value, the entry says where it is.
            store_relaxed_gpu(place, item + 1);
        }
        return is_new;
    }

    // Draws tickets: positions from the answer on.
    __device__ u32 draw(u32 count) const {
        return fetch_add_relaxed_gpu(queue.control + Queue::head, count);
    }

    // The item that has come to a position, plus one; 0 as long as none has.
    __device__ u32 look(u32 position) const { return load_relaxed_gpu(entry(position)); }

    // Empties a position whose item has come.
    __device__ void empty(u32 position) const { store_relaxed_gpu(entry(position), u32(0)); }

    // Entries that nobody has a ticket for; less than 0 if tickets wait.
    __device__ int backlog() const { return int(tail() - head()); }

    __device__ u32 head() const { return load_relaxed_gpu(queue.control + Queue::head); }
    __device__ u32 tail() const { return load_relaxed_gpu(queue.control + Queue::tail); }

   private:
    static constexpr u32 most_looks = 1 << 20;

    __device__ u32* entry(u32 position) const {
        return queue.entries + (position & (queue.capacity - 1));
    }
};

}  // namespace millstream
