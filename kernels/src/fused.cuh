// The fused worker (Ben-Nun et al., Groute, ACM TOPC 7(3), art. 18, 2020, section
// 5.2): one persistent kernel a device that receives, splits, prioritizes, processes,
// sends and finds the end, without the host. The kernels of a run are a gang; the
// protocol, its words and its orders are in FUSED.md beside `fused.rs` in the
// worklist.
//
// Blocks have roles: the first serves (start, stop, threshold, end), then one for
// each inbox receives, one for each outbox sends, and all others work. Only a
// sender waits for remote space, and nobody waits for a sender.
#pragma once

#include "fused_service.cuh"

namespace millstream {

template <class Program>
struct FusedWorker : FusedService<Program> {
    using Base = FusedService<Program>;
    using typename Base::Packet;
    using Base::common, Base::words, Base::settings, Base::undefer;
    using Base::here, Base::devices, Base::ends, Base::boxes, Base::word, Base::threshold;
    using Base::state, Base::ring, Base::destination, Base::source;
    using Base::wait_for_start, Base::stop_all, Base::serve, Base::lead, Base::tell_host;

    static constexpr u32 block_threads = 256;
    // One for each thread, and no more than shared memory has room for; as `Rings` of `fused.rs`.
    static constexpr u32 most_slot_items =
        sizeof(Packet) * block_threads <= 1 << 15 ? block_threads : (1 << 15) / sizeof(Packet);

    __device__ void run() const {
        __shared__ Tally tally;
        Worklist<Program, true> worklist(common, tally, settings.threshold);
        wait_for_start();
        const u32 role = blockIdx.x;
        if (gridDim.x < 2 + 2 * ends()) {
            worklist.fail(too_few_blocks, gridDim.x);
            if (threadIdx.x == 0) stop_all();
        } else if (role == 0) {
            if (threadIdx.x / 32 == 1) tell_host(); else if (here() == 0) lead(); else serve();
        } else if (role <= ends()) {
            receive(worklist, (role - 1) / settings.lanes, (role - 1) % settings.lanes);
        } else if (role <= 2 * ends()) {
            const u32 end = role - 1 - ends();
            send(worklist, end / settings.lanes, end % settings.lanes);
        } else {
            work(worklist);
        }
        __syncthreads();
        if (worklist.finish_block() && threadIdx.x < 32) worklist.publish(0);
    }

    // A block for each lane of an inbox: splits what arrives.
    __device__ void receive(Worklist<Program, true>& worklist, u32 inbox, u32 lane) const {
        __shared__ u32 count;
        __shared__ bool ready, ends;
        PeerRing<Packet> from = ring(source(inbox), here(), lane);
        for (u32 next = 0;;) {
            if (threadIdx.x == 0) {
                ready = from.is_ready(next, &count);
                if (ready) linger(next);
                ends = state() == stopped;
            }
            __syncthreads();
            if (ends) return;
            const bool takes = ready;
            const u32 items = count;
            if (takes) {
                const Packet* const packets =
                    from.payloads + u64(from.slot_of(next)) * from.slot_items;
                worklist.threshold = threshold();
                // A packet has no more items than a block has threads.
                worklist.split_receive(threadIdx.x < items, packets + threadIdx.x);
                worklist.tell();
                ++next;
            }
            __syncthreads();
            if (threadIdx.x == 0) {
                if (takes) from.give_back(next); else __nanosleep(100);
            }
        }
    }

    // One thread of a receiving block: leaves a packet where it is for a while, if that
    // is wanted; how long looks random.
    __device__ void linger(u32 packet) const {
        if (settings.most_delay_ns == 0) return;
        u32 random = packet * 0x9e3779b9u ^ blockIdx.x * 0x85ebca6bu ^ settings.seed;
        random = (random ^ random >> 15) * 0x2c1b3c6du;
        const u32 range = settings.most_delay_ns - settings.least_delay_ns + 1;
        __nanosleep(settings.least_delay_ns + (random ^ random >> 13) % range);
    }

    // A block for each lane of an outbox: packs and sends what is there. Without
    // credit it keeps the packet; nobody waits for it.
    __device__ void send(Worklist<Program, true>& worklist, u32 outbox, u32 lane) const {
        __shared__ alignas(16) unsigned char memory[most_slot_items * sizeof(Packet)];
        Packet* const packets = reinterpret_cast<Packet*>(memory);
        __shared__ u32 first, taken, packed;
        __shared__ bool ends;
        const OpenQueue queue{worklist.queue(outbox_queues + outbox)};
        __shared__ Sweep sweep;
        if (threadIdx.x == 0) sweep.at = Sweep::over;
        PeerRing<Packet> to = ring(here(), destination(outbox), lane);
        for (;;) {
            if (threadIdx.x == 0) {
                taken = queue.reserve(settings.slot_items, &first);
                packed = 0;
                ends = state() == stopped;
            }
            __syncthreads();
            if (ends) return;
            u32 entry = 0;
            if (threadIdx.x < taken) {
                entry = take(queue, first + threadIdx.x);
            } else if (taken == 0 && threadIdx.x < 32) {
                entry = sweep.next(queue, settings.slot_items < 32 ? settings.slot_items : 32);
            }
            if (entry != 0 && queue.queue.claim(entry - 1)) {
                packets[atomicAdd(&packed, 1)] =
                    Program::pack(common.problem, common.here, entry - 1);
            }
            __syncthreads();
            const u32 items = packed;
            while (items > 0 && !to.try_send(packets, items)) {
                if (threadIdx.x == 0) ends = state() == stopped;
                __syncthreads();
                if (ends) return;
            }
            if (threadIdx.x == 0) {
                worklist.count[sent] += items;
                if (items == 0) {
                    __nanosleep(100);
                } else {
                    u64* const traffic = &common.status[outbox_news + boxes() + 2 * outbox];
                    fetch_add_relaxed_gpu(&traffic[0], u64(1));
                    fetch_add_relaxed_gpu(&traffic[1], u64(items));
                }
            }
            __syncthreads();
        }
    }

    // All other blocks, warp by warp: process items that are ready, in the block's queue or
    // the device's; else pieces of hubs; else bring back deferred items. Lanes hold tickets
    // of the ready queue, warps hold tickets of the pieces.
    __device__ void work(Worklist<Program, true>& worklist) const {
        __shared__ LocalQueue local;
        __shared__ Sweep sweeps[block_threads / 32];
        if (threadIdx.x < block_threads / 32) sweeps[threadIdx.x].at = Sweep::over;
        local.clear();
        worklist.local = &local;
        const OpenQueue ready{worklist.queue(ready_queue)};
        const Pieces<typename Program::State> pieces = worklist.pieces();
        bool holds = false;
        u32 position = 0;
        u64 piece = draw_piece(pieces);
        u64 deferred = 0;
        u32 state = running;
        u32 idle = 0;
        for (u32 turn = threadIdx.x / 32;; ++turn) {
            const u32 own = local.take(!holds);
            if (__all_sync(~0u, own == 0)) draw(ready, &holds, &position);
            // All loads under way at once.
            const u32 come = holds ? ready.look(position) : 0;
            const bool has_arcs = pieces.has_come(piece);
            // All warps read these words: reading them more often slows everybody down.
            const bool looks = turn % turns_between_looks == 0;
            if (looks) {
                deferred = load_relaxed_gpu(undefer());
                state = word(gang_state);
            }
            if (__any_sync(~0u, state == stopped)) return;
            u32 item = own | come;
            if (!ready.is_roomy && __all_sync(~0u, item == 0)) {
                item = sweeps[threadIdx.x / 32].next(ready, 32);
            }
            const bool has_item = __any_sync(~0u, item != 0);
            // Now and then a piece comes before items, so that no piece waits for ever.
            const bool has_piece = __all_sync(~0u, has_arcs) && (looks || !has_item);
            if (has_item || has_piece) {
                // The threshold does not move while any warp has work that it has not told.
                if (idle > idle_turns) worklist.threshold = threshold();
                idle = 0;
                if (come != 0) ready.empty(position);
                holds = holds && come == 0;
                // One call for both: the code of visiting is long.
                for (u32 pass = has_piece ? 0 : 1; pass < (has_item ? 2 : 1); ++pass) {
                    worklist.visit_all(
                        pass == 0 ? take_piece(worklist, pieces, &piece)
                                  : worklist.begin(item != 0, item - 1));
                }
            } else {
                if (idle == idle_turns) worklist.tell();
                // `bring_back` leaves nothing untold either.
                if (idle >= idle_turns && bring_back(worklist, deferred)) {
                    deferred = load_relaxed_gpu(undefer());
                }
                if (++idle > 256) __nanosleep(100);
            }
        }
    }

    // Turns of a warp from one look at the device's words to the next, and turns
    // without work before it tells what it has counted, by measurement.
    static constexpr u32 turns_between_looks = 8;
    static constexpr u32 idle_turns = 8;

    // A warp: takes the piece that has come, and draws another ticket.
    __device__ typename Worklist<Program, true>::Arcs take_piece(
        const Worklist<Program, true>& worklist, const Pieces<typename Program::State>& pieces,
        u64* piece) const {
        u64 first = 0;
        u64 last = 0;
        typename Program::State state{};
        pieces.take(*piece, &first, &last, &state);
        *piece = draw_piece(pieces);
        return worklist.range(first, last, state);
    }

    __device__ static u64 draw_piece(const Pieces<typename Program::State>& pieces) {
        return __shfl_sync(~0u, lane() == 0 ? pieces.draw() : 0, 0);
    }

    // Gives tickets to lanes without any: one to a warp, more when there is a backlog.
    // Some lanes stay free for the block's own items.
    __device__ void draw(const OpenQueue& ready, bool* holds, u32* position) const {
        if (__shfl_sync(~0u, *holds, 0)) return;
        u32 wanted = 0;
        if (lane() == 0) {
            const u32 warps = (gridDim.x - 1 - 2 * ends()) * (blockDim.x / 32);
            const int backlog = ready.backlog();
            const u32 share = backlog > 0 ? u32(backlog) / warps + 1 : 1;
            wanted = share < 32 - LocalQueue::at_once ? share : 32 - LocalQueue::at_once;
        }
        wanted = __shfl_sync(~0u, wanted, 0);
        const u32 without = __ballot_sync(~0u, !*holds && lane() < wanted);
        if (without == 0) return;
        u32 base = 0;
        if (lane() == 0) base = ready.draw(__popc(without));
        base = __shfl_sync(~0u, base, 0);
        if (without >> lane() & 1) {
            *position = base + __popc(without & ((1u << lane()) - 1));
            *holds = true;
        }
    }

    // A warp: looks at some deferred items, if `seen`, as read from `undefer`, says that
    // some are still to be brought back.
    __device__ bool bring_back(Worklist<Program, true>& worklist, u64 seen) const {
        u32 taken = 0;
        u32 count = 0;
        if (lane() == 0 && u32(seen) < u32(seen >> 32)) {
            // Acquire: pairs with `follow`; the threshold is before it.
            const u64 word = fetch_add_acq_rel_gpu(undefer(), u64(32));
            taken = u32(word);
            const u32 all = u32(word >> 32);
            if (taken < all) count = all - taken < 32 ? all - taken : 32;
        }
        count = __shfl_sync(~0u, count, 0);
        if (count == 0) return false;
        taken = __shfl_sync(~0u, taken, 0);
        // What the first lane has acquired, all have.
        __syncwarp();
        const OpenQueue deferred{worklist.queue(deferred_queue)};
        const u32 place = taken + lane();
        const u32 entries = word(undefer_entries);
        worklist.threshold = threshold();
        u32 item = 0;
        u32 set = 0;
        if (lane() < count) {
            if (place < entries) item = take(deferred, word(undefer_first) + place);
            else set = load_relaxed_gpu(deferred.queue.bits + (place - entries));
        }
        for (;;) {
            worklist.undefer(item != 0, item - 1);
            if (!__any_sync(~0u, set != 0)) break;
            item = set == 0 ? 0 : (place - entries) * 32 + __ffs(set);
            set &= set - 1;
        }
        worklist.tell();
        // The last warp to look consumes what the leader has counted as produced.
        if (lane() == 0 &&
            fetch_add_acq_rel_gpu(&words[here()][undefer_left], 0u - count) == count) {
            fetch_add_release_sys(&common.status[consumed], u64(1));
        }
        return true;
    }

    // Empties an entry that has been reserved: whoever did is about to write it. The
    // item plus one; 0 only if the gang has stopped.
    __device__ u32 take(const OpenQueue& queue, u32 position) const {
        u32 entry;
        while ((entry = queue.look(position)) == 0) {
            if (word(gang_state) == stopped) return 0;
        }
        queue.empty(position);
        return entry;
    }
};

}  // namespace millstream

// The kernel of a program, under the name that the worklist launches.
#define MILLSTREAM_FUSED(Program)                                                          \
    extern "C" __global__ __launch_bounds__(256, 3) void fused(                            \
        millstream::Common<Program> common, millstream::SpanSet<millstream::u64> statuses, \
        millstream::SpanSet<millstream::u32> words,                                        \
        millstream::SpanSet<millstream::u32> inboxes,                                      \
        millstream::SpanSet<millstream::u32> credits,                                      \
        millstream::Span<millstream::u32> host, millstream::GangSettings settings) {       \
        millstream::FusedWorker<Program>{common,  statuses, words,   inboxes,                     \
                                  credits, host,     settings}                             \
            .run();                                                                        \
    }
