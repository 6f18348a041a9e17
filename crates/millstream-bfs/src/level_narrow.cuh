// Level-synchronous BFS, top-down through thin frontiers: each block keeps a part of its
// device's frontier to itself, packed rows and all, and goes from level to level
// without a list that all share. See LEVELS.md.

#include "block_tally.cuh"

namespace millstream {

class LevelNarrow : public LevelHalo {
   public:
    // Half of a block: parts are small.
    using Tally = BlockTally<512>;

    // Vertices of a block's part: after a level, and with its share of what others could
    // not keep.
    static constexpr u32 most_kept = 384;
    static constexpr u32 most_listed = 512;
    // On average, at most.
    static constexpr u32 most_average = most_listed - most_kept - 1;

    // What a block shares.
    struct Part {
        PackedRow rows[2][most_listed];  // Of the frontier and of the next, in turns.
        u32 vertices[2][most_listed];
        u32 listed[2];
        u32 found;
        u32 joined;  // Of the halo.
        Tally::Shared tally;
        u32 now;      // Which list is the frontier's.
        u32 surplus;  // Rows of the frontier in the device's log, from `mark` on.
        // Of the last level: for threads that took no part.
        u32 mark;
        u32 level;
        bool is_stopped;
    };

    __device__ LevelNarrow(const LevelRows& out, const LevelRows& in, const LevelValues& values,
                           const LevelLists& lists, const LevelExchange& exchange,
                           const SpanSet<u64>& words, const GangReports& reports,
                           const LevelSettings& settings, Block& block, const NearRows& near,
                           Part& part)
        : LevelHalo(out, in, values, lists, exchange, words, reports, settings, block, near),
          part(part), tally(&words[settings.device][GangDevice::barrier_words], part.tally) {}

   protected:
    // The whole block, once.
    __device__ void clear_part() {
        if (threadIdx.x == 0) part.found = part.joined = part.now = part.tally.round = 0;
        if (threadIdx.x < 2) part.listed[threadIdx.x] = part.tally.before[threadIdx.x] = 0;
    }

    // Whether a frontier of so many rows, on all devices together, is thin. The same in
    // all blocks.
    __device__ bool is_narrow(u64 rows) const {
        const u64 most = is_alone() ? u64(gridDim.x) * most_average / 2 : most_shared;
        return near.shape.depth > 0 && blockDim.x >= Tally::threads && rows <= most;
    }

    // A leader: whether parts are so large that the next levels should be of lists.
    __device__ static bool is_wide(const Totals& totals) { return totals.most() > most_average; }

    // The whole block, before `expand_narrowly`: the frontier is the rows of the log from
    // `mark` up to here, no part has any.
    __device__ void enter(u32 places) {
        if (threadIdx.x == 0) part.surplus = places - mark;
        __syncthreads();
    }

    // All blocks: takes what others have told, and goes through `levels` levels, or until the
    // depth limit is reached, or, alone, nothing is found or more than is thin. Leaves the last
    // frontier in parts and the log, and offers its vertices a block. False if the gang
    // is stopped.
    __device__ bool expand_narrowly(u32 levels) {
        if (threadIdx.x < Tally::threads) {
            const bool is_stopped = !go_through(levels);
            if (threadIdx.x == 0) {
                part.mark = mark;
                part.level = level;
                part.is_stopped = is_stopped;
            }
        }
        __syncthreads();
        if (part.is_stopped) return false;
        mark = part.mark;
        level = part.level;
        return true;
    }

    // All blocks: the frontier into the log, as others have it there. Owners have what is of
    // the halo.
    __device__ void widen_frontier() {
        for (u64 row = thread_in_grid(); row < part.surplus; row += threads_in_grid()) {
            Row& its = reinterpret_cast<Row*>(lists.log.items)[mark + row];
            its = near_row_of(its.vertex);
        }
        const u32 now = part.now;
        const u32 listed = part.listed[now];
        for (u32 place = threadIdx.x; place - lane() < listed; place += blockDim.x) {
            Row row{0, 0, 0};
            if (place < listed) row = near_row_of(part.vertices[now][place]);
            push(row);
        }
        __syncthreads();
        if (threadIdx.x == 0) part.listed[now] = 0;
    }

   private:
    // Rows of a thin frontier of several devices.
    static constexpr u64 most_shared = 1 << 12;

    Part& part;
    Tally tally;

    // Threads that take part, as all below.
    __device__ bool go_through(u32 levels) {
        u32 last = settings.depth_limit;
        if (last - level > levels) last = level + levels;
        absorb_news();
        while (level != last && goes_on()) {
            ++level;
            expand_part(!is_alone() && level == last);
        }
        const Tally::Sums& sums = tally.sums();
        if (threadIdx.x == 0) {
            part.surplus = sums.surplus;
            if (blockIdx.x == 0 && sums.found > 0) barrier.offer(sums.found / gridDim.x + 1);
        }
        return !sums.is_stopped;
    }

    // With others a device goes as far as they do.
    __device__ bool goes_on() const {
        const Tally::Sums& sums = tally.sums();
        return !sums.is_stopped && (!is_alone() || (sums.found > 0 && sums.found <= most_found()));
    }

    // As much as parts have room for.
    __device__ static u32 most_found() { return gridDim.x * most_average; }

    // What owners have found in the halo: it is visited, and that of the last level goes to
    // the rows of the frontier in the log.
    __device__ void absorb_news() {
        u32 found = 0;
        for (u32 other = 0; other < settings.devices; ++other) {
            if (other == settings.device) continue;
            const u64* const items = inbox(settings.device, other);
            const u32 there = u32(barrier.received_from(other));
            for (u32 at = block.seen[other] + blockIdx.x * Tally::threads + threadIdx.x;
                 at < there; at += gridDim.x * Tally::threads) {
                const u64 item = items[at];
                const u32 id = settings.vertices + u32(item);
                if (!claim_near(id)) continue;
                ++found;
                if (!(item >> 32)) continue;
                atomicAdd(&part.joined, 1);
                put_id(id);
            }
        }
        add_found(found);
        // All that was claimed counts, so that no claim of the next level comes before.
        tally.meet(barrier, false, [&](u32& all, u32& surplus) {
            if (part.found > 0)
                fetch_add_relaxed_gpu(&barrier.leaders(kept_items), u64(part.found));
            surplus = part.joined;
            all = part.found + part.listed[part.now];
            part.found = part.joined = 0;
            if (blockIdx.x != 0) return;
            surplus += part.surplus;
            all += part.surplus;
        });
        const u32 other = threadIdx.x;
        if (other < settings.devices) block.seen[other] = u32(barrier.received_from(other));
    }

    __device__ void add_found(u32 found) {
        found = __reduce_add_sync(~0u, found);
        if (lane() == 0) atomicAdd(&part.found, found);
    }

    // Blocks take equal shares of the next `rows` of the log.
    __device__ void take_share(u32 now, u32 rows) {
        const u32 begin = u32(u64(rows) * blockIdx.x / gridDim.x);
        const u32 end = u32(u64(rows) * (blockIdx.x + 1) / gridDim.x);
        const u32 listed = part.listed[now];
        for (u32 row = begin + threadIdx.x; row < end; row += Tally::threads) {
            const u32 place = listed + row - begin;
            const u32 vertex = reinterpret_cast<Row*>(lists.log.items)[mark + row].vertex;
            part.vertices[now][place] = vertex;
            part.rows[now][place] = packed(vertex);
        }
        Tally::meet_in_block();
        if (threadIdx.x == 0) part.listed[now] = listed + end - begin;
        Tally::meet_in_block();
        mark += rows;
    }

    // A level. If a block's part is much larger than the average, all that it finds above the
    // average goes to others.
    __device__ void expand_part(bool orders) {
        const u32 now = part.now;
        const u32 average = tally.sums().found / gridDim.x + 1;
        u32 kept = 0;
        u32 found = 0;
        // At a time as much as parts have room for: it is more among several devices only,
        // that go on until they meet.
        for (u32 left = tally.sums().surplus;;) {
            const u32 rows = left < most_found() ? left : most_found();
            if (rows > 0) take_share(now, rows);
            const u32 listed = part.listed[now];
            // The same each time: if there is more than one, the average is large.
            kept = average <= most_average && listed > 2 * average + 32 ? average : most_kept;
            for (u32 place = threadIdx.x; place < listed * PackedRow::most;
                 place += Tally::threads) {
                const u32 arc = place % PackedRow::most;
                const PackedRow& row = part.rows[now][place / PackedRow::most];
                const u32 vertex = part.vertices[now][place / PackedRow::most];
                if (row.targets[0] == PackedRow::is_long) {
                    found += visit_long(now ^ 1, vertex, row, arc, kept);
                } else if (row.targets[arc] != PackedRow::none) {
                    found += visit_near(now ^ 1, vertex, row.targets[arc], kept);
                }
            }
            left -= rows;
            if (left == 0) break;
            Tally::meet_in_block();
            if (threadIdx.x == 0) part.listed[now] = 0;
            Tally::meet_in_block();
        }
        add_found(found);
        tally.meet(barrier, orders, [&](u32& all, u32& surplus) {
            part.now = now ^ 1;
            u32& next = part.listed[now ^ 1];
            surplus = next > kept ? next - kept : 0;
            next -= surplus;
            all = part.found;
            block.found += all;
            part.listed[now] = part.found = 0;
        });
    }

    // Every fourth arc of a row that is not packed; how many of them led to a new vertex.
    __device__ u32 visit_long(u32 next, u32 vertex, const PackedRow& row, u32 arc, u32 kept) {
        const u32* const targets = &near.long_targets[row.targets[PackedRow::long_begin]];
        u32 found = 0;
        for (; arc < row.targets[PackedRow::long_arcs]; arc += PackedRow::most)
            found += visit_near(next, vertex, targets[arc], kept);
        return found;
    }

    // 1 if the target is new.
    __device__ u32 visit_near(u32 next, u32 vertex, u32 target, u32 kept) {
        // Before it is known whether it is needed: two accesses at once.
        const PackedRow row = packed(target);
        if (!claim_near(target)) return 0;
        // Its owner counts what is of the halo.
        if (!reach_near(target, vertex)) atomicSub(&block.found, 1);
        list(next, target, row, kept);
        return 1;
    }

    // A row of the log without its arcs: here nobody needs them.
    __device__ void put_id(u32 id) { put(barrier.take_places(1), Row{0, id, 0}); }

    // Of the next frontier: here if there is room, else in the log.
    __device__ void list(u32 next, u32 id, const PackedRow& row, u32 kept) {
        if (row.targets[0] != PackedRow::is_long) {
            // They come while the blocks meet.
            for (const u32 further : row.targets)
                if (further != PackedRow::none) prefetch(&packed(further));
        }
        const u32 place = atomicAdd(&part.listed[next], 1);
        if (place < kept) {
            part.vertices[next][place] = id;
            part.rows[next][place] = row;
        } else {
            put_id(id);
        }
    }
};

}  // namespace millstream
