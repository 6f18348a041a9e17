// Queues of work-items whose truth is a bit for each item; the twin of
// `queue.rs` in the worklist, whose README has the protocol and its races.
#pragma once

#include "span.cuh"

namespace millstream {

// Any number of producers, one consuming kernel at a time.
struct Queue {
    // Words of control. The consumer alone changes head and swept.
    enum Control { head, tail, overflowed, swept, control_words };

    u32* bits;
    u64 words;
    // A ring of items plus one; an entry is 0 until whoever reserved it has written it.
    u32* entries;
    // A power of two: places stay when positions wrap around.
    u32 capacity;
    u32* control;
    u32 most;  // Items that it may hold at once.

    // Queues an item whose value is already written. False if it is queued
    // already, in which case its consumer will see that value. The lanes of
    // `group` call this together, each with an item of its own.
    __device__ bool push(u32 group, u32 item) const {
        const bool is_new = mark(item);
        const u32 news = __ballot_sync(group, is_new);
        if (news == 0) return false;
        const u32 leader = __ffs(news) - 1;
        const u32 count = __popc(news);
        u32 base = 0;
        u32 room = 0;
        if (lane() == leader) room = reserve(count, &base);
        base = __shfl_sync(group, base, leader);
        room = __shfl_sync(group, room, leader);
        const u32 place = __popc(news & ((1u << lane()) - 1));
        // Relaxed: the bit publishes the value, the entry says where it is.
        if (is_new && place < room) {
            store_relaxed_gpu(entries + ((base + place) & (capacity - 1)), item + 1);
        }
        return is_new;
    }

    // Sets an item's bit, after its value was written. False if it was set.
    __device__ bool mark(u32 item) const {
        const u32 mask = 1u << (item & 31);
        // Release: the value is before the bit; pairs with `claim`.
        return !(fetch_or_release_gpu(bits + item / 32, mask) & mask);
    }

    // The number of entries, approximately.
    __device__ u32 length() const {
        return load_relaxed_gpu(control + tail) - load_relaxed_gpu(control + head);
    }

    // Takes an item out of the queue: clears its bit. Its value must be read after that.
    // False if the entry is stale.
    __device__ bool claim(u32 item) const {
        const u32 mask = 1u << (item & 31);
        // Acquire: pairs with the release of whoever set the bit; whoever writes a
        // value later sets the bit again.
        return fetch_and_acquire_gpu(bits + item / 32, ~mask) & mask;
    }

    // Whether an item is queued. An item that is queued meanwhile may be missed: it stays queued.
    __device__ bool has(u32 item) const {
        return load_relaxed_gpu(bits + item / 32) >> (item & 31) & 1;
    }

    // Puts a claimed item back for a later sweep. False if it has been queued again
    // meanwhile: then the two have become one.
    __device__ bool put_back(u32 item) const {
        const u32 mask = 1u << (item & 31);
        return !(fetch_or_acq_rel_gpu(bits + item / 32, mask) & mask);
    }

    // Empties the entry at a position and returns its item. Whoever reserved it is
    // about to write it.
    __device__ u32 entry(u32 position) const {
        u32* const place = entries + (position & (capacity - 1));
        u32 item;
        while ((item = load_relaxed_gpu(place)) == 0) {
        }
        store_relaxed_gpu(place, u32(0));
        return item - 1;
    }

   private:
    // Reserves up to `count` entries from `*base` on; the rest is counted as an
    // overflow, after their bits are set.
    __device__ u32 reserve(u32 count, u32* base) const {
        u32 from = load_relaxed_gpu(control + tail);
        // Acquire: pairs with the release of the head.
        const u32 used = from - load_acquire_gpu(control + head);
        const u32 spare = capacity > most_threads() ? most_threads() : 0;
        // The tail may be older than the head.
        if (spare > 0 && used < capacity - spare) {
            // All threads may add at once after such a look, but each only once: then it has seen
            // the new tail.
            *base = fetch_add_relaxed_gpu(control + tail, count);
            return count;
        }
        for (;;) {
            const u32 now_used = from - load_acquire_gpu(control + head);
            // The spare entries are left to threads that looked before the queue was full.
            const u32 left = now_used > capacity - spare ? 0 : capacity - spare - now_used;
            const u32 room = left < count ? left : count;
            const u32 before = room == 0
                                   ? load_relaxed_gpu(control + tail)
                                   : compare_exchange_relaxed_gpu(control + tail, from, from + room);
            if (before != from) {
                from = before;
                continue;
            }
            if (room < count) fetch_add_acq_rel_gpu(control + overflowed, count - room);
            *base = from;
            return room;
        }
    }
};

// What one kernel consumes of a queue: the same for all of its blocks.
struct Snapshot {
    u32 head;
    u32 count;
    u32 overflowed;
    u32 swept;  // Overflows that earlier sweeps have seen to.

    static constexpr u32 mask = 0x7fffffff;
    static constexpr u64 taken = u64(1) << 63;

    // The first block decides; `word` is 0 between kernels. At most `most` entries
    // are consumed. The snapshot stays in shared memory: registers are short.
    __device__ static const Snapshot& take(const Queue& queue, u64* word, u64 most) {
        __shared__ Snapshot agreed;
        if (threadIdx.x == 0) {
            // All loads under way together.
            u64 known = load_relaxed_gpu(word);
            const u32 overflows = load_relaxed_gpu(queue.control + Queue::overflowed) & mask;
            const u32 tail = load_relaxed_gpu(queue.control + Queue::tail);
            agreed.head = load_relaxed_gpu(queue.control + Queue::head);
            agreed.swept = load_relaxed_gpu(queue.control + Queue::swept);
            // The counts are read before any bit, also by blocks that see the word: a producer sets
            // its bit, then counts.
            fence_acq_rel_gpu();
            if (known == 0) {
                const u64 mine = taken | u64(overflows) << 32 | tail;
                known = compare_exchange_relaxed_gpu(word, u64(0), mine);
                if (known == 0) {
                    known = mine;
                } else {
                    fence_acq_rel_gpu();
                }
            }
            agreed.overflowed = u32(known >> 32) & mask;
            const u32 count = u32(known) - agreed.head;
            agreed.count = count < most ? count : u32(most);
        }
        __syncthreads();
        return agreed;
    }

    __device__ bool sweeps() const { return overflowed != swept; }

    // What the last thread of the last block does. `whole`: a sweep has seen
    // everything. True if something is left or has come meanwhile; whoever adds later
    // tells the host itself.
    __device__ bool finish(const Queue& queue, u64* word, bool whole) const {
        const u32 tail = load_relaxed_gpu(queue.control + Queue::tail);
        const u32 overflows = load_relaxed_gpu(queue.control + Queue::overflowed) & mask;
        const u32 seen = whole ? overflowed : swept;
        // Release: the entries are empty before a producer may reserve them. This store comes first:
        // no other store is under way that it would have to wait for.
        store_release_gpu(queue.control + Queue::head, head + count);
        store_relaxed_gpu(queue.control + Queue::swept, seen);
        store_relaxed_gpu(word, u64(0));
        return tail != head + count || overflows != seen;
    }

    // Calls `use(is_item, item)` for everything to consume, all lanes of a warp
    // together. All warps get equally many.
    template <class Use>
    __device__ void for_each(const Queue& queue, Use use) const {
        const u64 rounds = (count + threads_in_grid() - 1) / threads_in_grid();
        u64 at = lane() * (threads_in_grid() / 32) + thread_in_grid() / 32;
        for (u64 round = 0; round < rounds; ++round, at += threads_in_grid()) {
            const bool is_item = at < count;
            use(is_item, is_item ? queue.entry(head + u32(at)) : 0);
        }
        if (!sweeps()) return;
        const u64 sweeps_rounds = (queue.words + threads_in_grid() - 1) / threads_in_grid();
        at = thread_in_grid();
        for (u64 round = 0; round < sweeps_rounds; ++round, at += threads_in_grid()) {
            u32 set = at < queue.words ? load_relaxed_gpu(queue.bits + at) : 0;
            while (__any_sync(~0u, set != 0)) {
                const bool is_item = set != 0;
                use(is_item, is_item ? u32(at * 32) + __ffs(set) - 1 : 0);
                set &= set - 1;
            }
        }
    }
};

}  // namespace millstream
