// Level-synchronous BFS, bottom-up: words of visited bits, which devices write into each
// other's memory.

namespace millstream {

class LevelBottomUp : public LevelTopDown {
   public:
    __device__ LevelBottomUp(const LevelRows& out, const LevelRows& in, const LevelValues& values,
                             const LevelLists& lists, const LevelExchange& exchange,
                             const SpanSet<u64>& words, const GangReports& reports,
                             const LevelSettings& settings, Block& block, const LevelHubs& hubs)
        : LevelTopDown(out, in, values, lists, exchange, words, reports, settings, block),
          hubs(hubs) {}

   protected:
    const LevelHubs& hubs;

    // Arcs that a lane looks at by itself, and how many of them at a time.
    static constexpr u32 alone_arcs = 16;
    static constexpr u32 at_once = 2;
    // Words whose hubs a warp looks at together, and how many open vertices of 32 words make it
    // go through the words instead of the vertices.
    static constexpr u32 words_at_once = 3;
    static constexpr u32 many_open = 256;

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

    // Stores a word of this device in copy `which` on all devices. If other devices have
    // vertices in the word, too, bits are only added.
    __device__ void store_word(u32 which, u32 word, u32 value) const {
        const bool is_shared = owned(word) != ~0u;
        // Each device begins with a different one, so that no device's links take all stores at once.
        u32 device = settings.place.device;
        for (u32 copies = 0; copies < settings.place.devices; ++copies) {
            if (++device == settings.place.devices) device = 0;
            u32* const at = bits(device, which) + word;
            if (is_shared && !is_alone()) {
                // Relaxed, as the stores: the barrier publishes them.
                fetch_or_relaxed_sys(at, value);
            } else {
                *at = value;
            }
        }
    }

    // The bits of a word that others have set. All loads are under way before the first is used.
    __device__ u32 visited_by_others(u32 word) const {
        u32 theirs[GangBarrier::most_devices];
        u32 device = settings.place.device;
#pragma unroll
        for (u32 other = 0; other < GangBarrier::most_devices; ++other) {
            if (++device >= settings.place.devices) device = 0;
            // Relaxed: others add bits to words that have vertices of theirs, too.
            theirs[other] =
                other + 1 < settings.place.devices ? load_relaxed_sys(bits(device, copy) + word) : 0;
        }
        u32 all = 0;
#pragma unroll
        for (u32 other = 0; other < GangBarrier::most_devices; ++other) all |= theirs[other];
        return all;
    }

    // All blocks: gives the others this device's visited bits. With `merge` it first adds what the
    // others have visited of its vertices.
    __device__ void publish_words(bool merge) {
        const u32 step = u32(threads_in_grid());
        for (u32 base = first_word() + u32(thread_in_grid()) - lane(); base < end_word();
             base += step) {
            const u32 word = base + lane();
            const bool is_word = word < end_word();
            u32 visited = is_word ? bits(settings.place.device, copy)[word] & owned(word) : 0;
            if (merge) {
                const u32 theirs = is_word ? visited_by_others(word) & owned(word) : 0;
                count_all_found(theirs & ~visited);
                visited |= theirs;
            }
            if (is_word) store_word(copy, word, visited);
            count_stored(is_word);
        }
    }

    __device__ void count_stored(bool is_stored) {
        const u32 all = __ballot_sync(~0u, is_stored);
        if (!is_alone() && lane() == 0 && all != 0) atomicAdd(&block.stored, __popc(all));
    }

    // Words that a warp takes at a time.
    __device__ u32 words_of_warp() const {
        const u32 warps = u32(threads_in_grid() / 32);
        const u32 share = (end_word() - first_word() + warps - 1) / warps;
        return share < 32 ? share : 32;
    }

    // Bottom-up, all blocks: looks for a visited neighbour of each unvisited vertex. With
    // `some_late` also reaches what the level before has visited but not reached.
    __device__ void sweep_words(bool fresh, bool some_late) {
        const u32 step = words_of_warp();
        const u32* const now = bits(settings.place.device, copy);
        const u32* const next = bits(settings.place.device, copy ^ 1);
        u32* const its = block.bits[threadIdx.x / 32];
        for (u32 base = first_word() + u32(thread_in_grid() / 32) * step; base < end_word();
             base += u32(threads_in_grid() / 32) * step) {
            const u32 word = base + lane();
            const bool is_word = lane() < step && word < end_word();
            const u32 visited = is_word ? now[word] : ~0u;
            const u32 stale = is_word ? next[word] : 0;
            u32 open = is_word ? ~visited & owned(word) : 0;
            its[lane()] = 0;
            __syncwarp();
            const bool by_words = some_late || __reduce_add_sync(~0u, __popc(open)) >= many_open;
            if (by_words) {
                const u32 late = some_late && is_word ? visited & ~stale & owned(word) : 0;
                go_through_words(base, open, late, now, its);
                count_all_found(its[lane()]);
                open &= ~its[lane()];
            }
            const u32 last = prefix_sum(__popc(open));
            const u32 total = __shfl_sync(~0u, last, 31);
            for (u32 at = lane(); at - lane() < total; at += 32) {
                const u32 whose = owner_of(last, at);
                const u32 before = __shfl_sync(~0u, last - __popc(open), whose);
                const u32 bit = nth_bit(__shfl_sync(~0u, open, whose), at - before);
                const bool is_found =
                    look(at < total, (base + whose) * 32 + bit, by_words, now);
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

    // A warp: finds the open vertices of 32 words, one word of each lane, whose hub is visited, and
    // sets their bits in `found`. Reaches these and the late ones. Lanes take the vertices of one
    // word together, so that accesses are in order.
    __device__ void go_through_words(u32 base, u32 open, u32 late, const u32* now,
                                     u32* found) const {
        if (hubs.of.len == 0) open = 0;
        // All cache lines at once; the first word may begin before the first owned vertex.
        const u32 begin = (base + lane()) * 32;
        if (open != 0) prefetch(&hubs.of[begin > first ? begin - first : 0]);
        for (u32 left = __ballot_sync(~0u, (open | late) != 0); left != 0;) {
            u32 vertices[words_at_once];
            u32 sources[words_at_once];
#pragma unroll
            for (u32 each = 0; each < words_at_once; ++each) {
                // If no word is left: the first word, of which nothing is taken.
                const u32 whose = left != 0 ? __ffs(left) - 1 : 0;
                const u32 bit = left != 0 ? 1u << lane() : 0;
                vertices[each] = (base + whose) * 32 + lane();
                sources[each] = unreached;
                if (__shfl_sync(~0u, open, whose) & bit)
                    sources[each] = hubs.of[vertices[each] - first];
                if (__shfl_sync(~0u, late, whose) & bit) reach_late(vertices[each], level - 1);
                left &= left - 1;
            }
#pragma unroll
            for (u32 each = 0; each < words_at_once; ++each) {
                const u32 source = sources[each];
                const bool is_hit =
                    source != unreached && (now[source / 32] >> source % 32 & 1);
                if (is_hit) reach(vertices[each], source);
                const u32 hits = __ballot_sync(~0u, is_hit);
                if (hits != 0 && lane() == 0) found[vertices[each] / 32 - base] = hits;
            }
        }
        __syncwarp();
    }

    // Reaches a vertex that was visited in the level `visited_in`. With predecessors, only targets
    // of the row that the search began with are reached late.
    __device__ void reach_late(u32 vertex, u32 visited_in) const {
        values.levels[vertex - first] = visited_in;
        if (values.predecessors.len > 0)
            values.predecessors[vertex - first] = hubs.source.vertex;
    }

    // A warp: whether a vertex has an arc from a visited one; if so, reaches it. Lanes
    // look alone, and help each other with what is left of long rows.
    __device__ bool look(bool is_open, u32 vertex, bool knows_hub, const u32* now) const {
        u64 arc = 0;
        u64 last = 0;
        u32 from = unreached;
        if (is_open && hubs.of.len > 0 && !knows_hub) {
            const u32 hub = hubs.of[vertex - first];
            if (now[hub / 32] >> hub % 32 & 1) from = hub;
        }
        if (is_open && from == unreached) {
            arc = in.offsets[vertex - first];
            last = in.offsets[vertex - first + 1];
        }
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

    // All blocks: puts the vertices of the last level into the log.
    __device__ void gather_frontier() {
        const u32 step = words_of_warp();
        const u32* const now = bits(settings.place.device, copy);
        const u32* const before = bits(settings.place.device, copy ^ 1);
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
                const u32 vertex = (base + whose) * 32 + bit;
                Row row{0, 0, 0};
                if (at < total) {
                    // Thin frontiers, and what a rush has reached, are in one copy only.
                    const u32 its = values.levels[vertex - first];
                    if (its == unreached) reach_late(vertex, level);
                    if (its == unreached || its == level) row = row_of(vertex);
                }
                push(row);
            }
            // Visited in both copies, like all that is in the log: see `find`.
            if (fresh != 0) fetch_or_relaxed_gpu(bits(settings.place.device, copy ^ 1) + word, fresh);
        }
    }
};

}  // namespace millstream
