// The fused worker (Ben-Nun et al., Groute, ACM TOPC 7(3), art. 18, 2020, section
// 5.2): one persistent kernel a device that receives, splits, prioritizes, processes,
// sends and finds the end, without the host. The kernels of a run are a gang; the
// protocol, its words and its orders are in FUSED.md beside `fused.rs` in the
// worklist.
//
// Blocks have roles: the first serves (start, stop, threshold, end), then one for
// each inbox receives, one for each outbox sends, and all others work. Nobody waits
// for remote space but a sender, and nobody waits for a sender.
#pragma once

#include "fused_words.cuh"
#include "gang.cuh"
#include "peer_ring.cuh"
#include "worklist.cuh"

namespace millstream {

template <class Program>
struct Gang {
    using Packet = typename Program::Packet;
    static constexpr u32 block_threads = 256;
    static constexpr u32 most_slot_items = 256;

    const Common<Program>& common;
    const SpanSet<u64>& statuses;
    const SpanSet<u32>& words;
    const SpanSet<u32>& inboxes;
    const SpanSet<u32>& credits;
    const Span<u32>& host;
    const GangSettings& settings;

    __device__ u32 here() const { return common.here.device; }
    __device__ u32 devices() const { return common.here.devices; }
    __device__ bool is_ring() const { return common.here.next != nobody; }

    // Inboxes of a device, and outboxes. Alone there is no ring.
    __device__ u32 boxes() const { return is_ring() ? 1 : devices() - 1; }

    // Blocks that receive, and as many that send.
    __device__ u32 ends() const { return boxes() * settings.lanes; }

    __device__ u32 word(GangWord word) const { return load_relaxed_sys(&words[here()][word]); }

    // The lanes of a warp together, which branch on it: one word for all.
    __device__ u32 threshold() const { return __shfl_sync(~0u, word(gang_threshold), 0); }

    // Acquire: pairs with the leader's release.
    __device__ u32 state() const { return load_acquire_sys(&words[here()][gang_state]); }

    // Device `from` puts packets for `to` here.
    __device__ PeerRing<Packet> ring(u32 from, u32 to, u32 lane) const {
        const u32 inbox = (is_ring() ? 0 : from - (from > to)) * settings.lanes + lane;
        const u32 outbox = (is_ring() ? 0 : to - (to > from)) * settings.lanes + lane;
        const u64 slot_words = u64(settings.slots) * (sizeof(SlotWords) / 4);
        const u64 ring_words =
            slot_words + u64(settings.slots) * settings.slot_items * (sizeof(Packet) / 4);
        u32* const base = inboxes[to].items + inbox * ring_words;
        PeerRing<Packet> ring;
        ring.sender = reinterpret_cast<SenderWords*>(credits[from].items) + outbox;
        ring.slots = reinterpret_cast<SlotWords*>(base);
        ring.payloads = reinterpret_cast<Packet*>(base + slot_words);
        ring.capacity = settings.slots;
        ring.slot_items = settings.slot_items;
        return ring;
    }

    __device__ u32 destination(u32 outbox) const {
        return is_ring() ? common.here.next : outbox + (outbox >= here());
    }

    __device__ u32 source(u32 inbox) const {
        return is_ring() ? settings.previous : inbox + (inbox >= here());
    }

    __device__ void run() const {
        __shared__ Tally tally;
        Worklist<Program, true> worklist(common, tally, settings.threshold);
        wait_for_start();
        const u32 role = blockIdx.x;
        if (gridDim.x < 2 + 2 * ends()) {
            worklist.fail(too_few_blocks, gridDim.x);
            if (threadIdx.x == 0) stop_all();
        } else if (role == 0) {
            if (here() == 0) lead(); else serve();
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

    // Until the host has launched all kernels, or gives up.
    __device__ void wait_for_start() const {
        if (threadIdx.x == 0) {
            if (blockIdx.x == 0) {
                for (;;) {
                    if (load_acquire_sys(&host[host_stop]) != 0) {
                        store_release_sys(&words[here()][gang_state], u32(stopped));
                        break;
                    }
                    if (load_acquire_sys(&host[host_open]) != 0) {
                        // Unless another device has stopped the gang already.
                        compare_exchange_acq_rel_sys(&words[here()][gang_state],
                                                     u32(waiting_to_start), u32(running));
                        break;
                    }
                    __nanosleep(500);
                }
            } else {
                while (state() == waiting_to_start) __nanosleep(500);
            }
        }
        __syncthreads();
    }

    // One thread: ends the run on every device.
    __device__ void stop_all() const {
        for (u32 device = 0; device < devices(); ++device) {
            store_release_sys(&words[device][gang_state], u32(stopped));
        }
    }

    // One thread of a service block: whether the run is to end.
    __device__ bool must_stop(u32 turn) const {
        if (state() == stopped) return true;
        // The host's word is two microseconds away.
        const bool host_stops = turn % 32 == 0 && load_acquire_sys(&host[host_stop]) != 0;
        if (host_stops || load_relaxed_gpu(&common.status[fault]) != 0) {
            stop_all();
            return true;
        }
        return false;
    }

    // The service block of a device that does not lead.
    __device__ void serve() const {
        if (threadIdx.x != 0) return;
        u32 epoch = 0;
        for (u32 turn = 0; !must_stop(turn); ++turn) {
            epoch = follow(epoch);
            __nanosleep(200);
        }
    }

    // One thread: begins to bring back deferred items when the threshold has risen.
    __device__ u32 follow(u32 epoch) const {
        // Acquire: pairs with the release in `raise`; the threshold is before it.
        const u32 now = load_acquire_sys(&words[here()][gang_epoch]);
        if (now == epoch) return epoch;
        const Queue deferred = Worklist<Program, true>::queue_of(common, deferred_queue);
        const u32 end = load_relaxed_gpu(deferred.control + Queue::tail);
        const u32 first = load_relaxed_gpu(deferred.control + Queue::head);
        if (first == end) {
            // Release: pairs with the leader's look.
            fetch_add_release_sys(&common.status[consumed], u64(1));
        } else {
            store_relaxed_gpu(deferred.control + Queue::head, end);
            store_relaxed_gpu(&words[here()][undefer_first], first);
            store_relaxed_gpu(&words[here()][undefer_left], end - first);
            // Release: pairs with the acquire in `bring_back`.
            store_release_gpu(undefer(), u64(end - first) << 32);
        }
        return now;
    }

    // Taken, and all in the upper half: one word, so that a ticket is of its epoch.
    __device__ u64* undefer() const {
        return reinterpret_cast<u64*>(&words[here()][undefer_taken]);
    }

    // The service block of device 0: looks for the end, and raises the threshold.
    // One warp; lane d looks at device d.
    __device__ void lead() const {
        if (threadIdx.x >= 32) return;
        u32 epoch = 0;
        u32 threshold = settings.threshold;
        u64 seen = 0;
        u64 since = nanoseconds();
        for (u32 turn = 0;; ++turn) {
            const u32 stops = lane() == 0 && must_stop(turn);
            if (__any_sync(~0u, stops)) return;
            if (lane() == 0) epoch = follow(epoch);
            const bool is_device = lane() < devices();
            const u64* const status = statuses[is_device ? lane() : 0].items;
            // All consumed before all produced: the other order may see an item
            // consumed whose parent it has not seen produce it.
            const u64 done = sum(is_device ? load_acquire_sys(status + consumed) +
                                                 load_acquire_sys(status + deferred_in)
                                           : 0);
            __syncwarp();
            const u64 made = sum(is_device ? load_acquire_sys(status + produced) +
                                                 load_acquire_sys(status + deferred_out)
                                           : 0);
            if (done == made) {
                const u64 deferred = sum(is_device ? load_acquire_sys(status + deferred_in) -
                                                         load_acquire_sys(status + deferred_out)
                                                   : 0);
                if (deferred == 0) {
                    if (lane() == 0) stop_all();
                    return;
                }
                threshold = raise(status, is_device, threshold);
            }
            if (made + done != seen) {
                seen = made + done;
                since = nanoseconds();
            } else if (__any_sync(~0u, nanoseconds() - since > settings.patience)) {
                // All lanes leave or none: each has read the time for itself.
                if (lane() == 0) {
                    compare_exchange_relaxed_gpu(&common.status[fault], u64(0), stalled << 32);
                    stop_all();
                }
                return;
            }
        }
    }

    // Raises the threshold to the next step that has work, on all devices. The
    // devices' bringing back is work that counts. Returns the threshold.
    __device__ u32 raise(const u64* status, bool is_device, u32 threshold) const {
        u64 lowest = is_device ? load_acquire_sys(status + lowest_deferred) : ~u64(0);
        if (lowest <= threshold) lowest = ~u64(0);
        for (u32 step = 16; step > 0; step /= 2) {
            const u64 other = __shfl_xor_sync(~0u, lowest, step);
            lowest = other < lowest ? other : lowest;
        }
        const u64 delta = settings.delta == 0 ? u64(1) << 32 : settings.delta;
        const u64 end = lowest > ~0u ? ~0u : lowest / delta * delta + (delta - 1);
        const u32 raised = end > ~0u ? ~0u : u32(end);
        if (lane() == 0) fetch_add_relaxed_sys(&common.status[produced], u64(devices()));
        __syncwarp();
        u32* const there = is_device ? words[lane()].items : nullptr;
        if (is_device) store_relaxed_sys(there + gang_threshold, raised);
        // All thresholds before any epoch: what one device brings back may come to
        // another one, which is to keep it.
        __syncwarp();
        // Release: the count and the thresholds are before it.
        if (is_device) {
            store_release_sys(there + gang_epoch, load_relaxed_sys(there + gang_epoch) + 1);
        }
        __syncwarp();
        return raised;
    }

    // A block for each lane of an inbox: splits what arrives.
    __device__ void receive(Worklist<Program, true>& worklist, u32 inbox, u32 lane) const {
        __shared__ u32 count;
        __shared__ bool ready, ends;
        PeerRing<Packet> from = ring(source(inbox), here(), lane);
        for (u32 next = 0;;) {
            if (threadIdx.x == 0) {
                ready = from.is_ready(next, &count);
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

    // A block for each lane of an outbox: packs and sends what is there. Without
    // credit it keeps the packet; nobody waits for it.
    __device__ void send(Worklist<Program, true>& worklist, u32 outbox, u32 lane) const {
        __shared__ alignas(16) unsigned char memory[most_slot_items * sizeof(Packet)];
        Packet* const packets = reinterpret_cast<Packet*>(memory);
        __shared__ u32 first, taken, packed;
        __shared__ bool ends;
        const OpenQueue queue{worklist.queue(outbox_queues + outbox)};
        PeerRing<Packet> to = ring(here(), destination(outbox), lane);
        for (;;) {
            if (threadIdx.x == 0) {
                taken = queue.reserve(settings.slot_items, &first);
                packed = 0;
                ends = state() == stopped;
            }
            __syncthreads();
            if (ends) return;
            if (threadIdx.x < taken) {
                const u32 entry = take(queue, first + threadIdx.x);
                if (entry != 0 && queue.queue.claim(entry - 1)) {
                    packets[atomicAdd(&packed, 1)] =
                        Program::pack(common.problem, common.here, entry - 1);
                }
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

    // All other blocks, warp by warp: process what is ready, in the block or for
    // all, else pieces of hubs, else bring back what is deferred. Lanes hold tickets
    // of the ready queue, warps of the pieces.
    __device__ void work(Worklist<Program, true>& worklist) const {
        __shared__ LocalQueue local;
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
            // Words that all warps look at: more often is slower for everybody.
            const bool looks = turn % turns_between_looks == 0;
            if (looks) {
                deferred = load_relaxed_gpu(undefer());
                state = word(gang_state);
            }
            if (__any_sync(~0u, state == stopped)) return;
            const bool has_item = __any_sync(~0u, (own | come) != 0);
            // Now and then before items, so that none waits for ever.
            const bool has_piece = __all_sync(~0u, has_arcs) && (looks || !has_item);
            if (has_item || has_piece) {
                // Nobody raises the threshold while somebody has work untold.
                if (idle > idle_turns) worklist.threshold = threshold();
                idle = 0;
                if (come != 0) ready.empty(position);
                holds = holds && come == 0;
                // In one place: the code of visiting is long.
                for (u32 pass = has_piece ? 0 : 1; pass < (has_item ? 2 : 1); ++pass) {
                    worklist.visit_all(
                        pass == 0 ? take_piece(worklist, pieces, &piece)
                                  : worklist.begin((own | come) != 0, (own | come) - 1));
                }
            } else {
                if (idle == idle_turns) worklist.tell();
                // It leaves nothing untold either.
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

    // Gives tickets to lanes without: one to a warp, more when there is a backlog.
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

    // A warp: looks at some deferred items, if there are any to be brought back, as
    // the words `seen` say.
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
        const u32 first = word(undefer_first) + taken;
        worklist.threshold = threshold();
        const u32 entry = lane() < count ? take(deferred, first + lane()) : 0;
        worklist.undefer(entry != 0, entry - 1);
        worklist.tell();
        // The last one to look ends what the leader has counted.
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

    __device__ static u64 sum(u64 value) {
        for (u32 step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
        return value;
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
        millstream::Gang<Program>{common,  statuses, words,   inboxes,                     \
                                  credits, host,     settings}                             \
            .run();                                                                        \
    }
