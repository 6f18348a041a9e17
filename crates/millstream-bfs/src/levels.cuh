// Level-synchronous, direction-optimizing BFS on a gang of persistent kernels; the
// protocol and the phases are in LEVELS.md, the twin is `level_twin.rs`.
//
// Each device owns the vertices `first..end`, and has the visited bits of all
// vertices, twice: a bottom-up level reads one copy and writes the other. A visited
// vertex with an arc to one that is not visited can only be of the last level, so
// visited bits are the frontier too.
#pragma once

#include "gang_barrier.cuh"

namespace millstream {

struct LevelRows {
    Span<const u64> offsets;  // Of owned vertices, from 0.
    Span<const u32> targets;
};

struct LevelValues {
    Span<u32> levels;        // Of owned vertices.
    Span<u32> predecessors;  // The same, or empty.
};

struct LevelLists {
    Span<u64> log;            // Rows of frontier vertices, two words each.
    Span<const u64> sources;  // Items, as inboxes have them.
};

struct LevelExchange {
    SpanSet<u32> visited;  // Two copies one behind the other.
    SpanSet<u64> inboxes;  // From each other device, as many items as vertices are owned.
};

struct LevelReports {
    Span<u32> host;
    Span<u64> report;
};

struct LevelSettings {
    u64 patience;  // Nanoseconds.
    u32 device;
    u32 devices;
    u32 vertices;
    u32 connected;  // Vertices with arcs.
    u32 depth_limit;
    u32 alpha;  // Bottom-up if the frontier times this is more than what is not visited.
    u32 beta;   // Top-down if the frontier times this is less.
    u32 boundaries[SpanSet<u32>::most + 1];
};
static_assert(sizeof(LevelSettings) == 104, "as Rust writes it");

// Words of a report: vertices found, last level, whether it was stopped, words
// published, items received and those of them that were news; then the items sent to
// each device.
enum LevelReport {
    report_found,
    report_levels,
    report_stopped,
    report_words,
    report_received,
    report_kept,
    report_sent
};

class LevelSearch {
    // A row, or a piece of one, in the log.
    struct alignas(16) Row {
        u64 begin;
        u32 vertex;
        u32 arcs;
    };
    static constexpr u32 piece = 128;
    static constexpr u32 stage_rows = 256;

   public:
    static constexpr u32 block_threads = 1024;
    static constexpr u32 unreached = ~0u;

    // What a block shares.
    struct Block {
        Row stage[stage_rows];  // On their way to the log.
        u32 bits[block_threads / 32][32];  // Found by each warp in a sweep.
        u32 staged;
        u32 found;   // Vertices since it last met.
        u32 stored;  // Words published.
        u32 sent;    // Items for other devices.
        u32 seen[SpanSet<u64>::most];  // Items taken from others.
        u64 place;
        bool is_ample;  // Whether so much is found that the next level is bottom-up.
    };

    __device__ LevelSearch(const LevelRows& out, const LevelRows& in, const LevelValues& values,
                      const LevelLists& lists, const LevelExchange& exchange,
                      const SpanSet<u64>& words, const LevelReports& reports,
                      const LevelSettings& settings, Block& block)
        : out(out), in(in), values(values), lists(lists), exchange(exchange),
          reports(reports), settings(settings), block(block),
          barrier(words, settings.device, settings.devices, reports.host, settings.patience),
          first(settings.boundaries[settings.device]),
          end(settings.boundaries[settings.device + 1]),
          words((settings.vertices + 31) / 32),
          ample(settings.alpha > 0 ? settings.connected / settings.alpha : ~0u) {}

    __device__ void run() {
        if (threadIdx.x == 0) {
            block.staged = block.found = block.stored = block.sent = 0;
            block.is_ample = false;
        }
        if (threadIdx.x < SpanSet<u64>::most) block.seen[threadIdx.x] = 0;
        __syncthreads();
        take(lists.sources.items, 0, lists.sources.len);
        u32 phase = seed;
        bool fresh = false;  // Whether the other copy may lack what peers know.
        for (;;) {
            flush();
            const Verdict verdict =
                barrier.meet([&](const Totals& totals) { return decide(phase, totals); });
            phase = verdict.phase;
            switch (phase) {
                case expand: {
                    const u64 from = mark;
                    mark = verdict.places;
                    ++level;
                    expand_frontier(from, mark);
                    break;
                }
                case absorb:
                    take_all();
                    break;
                case publish:
                    publish_words();
                    fresh = true;
                    break;
                case sweep:
                    mark = verdict.places;
                    ++level;
                    sweep_words(fresh);
                    fresh = false;
                    copy ^= 1;
                    break;
                case gather:
                    mark = verdict.places;
                    gather_frontier();
                    break;
                default:
                    return report(phase == GangBarrier::stopped);
            }
        }
    }

   private:
    // What the devices do until they meet again.
    enum Phase : u32 { seed, expand, absorb, publish, sweep, gather, finished };
    // Words that leaders keep: totals of the last frontier.
    enum Kept { kept_places, kept_visited, kept_sent, published, kept_items };
    static constexpr GangBarrier::Counter visited_count = GangBarrier::first_count;
    static constexpr GangBarrier::Counter sent_count = GangBarrier::second_count;

    // Frontiers up to this many rows are worth no test before a claim, and are
    // loaded ahead.
    static constexpr u32 thin = 1 << 14;
    // Arcs that a lane looks at by itself, and how many of them at a time.
    static constexpr u32 alone_arcs = 16;
    static constexpr u32 at_once = 2;

    const LevelRows& out;
    const LevelRows& in;
    const LevelValues& values;
    const LevelLists& lists;
    const LevelExchange& exchange;
    const LevelReports& reports;
    const LevelSettings& settings;
    Block& block;
    GangBarrier barrier;
    const u32 first;
    const u32 end;
    const u32 words;
    const u32 ample;  // More rows than this are never expanded.
    u32 level = 0;
    u32 copy = 0;
    u64 mark = 0;

    // One thread of each device, the same answer on all.
    __device__ u32 decide(u32 phase, const Totals& totals) const {
        const bool alone = settings.devices == 1;
        if (phase == publish) return sweep;
        const u64 visited = alone ? 0 : totals.counts[visited_count];
        if (phase == gather) {
            if (!alone) keep(kept_places, totals.places);
            return expand;
        }
        if (phase == sweep) {
            const u64 now = alone ? barrier.counted(visited_count) : visited;
            const u64 found = now - keep(kept_visited, now);
            if (found == 0 || level == settings.depth_limit) return finished;
            return found * settings.beta < settings.connected - now ? gather : sweep;
        }
        if (phase == expand && !alone) {
            const u64 sent = totals.counts[sent_count];
            if (keep(kept_sent, sent) != sent) return absorb;
        }
        const u64 rows = totals.places - (alone ? mark : keep(kept_places, totals.places));
        if (rows == 0 || level == settings.depth_limit) return finished;
        // So few that it does not matter how many are left.
        if (rows * settings.alpha * 64 < settings.connected) return expand;
        const u64 now = alone ? barrier.counted(visited_count) : visited;
        if (rows * settings.alpha <= settings.connected - now) return expand;
        keep(kept_visited, now);
        return alone ? sweep : publish;
    }

    // A leader's word: the value before.
    __device__ u64 keep(Kept place, u64 value) const {
        const u64 before = load_relaxed_gpu(&barrier.leaders(place));
        if (before != value) store_relaxed_gpu(&barrier.leaders(place), value);
        return before;
    }

    // The whole block, before it meets the others: tells what it has found, and puts
    // its rows into the log.
    __device__ void flush() {
        __syncthreads();
        const u32 rows = block.staged < stage_rows ? block.staged : stage_rows;
        if (threadIdx.x == 0) {
            if (rows > 0) block.place = barrier.take_places(rows);
            if (block.found > 0) barrier.count(visited_count, block.found);
            if (block.sent > 0) barrier.count(sent_count, block.sent);
            if (block.stored > 0)
                fetch_add_relaxed_gpu(&barrier.leaders(published), u64(block.stored));
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            block.staged = block.found = block.sent = block.stored = 0;
            block.is_ample = false;
        }
        for (u32 row = threadIdx.x; row < rows; row += blockDim.x)
            put(block.place + row, block.stage[row]);
    }

    __device__ void put(u64 place, const Row& row) const {
        reinterpret_cast<Row*>(lists.log.items)[place] = row;
    }

    // Other warps may be about to say so.
    __device__ bool is_ample() const { return *const_cast<volatile bool*>(&block.is_ample); }

    // A warp: rows of found vertices into the log, in pieces; of lanes without one,
    // `arcs` is 0.
    __device__ void push(const Row& row) {
        const u32 last = prefix_sum((row.arcs + piece - 1) / piece);
        const u32 pieces = __shfl_sync(~0u, last, 31);
        if (pieces == 0) return;
        u32 staged = 0;
        u64 place = 0;
        if (lane() == 0) {
            staged = atomicAdd(&block.staged, pieces);
            // Whatever the block has no room for goes straight there.
            const u32 room = staged < stage_rows ? stage_rows - staged : 0;
            if (pieces > room) {
                place = barrier.take_places(pieces - room) - room;
                if (place + pieces - mark > ample) block.is_ample = true;
            }
        }
        staged = __shfl_sync(~0u, staged, 0);
        place = __shfl_sync(~0u, place, 0);
        for (u32 base = 0; base < pieces; base += 32) {
            const u32 at = base + lane();
            const u32 whose = owner_of(last, at);
            const u32 arcs = __shfl_sync(~0u, row.arcs, whose);
            const u32 before = __shfl_sync(~0u, last, whose) - (arcs + piece - 1) / piece;
            const u32 skipped = (at - before) * piece;
            const u64 begin = __shfl_sync(~0u, row.begin, whose) + skipped;
            const u32 vertex = __shfl_sync(~0u, row.vertex, whose);
            if (at >= pieces) continue;
            const Row its{begin, vertex, arcs - skipped < piece ? arcs - skipped : piece};
            if (staged + at < stage_rows) {
                block.stage[staged + at] = its;
            } else {
                put(place + at, its);
            }
        }
    }

    __device__ u32* bits(u32 device, u32 which) const {
        return exchange.visited[device].items + u64(which) * words;
    }

    __device__ bool owns(u32 vertex) const { return vertex >= first && vertex < end; }

    __device__ Row row_of(u32 vertex) const {
        const u64* const offset = &out.offsets[vertex - first];
        const u64 begin = offset[0];
        return Row{begin, vertex, u32(offset[1] - begin)};
    }

    // Sets a visited bit of this device's copy. True if it was clear.
    __device__ bool claim(u32 vertex) const {
        const u32 bit = 1u << vertex % 32;
        // Relaxed: the barrier publishes what comes with it.
        return !(fetch_or_relaxed_gpu(bits(settings.device, copy) + vertex / 32, bit) & bit);
    }

    __device__ void reach(u32 vertex, u32 predecessor) const {
        values.levels[vertex - first] = level;
        if (values.predecessors.len > 0) values.predecessors[vertex - first] = predecessor;
    }

    __device__ void count_found(bool is_found) {
        const u32 all = __ballot_sync(~0u, is_found);
        if (lane() == 0 && all != 0) atomicAdd(&block.found, __popc(all));
    }

    // Where packets of `from` lie in the memory of `to`.
    __device__ u64* inbox(u32 to, u32 from) const {
        const u32 owned = settings.boundaries[to + 1] - settings.boundaries[to];
        return exchange.inboxes[to].items + u64(from - (from > to)) * owned;
    }

    // All blocks: claims what others have found here: vertices below, predecessors
    // above.
    __device__ void take(const u64* items, u64 from, u64 to) {
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
                    if (!is_ample()) row = row_of(vertex);
                    reach(vertex, u32(item >> 32));
                }
            }
            count_found(is_found);
            push(row);
        }
    }

    // All blocks: what has come into the inboxes.
    __device__ void take_all() {
        for (u32 other = 0; other < settings.devices; ++other) {
            if (other == settings.device) continue;
            const u32 there = u32(barrier.received_from(other));
            take(inbox(settings.device, other), block.seen[other], there);
            __syncthreads();
            if (threadIdx.x == 0) block.seen[other] = there;
        }
        __syncthreads();
        if (threadIdx.x == 0 && block.found > 0)
            fetch_add_relaxed_gpu(&barrier.leaders(kept_items), u64(block.found));
    }

    // Top-down, all blocks: each warp takes some rows of the log.
    __device__ void expand_frontier(u64 from, u64 to) {
        const u64 warps = threads_in_grid() / 32;
        const u64 share = (to - from + warps - 1) / warps;
        const u32 rows = share < 32 ? u32(share) : 32;
        const bool is_thin = to - from <= thin;
        for (u64 base = from + thread_in_grid() / 32 * rows; base < to; base += warps * rows) {
            const u64 at = base + lane();
            Row row{0, 0, 0};
            if (lane() < rows && at < to) row = reinterpret_cast<Row*>(lists.log.items)[at];
            if (is_thin) visit_rows<true>(row); else visit_rows<false>(row);
        }
    }

    // A warp: the arcs of its lanes' rows.
    template <bool is_thin>
    __device__ void visit_rows(const Row& row) {
        const u32 last = prefix_sum(row.arcs);
        const u32 total = __shfl_sync(~0u, last, 31);
        for (u32 base = 0; base < total; base += 32) {
            const u32 at = base + lane();
            const u32 whose = owner_of(last, at);
            const u32 before = __shfl_sync(~0u, last - row.arcs, whose);
            const u64 begin = __shfl_sync(~0u, row.begin, whose);
            const u32 vertex = __shfl_sync(~0u, row.vertex, whose);
            const bool is_arc = at < total;
            visit<is_thin>(is_arc, vertex, is_arc ? out.targets[begin + (at - before)] : first);
        }
    }

    // A warp: an arc of each lane.
    template <bool is_thin>
    __device__ void visit(bool is_arc, u32 vertex, u32 target) {
        const bool is_own = owns(target);
        Row row{0, 0, 0};
        bool is_new = is_arc;
        if (is_thin) {
            // Before it is known whether it is needed: two accesses at once.
            if (is_arc && is_own) row = row_of(target);
        } else {
            // A bit that is not seen yet costs a claim.
            is_new &= !(bits(settings.device, copy)[target / 32] >> target % 32 & 1);
        }
        if (is_new) is_new = claim(target);
        const bool is_found = is_new && is_own;
        if (is_found) {
            if (!is_thin && !is_ample()) row = row_of(target);
            if (is_thin) prefetch(&out.targets[row.begin]);
            reach(target, vertex);
        } else {
            row.arcs = 0;
        }
        count_found(is_found);
        push(row);
        if (settings.devices > 1) send(is_new && !is_own, vertex, target);
    }

    __device__ static void prefetch(const void* address) {
        asm volatile("prefetch.global.L2 [%0];" : : "l"(address));
    }

    // A warp: tells owners of their vertices. The copy here of a vertex's bit says that
    // its owner has been told, so that an inbox has room for all.
    __device__ void send(bool is_item, u32 vertex, u32 target) {
        u32 owner = settings.device;
        if (is_item) {
            owner = 0;
            while (target >= settings.boundaries[owner + 1]) ++owner;
        }
        for (u32 left = __ballot_sync(~0u, is_item); left != 0;) {
            const u32 to = __shfl_sync(~0u, owner, __ffs(left) - 1);
            const u32 same = __ballot_sync(~0u, is_item && owner == to);
            u64 base = 0;
            if (lane() == 0) {
                // Relaxed: the barrier's letters say how many.
                base = fetch_add_relaxed_gpu(&barrier.sent_to(to), u64(__popc(same)));
                atomicAdd(&block.sent, __popc(same));
            }
            base = __shfl_sync(~0u, base, 0);
            if (is_item && owner == to) {
                const u64 place = base + __popc(same & ((1u << lane()) - 1));
                inbox(to, settings.device)[place] = u64(vertex) << 32 | target;
            }
            left &= ~same;
        }
    }

    // Words with owned vertices.
    __device__ u32 first_word() const { return first / 32; }
    __device__ u32 end_word() const { return first < end ? (end + 31) / 32 : first / 32; }

    // Owned vertices of a word.
    __device__ u32 owned(u32 word) const {
        u32 mask = ~0u;
        if (word == first / 32) mask &= ~0u << first % 32;
        if (word == end / 32) mask &= ~(~0u << end % 32);
        return mask;
    }

    // Stores a word of this device's in all copies `which`. Of a word that has vertices
    // of others too, bits are only added.
    __device__ void store_word(u32 which, u32 word, u32 value) const {
        const bool is_shared = owned(word) != ~0u;
        for (u32 device = 0; device < settings.devices; ++device) {
            u32* const at = bits(device, which) + word;
            if (is_shared && settings.devices > 1) {
                // Relaxed, as the stores: the barrier publishes them.
                fetch_or_relaxed_sys(at, value);
            } else {
                *at = value;
            }
        }
    }

    // All blocks: gives the others this device's visited bits.
    __device__ void publish_words() {
        const u32 step = u32(threads_in_grid());
        for (u32 base = first_word() + u32(thread_in_grid()) - lane(); base < end_word();
             base += step) {
            const u32 word = base + lane();
            const bool is_word = word < end_word();
            if (is_word) store_word(copy, word, bits(settings.device, copy)[word] & owned(word));
            count_stored(is_word);
        }
    }

    __device__ void count_stored(bool is_stored) {
        const u32 all = __ballot_sync(~0u, is_stored);
        if (settings.devices > 1 && lane() == 0 && all != 0) atomicAdd(&block.stored, __popc(all));
    }

    // Words that a warp takes at a time.
    __device__ u32 words_of_warp() const {
        const u32 warps = u32(threads_in_grid() / 32);
        const u32 share = (end_word() - first_word() + warps - 1) / warps;
        return share < 32 ? share : 32;
    }

    // Bottom-up, all blocks: looks for a visited neighbour of each vertex that is not.
    __device__ void sweep_words(bool fresh) {
        const u32 step = words_of_warp();
        const u32* const now = bits(settings.device, copy);
        const u32* const next = bits(settings.device, copy ^ 1);
        u32* const its = block.bits[threadIdx.x / 32];
        for (u32 base = first_word() + u32(thread_in_grid() / 32) * step; base < end_word();
             base += u32(threads_in_grid() / 32) * step) {
            const u32 word = base + lane();
            const bool is_word = lane() < step && word < end_word();
            const u32 visited = is_word ? now[word] : ~0u;
            const u32 stale = is_word ? next[word] : 0;
            const u32 open = is_word ? ~visited & owned(word) : 0;
            its[lane()] = 0;
            __syncwarp();
            const u32 last = prefix_sum(__popc(open));
            const u32 total = __shfl_sync(~0u, last, 31);
            for (u32 at = lane(); at - lane() < total; at += 32) {
                const u32 whose = owner_of(last, at);
                const u32 before = __shfl_sync(~0u, last - __popc(open), whose);
                const u32 bit = nth_bit(__shfl_sync(~0u, open, whose), at - before);
                const bool is_found = look(at < total, (base + whose) * 32 + bit, now);
                if (is_found) atomicOr(&its[whose], 1u << bit);
                count_found(is_found);
            }
            __syncwarp();
            const u32 value = (visited | its[lane()]) & (is_word ? owned(word) : 0);
            const bool stores = is_word && (fresh || (stale & owned(word)) != value);
            if (stores) store_word(copy ^ 1, word, value);
            count_stored(stores);
            __syncwarp();
        }
    }

    // A warp: whether a vertex has an arc from a visited one; if so, reaches it. Lanes
    // look alone, and help each other with what is left of long rows.
    __device__ bool look(bool is_open, u32 vertex, const u32* now) const {
        u64 arc = 0;
        u64 last = 0;
        if (is_open) {
            arc = in.offsets[vertex - first];
            last = in.offsets[vertex - first + 1];
        }
        u32 from = unreached;
        const u64 alone = arc + alone_arcs < last ? arc + alone_arcs : last;
        for (; arc < alone && from == unreached; arc += at_once) {
            u32 sources[at_once];
            bool hits[at_once];
#pragma unroll
            for (u32 each = 0; each < at_once; ++each)
                sources[each] = in.targets[arc + each < last ? arc + each : last - 1];
#pragma unroll
            for (u32 each = 0; each < at_once; ++each)
                hits[each] = now[sources[each] / 32] >> sources[each] % 32 & 1;
#pragma unroll
            for (u32 each = 0; each < at_once; ++each)
                if (hits[each]) from = sources[each];
        }
        for (u32 left = __ballot_sync(~0u, from == unreached && arc < last); left != 0;
             left &= left - 1) {
            const u32 whose = __ffs(left) - 1;
            const u64 its_last = __shfl_sync(~0u, last, whose);
            for (u64 at = __shfl_sync(~0u, arc, whose); at < its_last; at += 32) {
                const bool is_arc = at + lane() < its_last;
                const u32 source = is_arc ? in.targets[at + lane()] : 0;
                const bool is_hit = is_arc && (now[source / 32] >> source % 32 & 1);
                const u32 hits = __ballot_sync(~0u, is_hit);
                if (hits == 0) continue;
                const u32 its = __shfl_sync(~0u, source, __ffs(hits) - 1);
                if (lane() == whose) from = its;
                break;
            }
        }
        if (from != unreached) reach(vertex, from);
        return from != unreached;
    }

    // All blocks: the vertices of the last sweep into the log.
    __device__ void gather_frontier() {
        const u32 step = words_of_warp();
        const u32* const now = bits(settings.device, copy);
        const u32* const before = bits(settings.device, copy ^ 1);
        for (u32 base = first_word() + u32(thread_in_grid() / 32) * step; base < end_word();
             base += u32(threads_in_grid() / 32) * step) {
            const u32 word = base + lane();
            const bool is_word = lane() < step && word < end_word();
            const u32 fresh = is_word ? now[word] & ~before[word] & owned(word) : 0;
            const u32 last = prefix_sum(__popc(fresh));
            const u32 total = __shfl_sync(~0u, last, 31);
            for (u32 at = lane(); at - lane() < total; at += 32) {
                const u32 whose = owner_of(last, at);
                const u32 earlier = __shfl_sync(~0u, last - __popc(fresh), whose);
                const u32 bit = nth_bit(__shfl_sync(~0u, fresh, whose), at - earlier);
                Row row{0, 0, 0};
                if (at < total) row = row_of((base + whose) * 32 + bit);
                push(row);
            }
        }
    }

    // Of all lanes up to this one.
    __device__ static u32 prefix_sum(u32 value) {
        for (u32 step = 1; step < 32; step *= 2) {
            const u32 before = __shfl_up_sync(~0u, value, step);
            if (lane() >= step) value += before;
        }
        return value;
    }

    // The first lane whose sum `last` is above `at`.
    __device__ static u32 owner_of(u32 last, u32 at) {
        u32 owner = 0;
        for (u32 step = 16; step > 0; step /= 2) {
            if (at >= __shfl_sync(~0u, last, owner + step - 1)) owner += step;
        }
        return owner;
    }

    // Where the set bit of a word is that has `before` others below it.
    __device__ static u32 nth_bit(u32 word, u32 before) {
        u32 at = 0;
        for (u32 width = 16; width > 0; width /= 2) {
            const u32 below = __popc(word >> at & ((1u << width) - 1));
            if (before >= below) {
                before -= below;
                at += width;
            }
        }
        return at;
    }

    // The whole grid, at the end.
    __device__ void report(bool is_stopped) const {
        if (blockIdx.x != 0 || threadIdx.x != 0) return;
        // Relaxed: the kernel's end publishes it.
        const auto& report = reports.report;
        store_relaxed_sys(&report[report_found], barrier.counted(visited_count));
        store_relaxed_sys(&report[report_levels], u64(level));
        store_relaxed_sys(&report[report_stopped], u64(is_stopped));
        store_relaxed_sys(&report[report_words], load_relaxed_gpu(&barrier.leaders(published)));
        u64 received = 0;
        for (u32 other = 0; other < settings.devices; ++other) {
            received += block.seen[other];
            store_relaxed_sys(&report[report_sent + other],
                              load_relaxed_gpu(&barrier.sent_to(other)));
        }
        store_relaxed_sys(&report[report_received], received);
        store_relaxed_sys(&report[report_kept], load_relaxed_gpu(&barrier.leaders(kept_items)));
    }
};

}  // namespace millstream

extern "C" __global__ __launch_bounds__(1024, 1) void levels(
    const __grid_constant__ millstream::LevelRows out,
    const __grid_constant__ millstream::LevelRows in,
    const __grid_constant__ millstream::LevelValues values,
    const __grid_constant__ millstream::LevelLists lists,
    const __grid_constant__ millstream::LevelExchange exchange,
    const __grid_constant__ millstream::SpanSet<millstream::u64> words,
    const __grid_constant__ millstream::LevelReports reports,
    const __grid_constant__ millstream::LevelSettings settings) {
    __shared__ millstream::LevelSearch::Block block;
    millstream::LevelSearch(out, in, values, lists, exchange, words, reports, settings, block)
        .run();
}
