// Level-synchronous BFS, top-down: the rows of the frontier, and what other devices have
// found here.

namespace millstream {

class LevelTopDown : public LevelLog {
   protected:
    using LevelLog::LevelLog;

    // Up to this many rows are spread over all warps, whatever their lengths.
    static constexpr u32 few = 32;

    // Where packets of `from` lie in the memory of `to`.
    __device__ u64* inbox(u32 to, u32 from) const {
        const u64 room = settings.place.boundaries[to + 1] - settings.place.boundaries[to];
        return exchange.inboxes[to].items + (from - (from > to)) * room;
    }

    // All blocks: claims the sources. If these are few, their rows are not cut.
    __device__ void claim_sources() {
        const u64 sources = lists.sources.len;
        for (u64 at = thread_in_grid(); at - lane() < sources; at += threads_in_grid()) {
            const u32 source = at < sources ? u32(lists.sources[at]) : first;
            const bool is_found = at < sources && claim(source);
            count_found(is_found);
            if (!is_found) continue;
            const Row row = row_of(source);
            const u32 most = sources <= few ? row.arcs + 1 : piece;
            const u64 place = barrier.take_places((row.arcs + most - 1) / most);
#pragma unroll 1
            for (u32 begin = 0; begin < row.arcs; begin += most) {
                const u32 left = row.arcs - begin;
                put(place + begin / most, Row{row.begin + begin, source, left < most ? left : most});
            }
            barrier.offer(row.arcs);
            find(source, unreached, true);
        }
    }

    // All blocks: claims what others have found here: vertices below, predecessors
    // above.
    __device__ void take(const u64* items, u64 from, u64 to, bool is_listed) {
        const u64 step = threads_in_grid();
        for (u64 base = from + thread_in_grid() - lane(); base < to; base += step) {
            const u64 at = base + lane();
            Row row{0, 0, 0};
            bool is_found = false;
            if (at < to) {
                const u64 item = items[at];
                const u32 vertex = u32(item);
                is_found = claim(vertex);
                if (is_found) {
                    if (is_listed) row = row_of(vertex);
                    find(vertex, u32(item >> 32), is_listed);
                }
            }
            count_found(is_found);
            push(row);
        }
    }

    // All blocks: takes what has come into the inboxes.
    __device__ void take_all(bool is_listed) {
        for (u32 other = 0; other < settings.place.devices; ++other) {
            if (other == settings.place.device) continue;
            const u32 there = barrier.received_from(other);
            take(inbox(settings.place.device, other), block.seen[other], there, is_listed);
            __syncthreads();
            if (threadIdx.x == 0) block.seen[other] = there;
        }
        __syncthreads();
        if (threadIdx.x == 0 && block.found > 0)
            fetch_add_relaxed_gpu(&barrier.device_word(kept_items), u64(block.found));
    }

    // Top-down, all blocks: visits the rows of the log from `from` to `to`. Each warp takes
    // some of the rows; if they are few, each warp takes some of the arcs of any row.
    template <bool is_listed>
    __device__ void expand_frontier(u32 from, u32 to) {
        const u32 warps = u32(threads_in_grid() / 32);
        const u32 share = (to - from + warps - 1) / warps;
        const u32 step = share < 32 ? share : 32;
        const bool are_few = to - from <= few;
        const u32 end = are_few ? stretches(from, to) : to - from;
#pragma unroll 1
        for (u32 base = u32(thread_in_grid() / 32) * step; base < end; base += warps * step)
            visit_rows<is_listed>(are_few ? stretch(from, to, base) : row_in(from + base, step, to));
    }

    // A warp: up to `step` rows of the log.
    __device__ Row row_in(u32 from, u32 step, u32 to) const {
        if (lane() >= step || from + lane() >= to) return Row{0, 0, 0};
        return reinterpret_cast<const Row*>(lists.log.items)[from + lane()];
    }

    // How many stretches of up to 32 arcs few rows have.
    __device__ u32 stretches(u32 from, u32 to) const {
        const Row row = row_in(from, 32, to);
        return __shfl_sync(~0u, prefix_sum((row.arcs + 31) / 32), 31);
    }

    // A warp: the stretch `at` of few rows, as a row of the first lane.
    __device__ Row stretch(u32 from, u32 to, u32 at) const {
        const Row row = row_in(from, 32, to);
        const u32 last = prefix_sum((row.arcs + 31) / 32);
        const u32 whose = owner_of(last, at);
        const u32 arcs = __shfl_sync(~0u, row.arcs, whose);
        const u32 skipped = (at - (__shfl_sync(~0u, last, whose) - (arcs + 31) / 32)) * 32;
        const u64 begin = __shfl_sync(~0u, row.begin, whose) + skipped;
        const u32 vertex = __shfl_sync(~0u, row.vertex, whose);
        const u32 left = arcs - skipped < 32 ? arcs - skipped : 32;
        return Row{begin, vertex, lane() == 0 ? left : 0};
    }

    // A warp: the arcs of its lanes' rows.
    template <bool is_listed>
    __device__ void visit_rows(const Row& row) {
        const u32 last = prefix_sum(row.arcs);
        const u32 total = __shfl_sync(~0u, last, 31);
#pragma unroll 1
        for (u32 base = 0; base < total; base += 32) {
            const u32 at = base + lane();
            const u32 whose = owner_of(last, at);
            const u32 before = __shfl_sync(~0u, last - row.arcs, whose);
            const u64 begin = __shfl_sync(~0u, row.begin, whose);
            const u32 vertex = __shfl_sync(~0u, row.vertex, whose);
            const bool is_arc = at < total;
            visit<is_listed>(is_arc, vertex, is_arc ? out.targets[begin + (at - before)] : first);
        }
    }

    // A warp: an arc of each lane.
    template <bool is_listed>
    __device__ void visit(bool is_arc, u32 vertex, u32 target) {
        const bool is_own = owns(target);
        Row row{0, 0, 0};
        // If a bit is set but not seen yet, that only costs a claim.
        bool is_new = is_arc && !(bits(settings.place.device, copy)[target / 32] >> target % 32 & 1);
        if (!__any_sync(~0u, is_new)) return;
        // Loaded before it is known to be needed: two accesses at once.
        if (is_listed && is_new && is_own) row = row_of(target);
        if (is_new) is_new = claim(target);
        const bool is_found = is_new && is_own;
        if (is_found) {
            if (is_listed) prefetch(&out.targets[row.begin]);
            if (is_listed || !reaches_late()) find(target, vertex, is_listed);
        } else {
            row.arcs = 0;
        }
        count_found(is_found);
        if (is_listed) push(row);
        // What is reached late is told by a merge.
        if (!is_alone() && (is_listed || !reaches_late()))
            send(is_new && !is_own, vertex, target);
    }

    // A warp: tells owners of their vertices. A vertex's bit in this device's copy says
    // that its owner has been told: each is told once, so that an inbox has room for all.
    __device__ void send(bool is_item, u32 vertex, u32 target) {
        u32 owner = settings.place.device;
        if (is_item) {
            owner = 0;
            while (target >= settings.place.boundaries[owner + 1]) ++owner;
        }
        for (u32 left = __ballot_sync(~0u, is_item); left != 0;) {
            const u32 to = __shfl_sync(~0u, owner, __ffs(left) - 1);
            const u32 same = __ballot_sync(~0u, is_item && owner == to);
            u64 base = 0;
            if (lane() == 0) {
                base = barrier.send(to, __popc(same));
                atomicAdd(&block.sent, __popc(same));
            }
            base = __shfl_sync(~0u, base, 0);
            if (is_item && owner == to) {
                const u64 place = base + __popc(same & ((1u << lane()) - 1));
                inbox(to, settings.place.device)[place] = u64(vertex) << 32 | target;
            }
            left &= ~same;
        }
    }
};

}  // namespace millstream
