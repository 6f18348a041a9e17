// The queue of the fused worker: as `queue.cuh`, in the same memory, but many warps
// take from it while others put. Whoever wants items draws tickets, positions of its
// own, and looks there until an entry appears: nobody contends for an entry.
//
// An entry says to which lap it belongs: above its item it has the upper bits of its position.
// Emptying a place marks it for the next lap, so that laps use a place in their order.
//
// If the queue has room for all items that it may hold, and for a ticket of every thread, an
// item always finds a place. If not, an item without a place has only its bit, and a sweep
// finds it.
#pragma once

#include "queue.cuh"

namespace millstream {

struct OpenQueue {
    Queue queue;
    // Whether every item that may be here has a place, beside a ticket for every thread.
    bool is_roomy;
    // Bits that an item plus one needs beyond those of a place.
    u32 extra_bits;

    __device__ explicit OpenQueue(const Queue& queue)
        : queue(queue),
          is_roomy(queue.capacity >= queue.most + most_threads),
          extra_bits(0) {
        const u32 items = u32(queue.words * 32);
        if (queue.capacity <= items) extra_bits = u32(__clz(queue.capacity) + 1 - __clz(items));
    }

    // Puts an item for each lane of `group`, which call this together and have set
    // the items' bits. False if there is no room after all, which ends the run.
    __device__ bool put(u32 group, u32 item) const {
        if (is_roomy) return put_in_turn(group, item);
        put_or_overflow(item);
        return true;
    }

    // Draws tickets: positions from the answer on.
    __device__ u32 draw(u32 count) const {
        return fetch_add_relaxed_gpu(queue.control + Queue::head, count);
    }

    // One thread: takes up to `most` positions that producers have reserved, from `*first`
    // on; returns how many.
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
        return item < span() ? item : 0;
    }

    // Empties a position whose item has come, for the next lap.
    __device__ void empty(u32 position) const {
        store_relaxed_gpu(entry(position), lap(position + queue.capacity));
    }

    // One thread: whether items have found no place since the last sweep. If so, the
    // caller sweeps for them, and nobody else does.
    __device__ bool must_sweep() const {
        // Acquire: pairs with the release in `put_or_overflow`; the bits are before it.
        const u32 overflows = load_acquire_gpu(queue.control + Queue::overflowed);
        u32* const word = queue.control + Queue::swept;
        const u32 swept = load_relaxed_gpu(word);
        return overflows != swept && compare_exchange_relaxed_gpu(word, swept, overflows) == swept;
    }

    // Entries that nobody has a ticket for; less than 0 if tickets wait.
    __device__ int backlog() const { return int(tail() - head()); }

    __device__ u32 head() const { return load_relaxed_gpu(queue.control + Queue::head); }
    __device__ u32 tail() const { return load_relaxed_gpu(queue.control + Queue::tail); }

   private:
    static constexpr u32 most_looks = 1 << 20;
    // Threads of a gang on one device, at most.
    static constexpr u32 most_threads = 1 << 18;

    // Every lane gets a position, and waits there for the holder of the ticket of a lap ago,
    // who is about to empty the place. It gives up if nobody holds that ticket, because items
    // were queued again and again without their turn.
    __device__ bool put_in_turn(u32 group, u32 item) const {
        const u32 leader = __ffs(group) - 1;
        u32 base = 0;
        if (lane() == leader) {
            base = fetch_add_relaxed_gpu(queue.control + Queue::tail, u32(__popc(group)));
        }
        const u32 position =
            __shfl_sync(group, base, leader) + __popc(group & ((1u << lane()) - 1));
        u32 looks = 0;
        while (!is_empty(position)) {
            if (++looks == most_looks) return false;
        }
        write(position, item);
        return true;
    }

    // Takes the next position only if its place is empty, and waits for nobody.
    __device__ void put_or_overflow(u32 item) const {
        u32 position = tail();
        for (;;) {
            const bool has_room = is_empty(position);
            const u32 now = has_room ? compare_exchange_relaxed_gpu(queue.control + Queue::tail,
                                                                    position, position + 1)
                                     : tail();
            if (now == position) {
                if (!has_room) break;
                return write(position, item);
            }
            position = now;
        }
        // Release: the bit is set before.
        fetch_add_acq_rel_gpu(queue.control + Queue::overflowed, u32(1));
    }

    // Whether the entry of the lap before has been taken.
    __device__ bool is_empty(u32 position) const {
        return load_relaxed_gpu(entry(position)) == lap(position);
    }

    // Writes the entry of an empty place: only the holder of the position does. Relaxed: the
    // bit publishes the value, the entry says where it is.
    __device__ void write(u32 position, u32 item) const {
        store_relaxed_gpu(entry(position), lap(position) | (item + 1));
    }

    // The power of two above an item plus one, and not below the capacity: in an entry
    // the lap is above it.
    __device__ u32 span() const { return queue.capacity << extra_bits; }

    __device__ u32 lap(u32 position) const {
        return (position & ~(queue.capacity - 1)) << extra_bits;
    }

    __device__ u32* entry(u32 position) const {
        return queue.entries + (position & (queue.capacity - 1));
    }
};

// A warp's way through the bits of a queue, for items that have no entry. It is in
// shared memory, to take no registers of warps that never sweep.
struct Sweep {
    // Words before this one are done; `over` when there is nothing to do.
    u32 at;
    static constexpr u32 over = ~0u;

    // The next items of a queue, plus one, at most one for each of the first `most` lanes
    // and 0 for the others. The lanes of a warp call this together; items that are not
    // claimed come again.
    __device__ u32 next(const OpenQueue& open, u32 most) {
        if (open.is_roomy) return 0;
        const Queue& queue = open.queue;
        u32 from = at;
        if (from == over) {
            const u32 begins = lane() == 0 && open.must_sweep();
            if (!__shfl_sync(~0u, begins, 0)) return 0;
            // What the first lane has acquired is before what the others read.
            __syncwarp();
            from = 0;
        }
        u32 item = 0;
        for (; from < queue.words; from += most) {
            const u32 word = from + lane();
            const bool looks = lane() < most && word < queue.words;
            const u32 set = looks ? load_relaxed_gpu(queue.bits + word) : 0;
            if (set != 0) item = word * 32 + __ffs(set);
            if (__any_sync(~0u, set != 0)) break;
        }
        __syncwarp();
        if (lane() == 0) at = from < queue.words ? from : over;
        __syncwarp();
        return item;
    }
};

}  // namespace millstream
