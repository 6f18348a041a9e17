// The host-driven worklist's kernels (Ben-Nun et al., Groute, ACM TOPC 7(3), art.
// 18, 2020, section 4.3, figure 9): insert, process with split-send, pack,
// split-receive and undefer; the twins of `kernels.rs` in the worklist.
#pragma once

#include "worklist.cuh"

namespace millstream {

template <class Program>
__device__ void insert_items(const Common<Program>& common, Span<const u32> items,
                             u32 threshold) {
    __shared__ Tally tally;
    Worklist<Program> worklist(common, tally, threshold);
    const u64 rounds = (items.len + threads_in_grid() - 1) / threads_in_grid();
    u64 at = thread_in_grid();
    for (u64 round = 0; round < rounds; ++round, at += threads_in_grid()) {
        const bool is_item = at < items.len;
        worklist.count[produced] += is_item;
        worklist.keep(is_item, is_item ? items[at] : 0);
    }
    if (worklist.finish_block() && threadIdx.x < 32) worklist.publish(0);
}

template <class Program>
__device__ void process_items(const Common<Program>& common, u32 batch, u32 threshold) {
    __shared__ Tally tally;
    Worklist<Program> worklist(common, tally, threshold);
    const Queue ready = worklist.queue(ready_queue);
    const Snapshot& consumes = Snapshot::take(ready, &common.scratch[snapshot], batch);
    consumes.for_each(ready, [&](bool is_item, u32 item) { worklist.process(is_item, item); });
    worklist.visit_shared_arcs(consumes.count);
    if (!worklist.finish_block()) return;
    worklist.end_process(consumes);
    if (threadIdx.x < 32) worklist.publish(0);
}

template <class Program>
__device__ void pack_outbox(const Common<Program>& common, u32 outbox,
                            Span<typename Program::Packet> packets) {
    __shared__ Tally tally;
    Worklist<Program> worklist(common, tally, ~0u);
    const Queue queue = worklist.queue(outbox_queues + outbox);
    u64* const word = &common.scratch[snapshot];
    const Snapshot& consumes = Snapshot::take(queue, word, packets.len);
    consumes.for_each(queue, [&](bool is_item, u32 item) {
        const bool claimed = is_item && queue.claim(item);
        const u32 group = __ballot_sync(~0u, claimed);
        if (!claimed) return;
        const u32 leader = __ffs(group) - 1;
        u64 base = 0;
        if (lane() == leader) {
            base = fetch_add_relaxed_gpu(&common.scratch[places], u64(__popc(group)));
        }
        base = __shfl_sync(group, base, leader);
        const u64 place = base + __popc(group & ((1u << lane()) - 1));
        if (place < packets.len) {
            packets[place] = Program::pack(common.problem, common.here, item);
        } else {
            // Only a sweep finds more than there is room for, and it is then not whole.
            worklist.count[consumed] += !queue.put_back(item);
        }
    });
    if (!worklist.finish_block() || threadIdx.x >= 32) return;
    const u64 wanted = load_relaxed_gpu(&common.scratch[places]);
    const u64 count = wanted < packets.len ? wanted : packets.len;
    __syncwarp();
    if (threadIdx.x == 0) {
        common.scratch[places] = 0;
        if (consumes.finish(queue, word, wanted <= packets.len)) {
            // Release: what is put back comes before the news.
            fence_acq_rel_gpu();
            worklist.raise_news(1 + outbox);
        }
        fetch_add_relaxed_gpu(&common.status[sent], count);
    }
    worklist.publish(count);
}

template <class Program>
__device__ void split_received(const Common<Program>& common,
                               Span<const typename Program::Packet> packets, u32 threshold) {
    __shared__ Tally tally;
    Worklist<Program> worklist(common, tally, threshold);
    const u64 rounds = (packets.len + threads_in_grid() - 1) / threads_in_grid();
    u64 at = thread_in_grid();
    for (u64 round = 0; round < rounds; ++round, at += threads_in_grid()) {
        worklist.split_receive(at < packets.len, packets.items + at);
    }
    if (worklist.finish_block() && threadIdx.x < 32) worklist.publish(0);
}

// A `process` follows on the same stream, and publishes for both.
template <class Program>
__device__ void undefer_items(const Common<Program>& common, u32 threshold) {
    __shared__ Tally tally;
    Worklist<Program> worklist(common, tally, threshold);
    const Queue deferred = worklist.queue(deferred_queue);
    u64* const word = &common.scratch[snapshot];
    const Snapshot& consumes = Snapshot::take(deferred, word, ~u64(0));
    consumes.for_each(deferred,
                      [&](bool is_item, u32 item) { worklist.undefer(is_item, item); });
    if (!worklist.finish_block()) return;
    // Items that stay deferred are queued again, so whether something is left says nothing.
    if (threadIdx.x != 0) return;
    consumes.finish(deferred, word, true);
    worklist.end();
    common.tell.say();
}

}  // namespace millstream

// The kernels of a program, under the names that the worklist launches.
#define MILLSTREAM_WORKLIST(Program)                                                    \
    extern "C" __global__ __launch_bounds__(256, 4) void insert(                           \
        millstream::Common<Program> common, millstream::Span<const millstream::u32> items, \
        millstream::u32 threshold) {                                                    \
        millstream::insert_items(common, items, threshold);                             \
    }                                                                                   \
    extern "C" __global__ __launch_bounds__(256, 3) void process(                          \
        millstream::Common<Program> common, millstream::u32 batch,                      \
        millstream::u32 threshold) {                                                    \
        millstream::process_items(common, batch, threshold);                            \
    }                                                                                   \
    extern "C" __global__ __launch_bounds__(256, 4) void pack(                             \
        millstream::Common<Program> common, millstream::u32 outbox,                     \
        millstream::Span<typename Program::Packet> packets) {                           \
        millstream::pack_outbox(common, outbox, packets);                               \
    }                                                                                   \
    extern "C" __global__ __launch_bounds__(256, 4) void split_receive(                    \
        millstream::Common<Program> common,                                             \
        millstream::Span<const typename Program::Packet> packets,                       \
        millstream::u32 threshold) {                                                    \
        millstream::split_received(common, packets, threshold);                         \
    }                                                                                   \
    extern "C" __global__ __launch_bounds__(256, 4) void undefer(                          \
        millstream::Common<Program> common, millstream::u32 threshold) {                \
        millstream::undefer_items(common, threshold);                                   \
    }
