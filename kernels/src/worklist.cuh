// The distributed worklist on one device (Ben-Nun et al., Groute, ACM TOPC 7(3), art.
// 18, 2020, sections 4.3 and 4.4): what kernels, host-driven or fused, do with items.
//
// A program is a class with what `Relaxation` has: types Problem (as the signature
// lays it out), Packet, State (a word that goes to all who visit an item's arcs) and
// Arc (what is read of one: at least its `target`, an item), and static functions
//   u32 unpack(problem, here, packet)          the item of a packet
//   Packet pack(problem, here, item)           with the item's value as it is now
//   Flags on_send(problem, here, item)         what becomes of an emitted item
//   Flags on_receive(problem, here, packet)    applies a packet's value
//   u32 priority(problem, item)                lower ones run first
//   u32 owner(problem, item)                   a device; `nobody` needs the ring
//   State begin(problem, here, item, &first, &last)   where an item's arcs lie
//   Arc arc(problem, at)                       one of them
//   bool visit(problem, here, state, arc, &priority, &filtered)
//                                              true: emit the target, of that priority
// Arcs of an item are visited by many threads; each is read while the one before is
// visited.
//
// A program whose values have a bit that says whether their item is ready, or in an
// outbox, saves the fused worker half of its operations. It never answers `both`, and
// has beside these
//   has_queued_bit                             true
//   bool mark(problem, item)                   sets the bit; false if it was set
//   bool claim(problem, item)                  clears it; false if it was clear
//   bool claim(problem, here, item, &state, &first, &last)    the same, and begins
//   State state(problem, item)                 of an item claimed already
//   bool visit_and_mark(problem, here, state, arc, threshold, &priority, &filtered)
//       visits, and sets the bit of a target up to the threshold; false also if it was
//       set
//   bool is_packed(problem)                    whether four arcs of an item lie together:
//   Arc packed_arc(problem, here, item, place) one of them
#pragma once

#include "packed_rows.cuh"
#include "pieces.cuh"
#include "shared_arcs.cuh"
#include "split.cuh"
#include "spread_arcs.cuh"

namespace millstream {

// One device's worklist as its kernels see it.
template <class Program, bool is_fused = false>
struct Worklist : Split<Program, is_fused> {
    using Base = Split<Program, is_fused>;
    using Base::claim, Base::common, Base::count, Base::fail, Base::marks_values;
    using Base::outboxes, Base::produce, Base::queue, Base::split_send, Base::tally;
    using Base::threshold;
    // Of this warp, emitted and not sent.
    u32 unsent = 0;

    using Base::Base;

    __device__ SharedArcs<typename Program::State> shared_arcs() const {
        const u64 len = common.scratch.len;
        if (len <= scratch_words) return {Span<u64>{nullptr, 0}};
        return {Span<u64>{common.scratch.items + scratch_words, len - scratch_words}};
    }

    __device__ Pieces<typename Program::State> pieces() const {
        return {Span<u64>{common.scratch.items + scratch_words,
                          common.scratch.len - scratch_words}};
    }

    // Fused: shares the arcs of items that have very many. The lanes of a warp call
    // this together; `*last` of what is shared becomes `first`.
    __device__ void share(u64 first, u64* last, typename Program::State state) {
        u32 hubs = __ballot_sync(~0u, *last - first >= pieces().many);
        while (hubs != 0 && __all_sync(~0u, pieces().has_room())) {
            const u32 hub = __ffs(hubs) - 1;
            hubs &= hubs - 1;
            const u64 from = __shfl_sync(~0u, first, hub);
            const u64 to = __shfl_sync(~0u, *last, hub);
            // Whoever visits an arc consumes what is counted for it here.
            produce(u32(to - from));
            if (!pieces().add(from, to, __shfl_sync(~0u, state, hub))) fail(queue_full, ~0u);
            if (lane() == hub) *last = first;
        }
    }
    // What a lane visits: an arc, and what of its item goes along it.
    struct Visit {
        bool is_arc;
        typename Program::State state;
        typename Program::Arc arc;
    };

    // What a warp visits: an arc for each lane that is read already, and arcs that
    // are not.
    struct Visits {
        Visit first;
        SpreadArcs<typename Program::State> others;
    };

    // Lanes that bring an item each, one in so many: as many as its arcs have.
    __device__ u32 lanes_an_item() const {
        if constexpr (marks_values) return Program::is_packed(common.problem) ? 4 : 1;
        return 1;
    }

    // Processes ready items, one for each lane of a warp that brings one.
    __device__ void process(bool is_item, u32 item) { visit_all(begin(is_item, item)); }

    // Takes ready items out of the queue.
    __device__ Visits begin(bool is_item, u32 item) {
        Visit now{};
        u64 first = 0;
        u64 last = 0;
        typename Program::State state{};
        // A look beside the claim: few items are deferred too.
        const bool has_deferred = is_item && queue(deferred_queue).has(item);
        bool runs;
        if constexpr (marks_values) {
            const bool is_packed = Program::is_packed(common.problem);
            if (is_packed) now = packed_arc(is_item, item);
            runs = is_item &&
                   Program::claim(common.problem, common.here, item, &state, &first, &last);
            if (runs && has_deferred && claim_deferred(item)) {
                state = Program::state(common.problem, item);
            }
            if (is_packed) share_packed(runs, item, &now, &state, &first, &last);
        } else {
            runs = is_item && claim(ready_queue, item);
            if (runs) {
                if (has_deferred) claim_deferred(item);
                state = Program::begin(common.problem, common.here, item, &first, &last);
            }
        }
        if (runs) {
            count[work_items] += 1;
            count[consumed] += 1;
            if (!is_fused && last - first >= shared_arcs().many &&
                shared_arcs().add(first, last, state)) {
                last = first;
            }
        }
        if constexpr (is_fused) share(first, &last, state);
        const SpreadArcs<typename Program::State> others(first, last, state);
        if constexpr (is_fused) {
            // Every arc may produce an item; those that do not are consumed at once.
            const u32 arcs = others.total + __popc(__ballot_sync(~0u, now.is_arc));
            if (arcs > 0) produce(arcs);
        }
        return {now, others};
    }

    // Whatever is deferred of an item is processed with it, and before its value is
    // read.
    __device__ bool claim_deferred(u32 item) {
        if (!queue(deferred_queue).claim(item)) return false;
        if (is_fused) {
            fetch_add_relaxed_sys(&common.status[deferred_out], u64(1));
        } else {
            count[deferred_out] += 1;
        }
        count[consumed] += 1;
        return true;
    }

    // Packed rows: reads an arc for each lane, of the item that the first of its four
    // brings.
    __device__ Visit packed_arc(bool is_item, u32 item) const {
        Visit visit{};
        visit.is_arc = __shfl_sync(~0u, is_item, lane() & ~3u);
        item = __shfl_sync(~0u, item, lane() & ~3u);
        if (visit.is_arc) {
            visit.arc = Program::packed_arc(common.problem, common.here, item, lane() & 3);
        }
        return visit;
    }

    // Packed rows: gives each lane what goes along its arc. A longer row is spread over
    // the lanes.
    __device__ void share_packed(bool runs, u32 item, Visit* now,
                                 typename Program::State* state, u64* first, u64* last) const {
        now->state = __shfl_sync(~0u, *state, lane() & ~3u);
        runs = __shfl_sync(~0u, runs, lane() & ~3u);
        const bool is_long = runs && now->arc.target == long_row;
        now->is_arc = runs && !is_long && now->arc.target != no_vertex;
        if (is_long && (lane() & 3) == 0) {
            *state = Program::begin(common.problem, common.here, item, first, last);
        }
    }

    // Visits arcs of one item, the lanes of a warp together.
    __device__ void visit_range(u64 first, u64 last, typename Program::State state) {
        visit_all(range(first, last, state));
    }

    __device__ Visits range(u64 first, u64 last, typename Program::State state) const {
        return {Visit{}, {first, lane() == 0 ? last : first, state}};
    }

    // Visits arcs, each while the next one is read, and sends what they emit. In one
    // loop: the code of sending is long.
    __device__ void visit_all(const Visits& visits) {
        Visit now = visits.first;
        for (u32 base = 0;; base += 32) {
            Visit next{};
            const bool is_last = base >= visits.others.total;
            if (!is_last) {
                const auto place = visits.others[base + lane()];
                next = read(place.is_arc, place.arc, place.state);
            }
            visit(now);
            if (unsent >= 32 || (is_last && unsent > 0)) send_emissions();
            if (is_last && unsent == 0) return;
            now = next;
        }
    }

    __device__ Visit read(bool is_arc, u64 at, typename Program::State state) const {
        Visit visit{is_arc, state, {}};
        if (is_arc) visit.arc = Program::arc(common.problem, at);
        return visit;
    }

    // Visits one arc for each lane of a warp.
    __device__ void visit(const Visit& visit) {
        u32 priority = 0;
        bool emits = false;
        if (visit.is_arc) {
            if constexpr (marks_values) {
                emits = Program::visit_and_mark(common.problem, common.here, visit.state,
                                                visit.arc, threshold, &priority,
                                                &count[filtered]);
            } else {
                emits = Program::visit(common.problem, common.here, visit.state, visit.arc,
                                       &priority, &count[filtered]);
            }
            if (is_fused) count[consumed] += !emits;
        }
        const u32 group = __ballot_sync(~0u, emits);
        if (group == 0) return;
        emissions().add(group, unsent, visit.arc.target, priority);
        unsent += __popc(group);
    }

    __device__ Emissions& emissions() const { return tally.emissions[threadIdx.x / 32]; }

    // Sends 32 emissions, or what there is, the lanes of a warp together.
    __device__ void send_emissions() {
        const u32 count = unsent < 32 ? unsent : 32;
        split_send(lane() < count, emissions().items[lane()], emissions().priorities[lane()]);
        unsent -= count;
        __syncwarp();
        if (unsent > 0) emissions().drop_sent();
    }
    // Ends a block: tells the device what it counted, then what it queued. True
    // for the last block of the kernel.
    __device__ bool finish_block() {
#pragma unroll
        for (u32 counter = 0; counter < counters; ++counter) {
            const u32 sum = __reduce_add_sync(~0u, count[counter]);
            if (lane() == 0 && sum > 0) atomicAdd(&tally.count[counter], sum);
        }
        __syncthreads();
        for (u32 at = threadIdx.x; at < counters; at += blockDim.x) {
            if (tally.count[at] > 0) {
                fetch_add_acq_rel_gpu(&common.status[at], u64(tally.count[at]));
            }
        }
        for (u32 at = threadIdx.x; at <= outboxes(); at += blockDim.x) {
            // Release: whom the host wakes finds the items.
            if (tally.news[at]) store_release_gpu(&common.status[ready_news + at], u64(1));
        }
        __threadfence();
        __syncthreads();
        __shared__ bool is_last;
        if (threadIdx.x == 0) {
            is_last = fetch_add_acq_rel_gpu(&common.scratch[ticket], u64(1)) == gridDim.x - 1;
        }
        __syncthreads();
        return is_last;
    }

    // What one warp of the last block does last, after whatever one of its threads
    // has done.
    __device__ void publish(u64 packed_items) {
        __syncwarp();
        end();
        for (u64 at = lane(); at < common.status.len; at += 32) {
            u64 word;
            if (at == packed) {
                word = packed_items;
            } else if (at == ready_entries) {
                word = queue(ready_queue).length();
            } else if (at == deferred_entries) {
                word = queue(deferred_queue).length();
            } else if (at >= ready_news) {
                // Acquire: pairs with the release of whoever raised it.
                word = fetch_exchange_acq_rel_gpu(&common.status[at], u64(0));
            } else {
                word = load_acquire_gpu(&common.status[at]);
            }
            store_relaxed_sys(&common.report[at], word);
        }
    }

    // What the last block does last if another kernel publishes for it.
    __device__ void end() {
        if (threadIdx.x == 0) common.scratch[ticket] = 0;
    }
};

}  // namespace millstream
