// Litmus tests of what Millstream's kernels publish to each other: two kernels run
// beside each other, one publishes, the other consumes and looks. Variant `sound`
// is the production code, or its sequence of steps; the others leave something
// out, to show what the hardware does without it.
//
// Every wait ends: at the kernel's deadline, or when another kernel has given up.
#pragma once

#include "gang_barrier.cuh"
#include "peer_ring.cuh"
#include "queue.cuh"

namespace litmus {

using namespace millstream;

enum Variant { sound, first_fault, second_fault };

struct Run {
    u32 rounds;  // Of each block.
    u32 seed;
    u32 variant;
    u32 milliseconds;
};
static_assert(sizeof(Run) == 16, "as Rust writes it");

// Words of the control span, on the host: one that stops all, then for each block
// of each side what it found.
enum Words { finished, failures, first_failure, gave_up, words_of_block };

__device__ __forceinline__ u32 hash(u32 x) {
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

// What one block has found, and how long it may look.
struct Judge {
    u32* stop;
    u32* words;
    u64 deadline;
    u32 seed;
    u32 spins = 0;
    u32 found = 0;
    u32 first = 0;
    bool late = false;

    __device__ Judge(Span<u32> control, u32 side, Run run, u32 thread = 0)
        : stop(control.items),
          words(control.items + 1 + (side * gridDim.x + blockIdx.x) * words_of_block),
          deadline(nanoseconds() + u64(run.milliseconds) * 1000000),
          seed(hash(run.seed ^ (side << 16 | thread << 8 | blockIdx.x))) {}

    // One thread, in every turn of a wait: whether to give up.
    __device__ bool gives_up() {
        if (++spins % 256 == 0 && !late) {
            late = load_relaxed_sys(stop) != 0 || nanoseconds() > deadline;
            if (late) store_relaxed_sys(stop, 1u);
        }
        return late;
    }

    // The whole block, in every turn of a wait.
    __device__ bool block_gives_up() {
        return __syncthreads_or(threadIdx.x == 0 && gives_up());
    }

    __device__ void fault(u32 round) {
        if (found++ == 0) first = round;
    }

    // Sometimes a pause, so that the sides meet in other ways.
    __device__ void pause(u32 round) {
        const u32 draw = hash(seed + round);
        if (draw % 4 == 0) __nanosleep(draw >> 22);
    }

    // One thread, at the end.
    __device__ void report(u32 rounds) {
        store_relaxed_sys(words + finished, rounds);
        store_relaxed_sys(words + failures, found);
        store_relaxed_sys(words + first_failure, first);
        store_relaxed_sys(words + gave_up, u32(late));
    }
};

// The peer ring: payload by plain stores, block barrier, release of the epoch;
// the head written back into the sender's memory.

constexpr u32 capacity = 4;
constexpr u32 slot_items = 96;

__device__ __forceinline__ PeerRing<u32> ring_of(Span<u32> sender, Span<u32> slots,
                                                 Span<u32> payloads) {
    return PeerRing<u32>{reinterpret_cast<SenderWords*>(sender.items) + blockIdx.x,
                         reinterpret_cast<SlotWords*>(slots.items) + blockIdx.x * capacity,
                         payloads.items + blockIdx.x * capacity * slot_items, capacity,
                         slot_items, 1};
}

// Of every 48 packets one or so has few.
__device__ __forceinline__ u32 items_in(u32 round) { return 1 + hash(round) % slot_items; }

__device__ __forceinline__ u32 content(u32 round, u32 item) {
    return hash(round * slot_items + item) ^ blockIdx.x;
}

// As try_send, but the epoch is published before the payload is there.
__device__ bool send_without_release(PeerRing<u32>& ring, const u32* items, u32 count) {
    __shared__ u32 position;
    __shared__ bool claimed;
    if (threadIdx.x == 0) claimed = ring.try_claim(&position);
    __syncthreads();
    const bool sends = claimed;
    if (sends) {
        for (u32 item = threadIdx.x; item < count; item += blockDim.x)
            ring.payload(position)[item] = items[item];
        if (threadIdx.x == 0)
            store_line_relaxed(ring.line(position), ring.arrival(position, count), 0);
    }
    __syncthreads();
    return sends;
}

// As try_receive, but the slot is given back before it is read.
__device__ bool receive_after_giving_back(PeerRing<u32>& ring, u32* next, u32* items,
                                          u32* count) {
    __shared__ u32 arrived;
    __shared__ bool ready;
    if (threadIdx.x == 0) {
        ready = ring.is_ready(*next, &arrived);
        if (ready) ring.give_back(*next + 1);
    }
    __syncthreads();
    const bool takes = ready;
    if (takes) {
        const u32* payload = ring.payloads + u64(ring.slot_of(*next)) * slot_items;
        for (u32 item = threadIdx.x; item < arrived; item += blockDim.x)
            items[item] = payload[item];
        *next += 1;
        *count = arrived;
    }
    __syncthreads();
    return takes;
}

__device__ void ring_send(Span<u32> control, Span<u32> sender, Span<u32> slots,
                          Span<u32> payloads, Run run) {
    __shared__ u32 packet[slot_items];
    Judge judge(control, 0, run);
    PeerRing<u32> ring = ring_of(sender, slots, payloads);
    u32 round = 0;
    for (bool goes_on = true; goes_on && round < run.rounds; ++round) {
        for (u32 item = threadIdx.x; item < items_in(round); item += blockDim.x)
            packet[item] = content(round, item);
        judge.pause(round);
        __syncthreads();
        while (goes_on) {
            if (run.variant == first_fault ? send_without_release(ring, packet, items_in(round))
                                       : ring.try_send(packet, items_in(round)))
                break;
            goes_on = !judge.block_gives_up();
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) judge.report(round);
}

__device__ void ring_receive(Span<u32> control, Span<u32> sender, Span<u32> slots,
                             Span<u32> payloads, Run run) {
    __shared__ u32 packet[slot_items];
    Judge judge(control, 1, run);
    PeerRing<u32> ring = ring_of(sender, slots, payloads);
    u32 next = 0;
    while (next < run.rounds) {
        const u32 round = next;
        u32 count = 0;
        const bool takes = run.variant == second_fault
                               ? receive_after_giving_back(ring, &next, packet, &count)
                               : ring.try_receive(&next, packet, &count);
        if (!takes) {
            if (judge.block_gives_up()) break;
            continue;
        }
        bool wrong = count != items_in(round);
        for (u32 item = threadIdx.x; item < count && item < slot_items; item += blockDim.x)
            wrong |= packet[item] != content(round, item);
        if (__syncthreads_or(wrong) && threadIdx.x == 0) judge.fault(round);
        judge.pause(~round);
    }
    if (threadIdx.x == 0) judge.report(next);
}

// The queue bit: atomicMin of the value, then set the bit; clear the bit, then
// read the value. Two producing warps race for the 32 items of a block; a lane
// goes on when its value, or a better one, was processed. Whoever loses an item
// therefore waits until the deadline.

constexpr u32 start_value = ~0u;
constexpr u32 entries = 8;

struct Items {
    Queue queue;
    u32* values;
    u32* done;

    // Bits and control of all blocks, then entries; values, then what was done.
    __device__ Items(Span<u32> queues, Span<u32> values)
        : queue{queues.items + blockIdx.x * 16, 1,
                queues.items + gridDim.x * 16 + blockIdx.x * entries, entries,
                queues.items + blockIdx.x * 16 + 1},
          values(values.items + blockIdx.x * 64),
          done(values.items + blockIdx.x * 64 + 32) {}
};

// Two warps.
__device__ void queue_produce(Span<u32> control, Span<u32> queues, Span<u32> values,
                              Run run) {
    Judge judge(control, 0, run, threadIdx.x / 32);
    const Items items(queues, values);
    u32 round = 0;
    for (bool goes_on = true; goes_on && round < run.rounds; ++round) {
        const u32 value = start_value - 1 - (2 * round + threadIdx.x / 32);
        judge.pause(round);
        __syncwarp();
        if (run.variant == second_fault) {
            // The bit before the value.
            items.queue.push(~0u, lane());
            fetch_min_relaxed_gpu(items.values + lane(), value);
        } else {
            fetch_min_relaxed_gpu(items.values + lane(), value);
            items.queue.push(~0u, lane());
        }
        while (goes_on && !__all_sync(~0u, load_relaxed_gpu(items.done + lane()) <= value)) {
            goes_on = !__any_sync(~0u, judge.gives_up());
        }
        if (!goes_on) judge.fault(round);
    }
    // The first warp speaks for both: one that loses an item stops the other.
    if (threadIdx.x == 0) judge.report(round);
}

// One warp.
__device__ void queue_consume(Span<u32> control, Span<u32> queues, Span<u32> values,
                              Run run) {
    Judge judge(control, 1, run);
    const Items items(queues, values);
    const u32 last = start_value - 1 - (2 * run.rounds - 1);
    u32 value = start_value;
    u32 turns = 0;
    while (run.rounds > 0 && !__all_sync(~0u, value <= last)) {
        if (run.variant == first_fault) {
            // Reads the value, then clears the bit.
            const u32 early = load_relaxed_gpu(items.values + lane());
            judge.pause(turns);
            if (items.queue.claim(lane())) value = early;
        } else if (items.queue.claim(lane())) {
            value = load_relaxed_gpu(items.values + lane());
        }
        store_relaxed_gpu(items.done + lane(), value);
        judge.pause(++turns);
        __syncwarp();
        if (__any_sync(~0u, judge.gives_up())) break;
    }
    if (threadIdx.x == 0) judge.report(run.rounds);
}

// Counting: an item goes to and fro between two devices. Produced is raised before
// the release that makes the item visible, consumed after it; whoever reads all
// consumed first, then all produced, never finds them equal while an item is under
// way.

struct Counts {
    u32 mailbox;
    u32 padding;
    u64 produced;
    u64 consumed;
    u64 more_padding;
};
static_assert(sizeof(Counts) == 32, "eight words a block");

// The first warp hands items on, the second of side 0 checks.
__device__ void count(Span<u32> control, Span<u32> near, Span<u32> far, u32 side, Run run) {
    __shared__ u32 ended;
    Counts* const here = reinterpret_cast<Counts*>(near.items) + blockIdx.x;
    Counts* const there = reinterpret_cast<Counts*>(far.items) + blockIdx.x;
    Judge judge(control, side, run, threadIdx.x / 32);
    if (threadIdx.x == 0) {
        ended = 0;
        // The first item, at side 0.
        if (side == 0 && run.rounds > 0) {
            fetch_add_relaxed_sys(&here->produced, u64(1));
            store_release_sys(&here->mailbox, 1u);
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 item = side;
        for (; item < run.rounds; item += 2) {
            while (load_acquire_sys(&here->mailbox) != item + 1 && !judge.gives_up()) {
            }
            if (judge.late) break;
            judge.pause(item);
            if (run.variant != second_fault) fetch_add_relaxed_sys(&here->produced, u64(1));
            // Pairs with the acquire above; produced comes before.
            store_release_sys(&there->mailbox, item + 2);
            if (run.variant == second_fault) fetch_add_relaxed_sys(&here->produced, u64(1));
            fetch_add_release_sys(&here->consumed, u64(1));
        }
        if (side == 1) judge.report(item);
        store_relaxed_shared(&ended, judge.late ? 2u : 1u);
    } else if (threadIdx.x == 32 && side == 0) {
        u32 looks = 0;
        while (load_relaxed_shared(&ended) == 0) {
            u64 consumed;
            u64 produced;
            if (run.variant == first_fault) {
                produced = load_acquire_sys(&here->produced) + load_acquire_sys(&there->produced);
                consumed = load_acquire_sys(&here->consumed) + load_acquire_sys(&there->consumed);
            } else {
                // Pairs with the release of consumed.
                consumed = load_acquire_sys(&here->consumed) + load_acquire_sys(&there->consumed);
                produced = load_acquire_sys(&here->produced) + load_acquire_sys(&there->produced);
            }
            // None is there before the first item is.
            if (produced > 0 && consumed >= produced) judge.fault(looks);
            ++looks;
            if (judge.gives_up()) break;
        }
        judge.late |= load_relaxed_shared(&ended) == 2;
        judge.report(looks);
    }
}

// The report: every block leaves a word and takes a ticket; the last copies the
// words into host memory, which the host reads after the kernel's event.
__device__ void report(Span<u32> words, Span<u32> ticket, Span<u32> report, u32 round,
                       u32 variant) {
    __shared__ bool is_last;
    if (threadIdx.x == 0) {
        store_relaxed_gpu(&words[blockIdx.x], round);
        const u32 before = variant == sound ? fetch_add_acq_rel_gpu(&ticket[0], 1u)
                                            : fetch_add_relaxed_gpu(&ticket[0], 1u);
        is_last = before == gridDim.x - 1;
    }
    __syncthreads();
    if (!is_last) return;
    for (u32 at = threadIdx.x; at < gridDim.x; at += blockDim.x)
        store_relaxed_sys(&report[at], load_relaxed_gpu(&words[at]));
    if (threadIdx.x == 0) store_relaxed_gpu(&ticket[0], 0u);
}

}  // namespace litmus

#define LITMUS(name, ...)                                                                 \
    extern "C" __global__ void name(                                                      \
        millstream::Span<millstream::u32> control, millstream::Span<millstream::u32> first, \
        millstream::Span<millstream::u32> second, millstream::Span<millstream::u32> third, \
        litmus::Run run) {                                                                \
        litmus::__VA_ARGS__;                                                              \
    }
LITMUS(ring_send, ring_send(control, first, second, third, run))
LITMUS(ring_receive, ring_receive(control, first, second, third, run))
LITMUS(queue_produce, queue_produce(control, first, second, run))
LITMUS(queue_consume, queue_consume(control, first, second, run))
LITMUS(count_first, count(control, first, second, 0, run))
LITMUS(count_second, count(control, first, second, 1, run))

extern "C" __global__ void report(millstream::Span<millstream::u32> words,
                                  millstream::Span<millstream::u32> ticket,
                                  millstream::Span<millstream::u32> report,
                                  millstream::u32 round, millstream::u32 variant) {
    litmus::report(words, ticket, report, round, variant);
}

// The gang's barrier: in each round every block writes a cell on every device, takes
// places, counts, offers less than in the round before, sends, meets the others, and looks at all
// cells of its device, at the totals, and at what was sent here. Before
// every third round the blocks of a device meet by themselves, and look at their own cells.
// Cells take turns: those of a round are written again two rounds later.
struct GangRounds {
    using u32 = millstream::u32;
    u32 here;
    u32 devices;
    u32 rounds;
    u32 seed;
};

extern "C" __global__ void gang_rounds(
    const __grid_constant__ millstream::SpanSet<millstream::u64> words,
    const __grid_constant__ millstream::SpanSet<millstream::u32> cells,
    const __grid_constant__ millstream::Span<millstream::u32> host,
    millstream::Span<millstream::u64> report, GangRounds run) {
    using namespace millstream;
    const u64 patience = 5000000000;
    GangBarrier barrier(words, run.here, run.devices, host, patience);
    const u32 blocks = run.devices * gridDim.x;
    u32 failures = 0;
    u32 round = 0;
    // Rounds in which blocks have more than what goes along with them, and that, of all rounds. In
    // some it is too much for that.
    u32 full = 0;
    u64 counted = 0;
    for (; round < run.rounds; ++round) {
        const bool has_more = round % 4 != 3;
        const u64 along = round % 16 == 7 ? u64(1) << 20 : (u64(1) << 20) - 1 - round % 5;
        full += has_more;
        counted += along * blocks;
        const u32 base = round % 2 * blocks;
        const u32 draw = litmus::hash(run.seed + round * blocks + blockIdx.x);
        if (draw % 8 == 0) __nanosleep(draw >> 22);
        if (threadIdx.x < run.devices)
            cells[threadIdx.x][base + run.here * gridDim.x + blockIdx.x] = round + 1;
        if (threadIdx.x == 0) barrier.count(GangBarrier::first_count, along);
        if (threadIdx.x == 0 && has_more) {
            barrier.take_places(3);
            barrier.count(GangBarrier::second_count, 2);
            barrier.offer(run.rounds - round);
            for (u32 to = 0; to < run.devices; ++to)
                if (to != run.here) barrier.send(to, 1);
        }
        if (round % 3 == 0) {
            const Verdict verdict = barrier.meet_here();
            if (verdict.phase == GangBarrier::stopped) break;
            if (verdict.places != full * 3 * gridDim.x) ++failures;
            const u32* const own = &cells[run.here][base + run.here * gridDim.x];
            for (u32 each = threadIdx.x; each < gridDim.x; each += blockDim.x)
                if (own[each] != round + 1) ++failures;
        }
        const Verdict verdict = barrier.meet([&](Totals& totals) {
            const u64 all = u64(full) * blocks;
            const bool is_right = totals.count(GangBarrier::first_count) == counted &&
                                  totals.places() == 3 * all &&
                                  totals.count(GangBarrier::second_count) == 2 * all &&
                                  totals.most() == (has_more ? run.rounds - round : 0) &&
                                  totals.keep(0, round + 1) == round;
            return u32(is_right ? 1 : 2);
        });
        if (verdict.phase == GangBarrier::stopped) break;
        if (verdict.phase != 1 || verdict.places != full * 3 * gridDim.x) ++failures;
        if (threadIdx.x < run.devices && threadIdx.x != run.here &&
            barrier.received_from(threadIdx.x) != full * gridDim.x)
            ++failures;
        if (barrier.kept(0) != round + 1) ++failures;
        for (u32 each = threadIdx.x; each < blocks; each += blockDim.x)
            if (cells[run.here][base + each] != round + 1) ++failures;
    }
    if (failures > 0) fetch_add_relaxed_sys(&report[2 * run.here], u64(failures));
    if (threadIdx.x == 0) fetch_add_relaxed_sys(&report[2 * run.here + 1], u64(round));
}
