// Shortest paths by near and far piles on a gang of persistent kernels: from threshold to
// threshold. The protocol is in NEAR_FAR.md.

namespace millstream {

class NearFarSearch : public NearFarDevice {
   public:
    using NearFarDevice::NearFarDevice;

    __device__ void run() {
        clear();
        visit_sources();
        u32 thresholds = 1;
        for (;;) {
            if (!settle()) return report(thresholds, true);
            if (!is_alone() && !tell()) return report(thresholds, true);
            const u32 phase = meet_devices();
            if (phase != next && phase != absorb) return report(thresholds, phase != finished);
            if (phase == next) {
                ++thresholds;
                begin_after(u32(~barrier.kept(kept_nearest)));
            }
            if (!is_alone()) take_told();
        }
    }

   private:
    // What the devices do until they meet again: take what was told, after moving to the next
    // threshold, or with the last one.
    enum Phase : u32 { next, absorb, finished };
    // A word of the report: whether there was no room for all that was near.
    static constexpr u32 report_too_wide = own_reports;
    // Words that are kept: what all had sent, and the complement of the nearest key.
    enum Kept { kept_sent, kept_nearest };
    // Lists that a block goes through by itself.
    static constexpr u32 hops = 8;

    __device__ void clear() {
        if (threadIdx.x < 3) block.listed[threadIdx.x] = 0;
        if (threadIdx.x < SpanSet<u64>::most) block.seen[threadIdx.x] = 0;
        if (threadIdx.x < 2) block.tally.before[threadIdx.x] = 0;
        if (threadIdx.x == 0) {
            block.surplus = block.mark = block.read = block.far = block.sent = block.visited = block.tally.round = 0;
            block.gives_up = block.tally.looked = 0;
            block.nearest = unreached;
            block.threshold = settings.first_end;
            block.pile = 0;
            // Computed once: a division takes as long as a hop's accesses.
            block.room = u32(lists.far.len / 2 / gridDim.x);
        }
        __syncthreads();
    }

    __device__ void visit_sources() {
        for (u64 at = thread_in_grid(); at < lists.sources.len; at += threads_in_grid()) {
            const u32 source = lists.sources[at];
            if (lower(source, 0, unreached)) list(0, source, 0, row_of(source), most_kept);
        }
    }

    // All blocks, until nothing that is near is left on this device. False if the gang is
    // stopped, as below.
    __device__ bool settle() {
        for (;;) {
            tally.meet(barrier, false, [&](Tally::Sums& its) {
                its = {listed(0), block.surplus, block.gives_up != 0};
                block.surplus = 0;
            });
            const typename Tally::Sums& sums = tally.sums();
            if (sums.is_stopped) return false;
            left += sums.surplus;
            const u32 all = sums.found + left;
            if (all == 0) return true;
            if (left > 0) take_share();
            const u32 average = all / gridDim.x + 1;
            // A block with too many items hands the rest on to others.
            const bool hands_on = average <= most_average && listed(0) > 2 * average + 32;
            for (u32 hop = 0; hop < hops && listed(0) > 0; ++hop)
                visit_list(hands_on ? average : most_kept);
        }
    }

    // Blocks take equal shares of the log, as much as they have room for.
    __device__ void take_share() {
        const u32 room = gridDim.x * (most_listed - most_kept);
        const u32 all = left < room ? left : room;
        const u32 begin = u32(u64(all) * blockIdx.x / gridDim.x);
        const u32 its = u32(u64(all) * (blockIdx.x + 1) / gridDim.x) - begin;
        const u32 before = listed(0);
        for (u32 at = threadIdx.x; at < its; at += threads) {
            const u64 item = load_relaxed_gpu(&lists.log[(block.mark + begin + at) % lists.log.len]);
            const u32 which = turn % 2;
            block.rows[which][before + at] = row_of(u32(item >> 32));
            block.vertices[which][before + at] = u32(item >> 32);
            block.keys[which][before + at] = u32(item);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            listed(0) = before + its;
            // All have met since they took their last shares.
            block.read = block.mark;
            block.mark += all;
        }
        __syncthreads();
        left -= all;
    }

    // The whole block: visits the arcs of all vertices of the list.
    __device__ void visit_list(u32 most) {
        const u32 here = listed(0);
        if (threadIdx.x == 0) {
            listed(2) = 0;
            block.visited += here;
        }
        for (u32 at = threadIdx.x; at < here * near_far_threads; at += threads) {
            const u32 item = at / near_far_threads;
            const u32 arc = at % near_far_threads;
            const NearRow& row = block.rows[turn % 2][item];
            const u32 target = row.targets[arc % NearRow::most];
            if (target < NearRow::special) {
                if (arc < NearRow::most) visit(item, target, row.weight(arc), most);
            } else if (target != NearRow::none) {
                visit_long(item, row, arc, most);
            }
        }
        __syncthreads();
        ++turn;
    }

    // Visits a thread's part of a row that is not packed.
    __device__ void visit_long(u32 item, const NearRow& row, u32 arc, u32 most) {
        const u32 begin = row.targets[NearRow::long_begin] - NearRow::special;
        const u32 arcs = row.targets[NearRow::long_arcs] - NearRow::special;
        for (; arc < arcs; arc += near_far_threads) {
            const bool weighs = graph.long_weights.len > 0;
            const u32 weight = weighs ? graph.long_weights[begin + arc] : 1;
            visit(item, graph.long_targets[begin + arc], weight, most);
        }
    }

    __device__ void visit(u32 item, u32 target, u32 weight, u32 most) {
        const u32 longer =
            NearFarRule::extended(block.keys[turn % 2][item], NearFarRule::weight(weight));
        // `unreached` lowers no key: a branch takes longer than accesses that are for nothing.
        const u32 key = longer <= settings.limit ? longer : unreached;
        // Loaded before it is known to be needed: two accesses at once.
        const NearRow row = row_of(target);
        if (!lower(target, key, predecessor_of(item, key))) return;
        if (key < block.threshold) {
            list(1, target, key, row, most);
        } else {
            defer(target, key);
        }
    }

    // The id of an item's vertex, if predecessors are kept.
    __device__ u32 predecessor_of(u32 item, u32 key) const {
        if (sizeof(NearFarValue) == sizeof(u32) || key == unreached) return unreached;
        return id_of(block.vertices[turn % 2][item]);
    }

    // All blocks, with nothing near left: tells other devices the keys of settled owned vertices in
    // their halos. False if the gang is stopped: what other blocks have lowered may be unseen.
    __device__ bool tell() {
        // Values that other blocks have lowered are seen after this.
        tally.meet(barrier, true, [](Tally::Sums&) {});
        if (tally.sums().is_stopped) return false;
        for (u32 base = u32(thread_in_grid()) - lane(); base < exchange.exports.len;
             base += u32(threads_in_grid())) {
            const u32 vertex = exchange.exports[base + lane()];
            const u32 key = vertex == NearRow::none
                                ? unreached
                                : key_of(load_relaxed_gpu(&lists.values[vertex]));
            const bool is_news = key < block.threshold && key != exchange.told[base + lane()];
            const u32 news = __ballot_sync(~0u, is_news);
            if (news == 0) continue;
            u32 to = 0;
            while (base >= settings.shape.exports[to + 1]) ++to;
            u64 begin = 0;
            if (lane() == 0) {
                begin = barrier.send(to, __popc(news));
                atomicAdd(&block.sent, __popc(news));
            }
            begin = __shfl_sync(~0u, begin, 0);
            if (!is_news) continue;
            exchange.told[base + lane()] = key;
            const u32 place =
                settings.shape.places[to] + base + lane() - settings.shape.exports[to];
            const u64 at = begin + __popc(news & ((1u << lane()) - 1));
            u64* const ring = exchange.inboxes[to].items + 2 * settings.shape.places[to];
            ring[at % (2 * settings.shape.told[to])] = item_of(place, key);
        }
        return true;
    }

    // All blocks of all devices: what comes next.
    __device__ u32 meet_devices() {
        __syncthreads();
        if (threadIdx.x == 0) {
            if (block.nearest != unreached) barrier.offer(u64(~block.nearest));
            if (block.sent > 0) barrier.count(sent_count, block.sent);
            if (block.visited > 0) barrier.count(visited_count, block.visited);
            block.sent = block.visited = 0;
        }
        return barrier.meet([&](Totals& totals) { return decide(totals); }).phase;
    }

    // One thread of each block, the same answer in all.
    __device__ u32 decide(Totals& totals) const {
        const u64 sent = totals.count(sent_count);
        const bool is_told = totals.keep(kept_sent, sent) != sent;
        if (totals.most() == 0) return is_told ? absorb : finished;
        totals.keep(kept_nearest, totals.most());
        return next;
    }

    // All blocks: takes what owners have told of halo vertices.
    __device__ void take_told() {
        const u32 owned = end - first;
        u32 kept = 0;
        for (u32 other = 0; other < settings.place.devices; ++other) {
            const u32 begin = settings.shape.halo[other];
            const u32 room = 2 * (settings.shape.halo[other + 1] - begin);
            const u64* const ring = exchange.inboxes[settings.place.device].items + 2 * begin;
            const u32 there = barrier.received_from(other);
            for (u32 at = block.seen[other] + u32(thread_in_grid()); at < there;
                 at += u32(threads_in_grid())) {
                const u64 item = ring[at % room];
                const u32 vertex = owned + u32(item >> 32);
                const u32 key = u32(item);
                if (!lower(vertex, key, unreached)) continue;
                ++kept;
                // What is told is near: it is settled.
                list(0, vertex, key, row_of(vertex), most_kept);
            }
        }
        kept = __reduce_add_sync(~0u, kept);
        if (lane() == 0 && kept > 0) fetch_add_relaxed_gpu(&word(kept_items), u64(kept));
        __syncthreads();
        if (threadIdx.x < settings.place.devices)
            block.seen[threadIdx.x] = barrier.received_from(threadIdx.x);
        __syncthreads();
    }

    // All blocks: sets a threshold beyond the nearest vertex. Items that are near now leave the piles.
    __device__ void begin_after(u32 nearest) {
        const u32 all = block.far;
        const u64* const before = pile_of(block.pile);
        __syncthreads();
        if (threadIdx.x == 0) {
            const u32 after = NearFarRule::extended(nearest, NearFarRule::weight(settings.delta));
            // If rounding leaves nothing of delta, thresholds give no order any more: all is near.
            block.threshold = after > nearest ? after : unreached;
            block.far = 0;
            block.nearest = unreached;
            block.pile ^= 1;
        }
        __syncthreads();
        for (u32 at = threadIdx.x; at < all; at += threads) {
            const u32 vertex = u32(before[at] >> 32);
            const u32 key = u32(before[at]);
            // If the key differs, it became smaller since: another item has the smaller key.
            if (key_of(load_relaxed_gpu(&lists.values[vertex])) != key) continue;
            if (key < block.threshold) {
                list(0, vertex, key, row_of(vertex), most_kept);
            } else {
                defer(vertex, key);
            }
        }
        __syncthreads();
    }

    // The whole grid, at the end.
    __device__ void report(u32 thresholds, bool is_stopped) const {
        if (thread_in_grid() == 0) {
            // Pairs with the fence in `give_up`.
            fence_acq_rel_gpu();
            tell_end(is_stopped, barrier.counted(visited_count), thresholds);
            tell_items(load_relaxed_gpu(&word(kept_items)));
            tell_host(report_too_wide, load_relaxed_gpu(&word(is_too_wide)));
        }
        end_kernel();
    }
};

}  // namespace millstream

extern "C" __global__ __launch_bounds__(1024, 1) void near_far(
    const __grid_constant__ millstream::NearGraph graph,
    const __grid_constant__ millstream::NearFarLists lists,
    const __grid_constant__ millstream::NearFarExchange exchange,
    const __grid_constant__ millstream::SpanSet<millstream::u64> words,
    const __grid_constant__ millstream::GangReports reports,
    const __grid_constant__ millstream::NearFarSettings settings) {
    __shared__ millstream::NearFarSearch::Block block;
    millstream::NearFarSearch(graph, lists, exchange, words, reports, settings, block).run();
}
