// Level-synchronous BFS, top-down through thin frontiers on one device: each block keeps a
// part of the frontier to itself, packed rows and all, and goes from level to level
// without a list that all share. See LEVELS.md.

namespace millstream {

class LevelNarrow : public LevelTopDown {
   public:
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
        BlockTally::Shared tally;
        // Of the last level: for threads that took no part.
        u64 mark;
        u32 level;
        u32 now;
        bool is_stopped;
    };

    __device__ LevelNarrow(const LevelRows& out, const LevelRows& in, const LevelValues& values,
                           const LevelLists& lists, const LevelExchange& exchange,
                           const SpanSet<u64>& words, const GangReports& reports,
                           const LevelSettings& settings, Block& block, Part& part)
        : LevelTopDown(out, in, values, lists, exchange, words, reports, settings, block),
          part(part), tally(&words[settings.device][GangDevice::barrier_words], part.tally) {}

   protected:
    // The whole block, once.
    __device__ void clear_part() {
        if (threadIdx.x == 0) part.found = part.tally.round = 0;
        if (threadIdx.x < 2) part.listed[threadIdx.x] = part.tally.before[threadIdx.x] = 0;
    }

    // Whether a frontier of so many rows is thin. The same in all blocks.
    __device__ bool is_narrow(u64 rows) const {
        return lists.packed.len > 0 && blockDim.x >= BlockTally::threads &&
               rows <= u64(gridDim.x) * most_average / 2;
    }

    // All blocks: expands the rows of the log from `from` to `to`, and then level after
    // level, until nothing is found, or more than is thin, or the depth limit is
    // reached. Leaves the last frontier in the log, from `mark` on. False if the gang is
    // stopped.
    __device__ bool expand_narrowly(u64 from, u64 to) {
        if (threadIdx.x < BlockTally::threads) {
            const bool is_stopped = !go_through(from, u32(to - from));
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
        push_part();
        return true;
    }

   private:
    Part& part;
    BlockTally tally;

    __device__ const PackedRow& packed(u32 vertex) const {
        return reinterpret_cast<const PackedRow*>(lists.packed.items)[vertex];
    }

    // Threads that take part, as all below but the last: `rows` from `from` on.
    __device__ bool go_through(u64 from, u32 rows) {
        mark = from;
        BlockTally::Sums sums{rows, rows, false};
        // `now` says which list is the frontier's.
        for (u32 now = 0;; ++level) {
            if (sums.surplus > 0) take_share(now, sums.surplus);
            sums = expand_part(now, sums.found / gridDim.x + 1);
            now ^= 1;
            if (threadIdx.x == 0) part.now = now;
            if (sums.is_stopped) return false;
            if (sums.found == 0 || sums.found > gridDim.x * most_average) return true;
            if (level == settings.depth_limit) return true;
        }
    }

    // Blocks take equal shares of the next `rows` of the log.
    __device__ void take_share(u32 now, u32 rows) {
        const u32 begin = u32(u64(rows) * blockIdx.x / gridDim.x);
        const u32 end = u32(u64(rows) * (blockIdx.x + 1) / gridDim.x);
        const u32 listed = part.listed[now];
        for (u32 row = begin + threadIdx.x; row < end; row += BlockTally::threads) {
            const u32 place = listed + row - begin;
            const u32 vertex = reinterpret_cast<Row*>(lists.log.items)[mark + row].vertex;
            part.vertices[now][place] = vertex;
            part.rows[now][place] = packed(vertex);
        }
        BlockTally::meet_in_block();
        if (threadIdx.x == 0) part.listed[now] = listed + end - begin;
        BlockTally::meet_in_block();
        mark += rows;
    }

    // A level. If a block's part is much larger than the average, all that it finds above
    // the average goes to others.
    __device__ BlockTally::Sums expand_part(u32 now, u32 average) {
        const u32 listed = part.listed[now];
        const u32 kept = listed > 2 * average + 32 ? average : most_kept;
        const u32* const targets = part.rows[now][0].targets;
        u32 found = 0;
        for (u32 place = threadIdx.x; place < listed * PackedRow::most;
             place += BlockTally::threads) {
            const u32 arc = place % PackedRow::most;
            const u32 vertex = part.vertices[now][place / PackedRow::most];
            if (targets[place - arc] == PackedRow::is_long) {
                found += visit_long(now ^ 1, vertex, arc, kept);
            } else if (targets[place] != PackedRow::none) {
                found += visit_packed(now ^ 1, vertex, targets[place], kept);
            }
        }
        found = __reduce_add_sync(~0u, found);
        if (lane() == 0) atomicAdd(&part.found, found);
        const BlockTally::Sums sums = tally.meet(barrier, [&](u32& all, u32& surplus) {
            u32& next = part.listed[now ^ 1];
            surplus = next > kept ? next - kept : 0;
            next -= surplus;
            all = part.found;
            block.found += all;
            part.listed[now] = part.found = 0;
        });
        return sums;
    }

    // Every fourth arc of a row that is not packed; how many of them led to a new vertex.
    __device__ u32 visit_long(u32 next, u32 vertex, u32 arc, u32 kept) {
        const Row row = row_of(vertex);
        u32 found = 0;
        for (; arc < row.arcs; arc += PackedRow::most)
            found += visit_packed(next, vertex, out.targets[row.begin + arc], kept);
        return found;
    }

    // 1 if the target is new.
    __device__ u32 visit_packed(u32 next, u32 vertex, u32 target, u32 kept) {
        // Before it is known whether it is needed: two accesses at once.
        const PackedRow row = packed(target);
        if (!claim(target)) return 0;
        reach(target, vertex);
        if (row.targets[0] != PackedRow::is_long) {
            // They come while the blocks meet.
            for (const u32 further : row.targets)
                if (further != PackedRow::none) prefetch(&packed(further));
        }
        const u32 place = atomicAdd(&part.listed[next], 1);
        if (place < kept) {
            part.vertices[next][place] = target;
            part.rows[next][place] = row;
        } else {
            put(barrier.take_places(1), row_of(target));
        }
        return 1;
    }

    // The whole block: its part into the log.
    __device__ void push_part() {
        const u32 now = part.now;
        const u32 listed = part.listed[now];
        for (u32 place = threadIdx.x; place - lane() < listed; place += blockDim.x) {
            Row row{0, 0, 0};
            if (place < listed) row = row_of(part.vertices[now][place]);
            push(row);
        }
        __syncthreads();
        if (threadIdx.x == 0) part.listed[now] = 0;
    }
};

}  // namespace millstream
