// The queue of the fused worker: as `queue.cuh`, in the same memory, but many blocks
// take from it while others put, and nothing overflows. It has an entry for every
// item whose bit is set, and room for all of them beside all threads.
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
            const u32 head = load_relaxed_gpu(queue.control + Queue::head);
            *full = base + __popc(news) - head > queue.capacity;
        }
        base = __shfl_sync(group, base, leader);
        const bool has_room = __ballot_sync(group, *full) == 0;
        if (is_new && has_room) {
            const u32 position = base + __popc(news & ((1u << lane()) - 1));
            u32* const place = queue.entries + (position & (queue.capacity - 1));
            // Whoever took the entry a lap ago is about to empty it.
            while (load_relaxed_gpu(place) != 0) {
            }
            // Relaxed: the bit publishes the value, the entry says where it is.
            store_relaxed_gpu(place, item + 1);
        }
        return is_new;
    }

    // One thread. Takes up to `most` entries before position `end` for itself or its
    // block: from `*first` on. Each must be read with `Queue::entry`.
    __device__ u32 take(u32 most, u32 end, u32* first) const {
        u32 from = load_relaxed_gpu(queue.control + Queue::head);
        for (;;) {
            const int left = int(end - from);
            if (left <= 0) return 0;
            const u32 count = u32(left) < most ? u32(left) : most;
            // Relaxed: entries speak for themselves.
            const u32 before =
                compare_exchange_relaxed_gpu(queue.control + Queue::head, from, from + count);
            if (before == from) {
                *first = from;
                return count;
            }
            from = before;
        }
    }

    __device__ u32 head() const { return load_relaxed_gpu(queue.control + Queue::head); }
    __device__ u32 tail() const { return load_relaxed_gpu(queue.control + Queue::tail); }
};

}  // namespace millstream
