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
// Many threads visit the arcs of an item; each arc is read while the one before is
// visited.
#pragma once

#include "pieces.cuh"
#include "shared_arcs.cuh"
#include "split.cuh"
#include "spread_arcs.cuh"

namespace millstream {

template <class...>
using Void = void;

// Whether a program has a type of arcs, with a target.
template <class Program, class = void>
constexpr bool has_arcs = false;
template <class Program>
constexpr bool has_arcs<Program, Void<decltype(Program::Arc::target)>> = true;

// One device's worklist as its kernels see it.
template <class Program, bool is_fused = false>
struct Worklist : Split<Program, is_fused> {
    static_assert(has_arcs<Program>,
                  "a program has a struct Arc, with a member target: what is read of an arc");

    using Base = Split<Program, is_fused>;
    using Base::common, Base::count, Base::fail, Base::outboxes;
    using Base::produce, Base::queue, Base::split_send, Base::tally;
    // Items that this warp has emitted and not yet sent.
    u32 unsent = 0;
    // Host-driven: whether this thread has shared the arcs of its item.
    bool shares = false;

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
    // What a lane visits: an arc, and the state of its item, which goes along it.
    struct Visit {
        bool is_arc;
        typename Program::State state;
        typename Program::Arc arc;
    };

    // Arcs of a warp's items.
    using Arcs = SpreadArcs<typename Program::State>;

    // Host-driven: processes ready items, one for each lane of a warp.
    __device__ void process(bool is_item, u32 item) {
        shares = false;
        const Arcs arcs = begin(is_item, item);
        const u32 items = __popc(__ballot_sync(~0u, is_item));
        const u32 shared = __popc(__ballot_sync(~0u, shares));
        // What all lanes have shared is before what the first one tells.
        if (shared > 0) __syncwarp();
        if (lane() == 0 && items > 0) {
            u64* const word = &common.scratch[begun];
            const u64 more = u64(shared) << 32 | items;
            // Release: pairs with the acquire in `visit_shared_arcs`.
            if (shared > 0) {
                fetch_add_release_gpu(word, more);
            } else {
                fetch_add_relaxed_gpu(word, more);
            }
        }
        visit_all(arcs);
    }

    // Host-driven: visits arcs that the kernel's warps share. Warps without items wait for more of
    // these until all `items` have begun: one item may have the arcs of a whole level. They do not
    // wait for long: a block that has not begun may need this block's place.
    __device__ void visit_shared_arcs(u32 items) {
        const auto arcs = shared_arcs();
        u64 seen = 0;
        bool have_begun = false;
        for (u32 looks = 0; !have_begun && looks < most_looks; ++looks) {
            const u64 now = load_acquire_gpu(&common.scratch[begun]);
            // All lanes take what the first lane has seen.
            have_begun = __shfl_sync(~0u, u32(now), 0) >= items;
            if (__shfl_sync(~0u, u32(now >> 32), 0) <= seen) continue;
            arcs.for_each_since(&seen, [&](u64 first, u64 last, typename Program::State state) {
                visit_range(first, last, state);
            });
        }
    }

    // Host-driven, the whole last block: ends what the kernel consumed, and what its warps have
    // shared.
    __device__ void end_process(const Snapshot& consumes) {
        const u64 has_begun = load_relaxed_gpu(&common.scratch[begun]);
        bool is_left = false;
        if (threadIdx.x == 0) {
            is_left = consumes.finish(queue(ready_queue), &common.scratch[snapshot], true);
        }
        if (has_begun >> 32 > 0) shared_arcs().clear();
        // All threads have read `begun`.
        __syncthreads();
        if (threadIdx.x != 0) return;
        common.scratch[begun] = 0;
        if (is_left) raise_news(0);
    }

    // Tells the host that items are ready (`at` is 0) or in an outbox (counted from 1). Not by a
    // store: whoever resets the word must find the items of all who have raised it, and a store
    // would hide those of earlier ones.
    __device__ void raise_news(u32 at) const {
        raise_relaxed_gpu(&common.status[ready_news + at], u64(1));
    }

    // Some tens of microseconds.
    static constexpr u32 most_looks = 64;

    // Takes ready items out of the queue; returns their arcs.
    __device__ Arcs begin(bool is_item, u32 item) {
        // A load beside the claim, not a second claim: few items are also deferred.
        const bool has_deferred = is_item && queue(deferred_queue).has(item);
        const bool runs = is_item && queue(ready_queue).claim(item);
        u64 first = 0;
        u64 last = 0;
        typename Program::State state{};
        if (runs) {
            if (has_deferred) claim_deferred(item);
            state = Program::begin(common.problem, common.here, item, &first, &last);
            count[work_items] += 1;
            count[consumed] += 1;
            if (!is_fused && last - first >= shared_arcs().many &&
                shared_arcs().add(first, last, state)) {
                last = first;
                shares = true;
            }
        }
        if constexpr (is_fused) share(first, &last, state);
        const Arcs arcs(first, last, state);
        // Every arc may produce an item; those that do not are consumed at once.
        if (is_fused && arcs.total > 0) produce(arcs.total);
        return arcs;
    }

    // An item that is also deferred is processed only once: this takes its deferred entry,
    // before its value is read.
    __device__ void claim_deferred(u32 item) {
        if (!queue(deferred_queue).claim(item)) return;
        if (is_fused) {
            fetch_add_relaxed_sys(&common.status[deferred_out], u64(1));
        } else {
            count[deferred_out] += 1;
        }
        count[consumed] += 1;
    }

    // Visits arcs of one item, the lanes of a warp together.
    __device__ void visit_range(u64 first, u64 last, typename Program::State state) {
        visit_all(range(first, last, state));
    }

    __device__ Arcs range(u64 first, u64 last, typename Program::State state) const {
        return {first, lane() == 0 ? last : first, state};
    }

    // Visits arcs, each while the next one is read, and sends what they emit. All in one
    // loop: the code of sending is long.
    __device__ void visit_all(const Arcs& arcs) {
        if (arcs.total == 0) return;
        Visit now = read(arcs, 0);
        for (u32 base = 0;; base += 32) {
            Visit next{};
            const bool is_last = base + 32 >= arcs.total;
            if (!is_last) next = read(arcs, base + 32);
            visit(now);
            if (unsent >= 32 || (is_last && unsent > 0)) send_emissions();
            if (is_last && unsent == 0) return;
            now = next;
        }
    }

    // The arcs from a place on, one for each lane.
    __device__ Visit read(const Arcs& arcs, u32 base) const {
        const auto place = arcs[base + lane()];
        Visit visit{place.is_arc, place.state, {}};
        if (place.is_arc) visit.arc = Program::arc(common.problem, place.arc);
        return visit;
    }

    // Visits one arc for each lane of a warp.
    __device__ void visit(const Visit& visit) {
        u32 priority = 0;
        bool emits = false;
        if (visit.is_arc) {
            emits = Program::visit(common.problem, common.here, visit.state, visit.arc,
                                   &priority, &count[filtered]);
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
        // Releases what the block did: whoever the host wakes finds the items. Counts may become
        // visible after the items: the host uses them only between kernels.
        fence_acq_rel_gpu();
        for (u32 at = threadIdx.x; at < counters; at += blockDim.x) {
            if (tally.count[at] > 0) {
                fetch_add_relaxed_gpu(&common.status[at], u64(tally.count[at]));
            }
        }
        for (u32 at = threadIdx.x; at <= outboxes(); at += blockDim.x) {
            if (tally.news[at]) raise_news(at);
        }
        __syncthreads();
        __shared__ bool is_last;
        if (threadIdx.x == 0) {
            is_last = fetch_add_acq_rel_gpu(&common.scratch[ticket], u64(1)) == gridDim.x - 1;
        }
        __syncthreads();
        return is_last;
    }

    // What one warp of the last block does last, after whatever the others have done.
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
                word = fetch_exchange_relaxed_gpu(&common.status[at], u64(0));
            } else {
                word = load_relaxed_gpu(&common.status[at]);
            }
            // Acquire: pairs with the releases of whoever raised the news, and counted.
            fence_acq_rel_gpu();
            store_relaxed_sys(&common.report[at], word);
        }
        __syncwarp();
        if (lane() == 0) common.tell.say();
    }

    // What the last block does last, before it tells.
    __device__ void end() {
        if (threadIdx.x == 0) common.scratch[ticket] = 0;
    }
};

}  // namespace millstream
