// Where items go on one device (Ben-Nun et al., Groute, ACM TOPC 7(3), art. 18, 2020,
// sections 4.3 and 4.4): queued here, deferred, or sent on; and how they are counted.
#pragma once

#include "emissions.cuh"
#include "local_queue.cuh"
#include "open_queue.cuh"
#include "queue.cuh"
#include "worklist_words.cuh"

namespace millstream {

// What a block has counted and queued, told to the device at its end.
struct Tally {
    static constexpr u32 most_devices = 1024;
    static constexpr u32 most_warps = 8;

    u32 count[counters];
    unsigned char news[most_devices + 1];
    // Of each warp.
    Emissions emissions[most_warps];
};
// Split-send and split-receive, for programs as `worklist.cuh` describes them. Fused: a
// single kernel does the whole run, so counts must be right at any moment, and queues are
// open queues.
template <class Program, bool is_fused>
struct Split {
    const Common<Program>& common;
    Tally& tally;
    // Items whose priority value is higher are deferred.
    u32 threshold;
    // Fused: what this warp has counted as produced in advance.
    u32 credit = 0;
    // Fused: the block's local queue, if the block works.
    LocalQueue* local = nullptr;
    // Counts of this thread.
    u32 count[counters];

    __device__ Split(const Common<Program>& common, Tally& tally, u32 threshold)
        : common(common), tally(tally), threshold(threshold), count{} {
        for (u32 at = threadIdx.x; at < counters; at += blockDim.x) tally.count[at] = 0;
        for (u32 at = threadIdx.x; at <= outboxes(); at += blockDim.x) tally.news[at] = 0;
        __syncthreads();
    }

    __device__ u32 outboxes() const {
        return u32(common.queues.control.len / Queue::control_words) - outbox_queues;
    }

    __device__ Queue queue(u32 place) const { return queue_of(common, place); }

    __device__ static Queue queue_of(const Common<Program>& common, u32 place) {
        const u32 queues = u32(common.queues.control.len / Queue::control_words);
        const u64 words = common.queues.bits.len / queues;
        const u64 capacity = common.queues.entries.len / queues;
        return Queue{common.queues.bits.items + place * words, words,
                     common.queues.entries.items + place * capacity, u32(capacity),
                     common.queues.control.items + place * Queue::control_words,
                     common.queues.most};
    }

    __device__ void fail(u64 what, u32 item) const {
        compare_exchange_relaxed_gpu(&common.status[fault], u64(0), what << 32 | item);
    }

    // Queues an item for each lane of `group`, which call this together; false if it is
    // queued already.
    __device__ bool push(u32 place, u32 group, u32 item) const {
        if constexpr (is_fused) {
            const bool is_new = queue(place).mark(item);
            const u32 news = __ballot_sync(group, is_new);
            if (!is_new) return false;
            if (place == ready_queue && local != nullptr && local->put(news, item)) return true;
            if (!OpenQueue{queue(place)}.put(news, item)) fail(queue_full, place);
            return true;
        } else {
            return queue(place).push(group, item);
        }
    }

    // Fused: counts `what` now, before anything that this warp makes visible later. The
    // lanes of a warp call this together.
    __device__ void count_now(Status what, u32 by) const {
        if (lane() == 0) fetch_add_relaxed_sys(&common.status[what], u64(by));
        __syncwarp();
    }

    // Fused: tells the device what the lanes of a warp have counted since the last call. What they
    // produced was counted before; what was counted in advance and not needed counts as consumed.
    __device__ void tell() {
        const u32 done = __reduce_add_sync(~0u, count[consumed]) + credit;
        const u32 in = __reduce_add_sync(~0u, count[deferred_in]);
        const u32 items = __reduce_add_sync(~0u, count[work_items]);
        count[consumed] = count[deferred_in] = count[work_items] = credit = 0;
        // What all lanes have done comes before what the first one tells.
        __syncwarp();
        if (lane() != 0) return;
        // Relaxed: whoever acquires `consumed`, raised below for the same items, sees this count.
        if (items > 0) fetch_add_relaxed_sys(&common.status[work_items], u64(items));
        // Release: pairs with the acquire of whoever looks for the end.
        if (in > 0) fetch_add_release_sys(&common.status[deferred_in], u64(in));
        if (done > 0) fetch_add_release_sys(&common.status[consumed], u64(done));
    }

    // Fused: counts what a warp may produce, before it produces it; some more in advance.
    __device__ void produce(u32 most) {
        if (credit < most) {
            const u32 more = most < 256 ? 256 : most;
            count_now(produced, more);
            credit += more;
        }
        credit -= most;
    }
    // Makes an item ready, or defers it. The lanes of a warp call this together.
    __device__ void keep(bool selected, u32 item) {
        const bool matters = selected && threshold != ~0u;
        keep(selected, item, matters ? Program::priority(common.problem, item) : 0);
    }

    __device__ void keep(bool selected, u32 item, u32 priority) {
        if (threshold != ~0u) {
            defer(selected && priority > threshold, item, priority);
            selected = selected && priority <= threshold;
        }
        const u32 group = __ballot_sync(~0u, selected);
        if (!selected) return;
        if (!push(ready_queue, group, item)) count[consumed] += 1;
        tally.news[0] = 1;
    }

    // Defers an item. The lanes of a warp call this together.
    __device__ void defer(bool selected, u32 item, u32 priority) {
        const u32 group = __ballot_sync(~0u, selected);
        if (!selected) return;
        const bool is_new = push(deferred_queue, group, item);
        count[deferred_in] += is_new;
        count[consumed] += !is_new;
        const u64 least = __reduce_min_sync(group, priority);
        if (lane() == __ffs(group) - 1) lower_deferred(least);
    }

    // A known priority up to the threshold is stale: it is from before the threshold rose.
    __device__ void lower_deferred(u64 priority) const {
        u64* const word = &common.status[lowest_deferred];
        // Of system scope: the leader reads it from another device.
        u64 known = load_relaxed_sys(word);
        while (known <= threshold || priority < known) {
            const u64 before = compare_exchange_relaxed_sys(word, known, priority);
            if (before == known) return;
            known = before;
        }
    }

    // Queues an item for the next device of the ring, or for its owner. The lanes of a
    // warp call this together.
    __device__ void pass(bool selected, u32 item) {
        u32 outbox = nobody;
        if (selected) {
            if (outboxes() == 0) {
                fail(passed_alone, item);
            } else if (common.here.next != nobody) {
                outbox = 0;
            } else {
                const u32 owner = Program::owner(common.problem, item);
                if (owner >= common.here.devices || owner == common.here.device) {
                    fail(passed_to_nobody, item);
                } else {
                    outbox = owner - (owner > common.here.device);
                }
            }
        }
        const u32 group = __match_any_sync(~0u, outbox);
        if (outbox == nobody) return;
        post(group, outbox, item);
    }

    __device__ void post(u32 group, u32 outbox, u32 item) {
        if (!push(outbox_queues + outbox, group, item)) count[consumed] += 1;
        tally.news[1 + outbox] = 1;
    }

    // Queues an item for every other device, or the next one of the ring. The
    // lanes of a warp call this together.
    __device__ void send_to_all(bool selected, u32 item) {
        const u32 group = __ballot_sync(~0u, selected);
        if (!selected) return;
        for (u32 outbox = 0; outbox < outboxes(); ++outbox) post(group, outbox, item);
    }

    // Sends an emitted item where its flags say \[G section 4.3\]. The lanes of a
    // warp call this together.
    __device__ void split_send(bool selected, u32 item, u32 priority) {
        const Flags flags =
            selected ? Program::on_send(common.problem, common.here, item) : Flags::drop;
        const bool keeps = flags == Flags::keep || flags == Flags::both;
        const u32 copies =
            keeps + (flags == Flags::pass) + (flags == Flags::both ? outboxes() : 0);
        count_copies(copies, selected);
        keep(keeps, item, priority);
        if (__any_sync(~0u, flags == Flags::pass)) pass(flags == Flags::pass, item);
        if (__any_sync(~0u, flags == Flags::both)) send_to_all(flags == Flags::both, item);
    }

    // Counts the copies made of an emitted item. The lanes of a warp call this
    // together.
    __device__ void count_copies(u32 copies, bool selected) {
        if constexpr (is_fused) {
            // One copy was already counted, with the arc.
            const u32 more = __reduce_add_sync(~0u, copies > 1 ? copies - 1 : 0);
            if (more > 0) produce(more);
            count[consumed] += selected && copies == 0;
        } else {
            // The host uses counts only between kernels: they may come after the items.
            count[produced] += copies;
        }
    }
    // Splits one packet for each lane of a warp \[G section 4.3\].
    __device__ void split_receive(bool is_packet, const typename Program::Packet* packet) {
        Flags flags = Flags::drop;
        u32 item = 0;
        if (is_packet) {
            flags = Program::on_receive(common.problem, common.here, *packet);
            item = Program::unpack(common.problem, common.here, *packet);
        }
        // Direct routing: the sender has already sent every device a copy of its own.
        const bool passes = flags == Flags::pass ||
                            (flags == Flags::both && common.here.next != nobody);
        const bool keeps = flags == Flags::keep || flags == Flags::both;
        count[received] += is_packet;
        count[kept] += keeps;
        count[passed] += passes;
        count[dropped] += is_packet && !keeps && !passes;
        // The packet's own count passes to one copy; only a second copy is counted as produced.
        if constexpr (is_fused) {
            const u32 more = __reduce_add_sync(~0u, u32(keeps && passes));
            if (more > 0) produce(more);
        } else {
            count[produced] += keeps && passes;
        }
        count[consumed] += is_packet && !keeps && !passes;
        keep(keeps, item);
        if (__any_sync(~0u, passes)) pass(passes, item);
    }

    // Makes deferred items up to the threshold ready; the others are deferred anew.
    __device__ void undefer(bool is_item, u32 item) {
        const bool claimed = is_item && queue(deferred_queue).claim(item);
        if constexpr (is_fused) {
            const u32 all = __reduce_add_sync(~0u, u32(claimed));
            if (all > 0) count_now(deferred_out, all);
        } else {
            count[deferred_out] += claimed;
        }
        keep(claimed, item);
    }
};

}  // namespace millstream
