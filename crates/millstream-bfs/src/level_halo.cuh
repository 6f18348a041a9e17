// Level-synchronous BFS in thin frontiers: a device searches the vertices that it owns and its
// *halo*, those of others from which few arcs lead to its own, by itself for as many levels,
// and then hears from the owners what they have found there. See LEVELS.md.
//
// Here a vertex of the halo has an id that comes after those of all vertices: `vertices`
// and its place in the halo.

namespace millstream {

struct HaloShape {
    u32 depth;  // Levels that a device searches by itself; 0 if no rows are packed.
    u32 exports[SpanSet<u32>::most + 1];  // Where those to each device begin,
    u32 places[SpanSet<u32>::most];       // and the place of the first in its halo.
};

struct NearRows {
    Span<const u32> packed;        // `PackedRow`s of owned vertices, then of the halo.
    Span<const u32> long_targets;  // Of rows for which they have no room.
    // Owned vertices in the halos of others, a device after the other, each as they come
    // there; padded with `PackedRow::none` to whole warps.
    Span<const u32> exports;
    Span<u32> bits;  // Of the halo: is visited; then of exports: the other device knows.
    HaloShape shape;
};

class LevelHalo : public LevelTopDown {
   public:
    __device__ LevelHalo(const LevelRows& out, const LevelRows& in, const LevelValues& values,
                         const LevelLists& lists, const LevelExchange& exchange,
                         const SpanSet<u64>& words, const GangReports& reports,
                         const LevelSettings& settings, Block& block,
                         const NearRows& near)
        : LevelTopDown(out, in, values, lists, exchange, words, reports, settings, block),
          near(near) {}

   protected:
    const NearRows& near;

    // All blocks, before any other device may tell anything.
    __device__ void forget_halo() const {
        for (u64 word = thread_in_grid(); word < near.bits.len; word += threads_in_grid())
            near.bits[word] = 0;
    }

    // Alone, a device has no halo.
    __device__ bool is_own(u32 id) const { return is_alone() || id < settings.vertices; }
    __device__ u32 place_in_halo(u32 id) const { return id - settings.vertices; }

    __device__ const PackedRow& packed(u32 id) const {
        // The halo's come after the owned ones.
        const u32 skipped = is_own(id) ? first : settings.vertices - (end - first);
        return reinterpret_cast<const PackedRow*>(near.packed.items)[id - skipped];
    }

    // As `claim`, of the halo too.
    __device__ bool claim_near(u32 id) const {
        u32* const visited = is_own(id) ? bits(settings.device, copy) : near.bits.items;
        const u32 place = is_own(id) ? id : place_in_halo(id);
        const u32 bit = 1u << place % 32;
        return !(fetch_or_relaxed_gpu(visited + place / 32, bit) & bit);
    }

    // As `reach`; levels of the halo are for its owners to say. True if it is not in it.
    // The host knows what vertex of the halo a predecessor is.
    __device__ bool reach_near(u32 id, u32 predecessor) const {
        if (!is_own(id)) return false;
        reach(id, predecessor);
        return true;
    }

    // What a log has for a vertex: of the halo's no arcs, so that they are only found in
    // it by those who know packed rows.
    __device__ Row near_row_of(u32 id) const { return is_own(id) ? row_of(id) : Row{0, id, 0}; }

    // All blocks: tells the others of all that was visited in their halos since they were
    // told last, and whether it is of this level: in the upper half of an item. An inbox has room
    // for it, since it comes once.
    __device__ void share() const {
        const u32* const visited = bits(settings.device, copy);
        u32* const told = near.bits.items + (settings.halos[settings.device] + 31) / 32;
        for (u32 base = u32(thread_in_grid()) - lane(); base < near.exports.len;
             base += u32(threads_in_grid())) {
            const u32 known = told[base / 32];
            if (known == ~0u) continue;
            const u32 vertex = near.exports[base + lane()];
            const bool is_news = vertex != PackedRow::none && !(known >> lane() & 1) &&
                                 (visited[vertex / 32] >> vertex % 32 & 1);
            const u32 news = __ballot_sync(~0u, is_news);
            if (news == 0) continue;
            u32 to = 0;
            while (base >= near.shape.exports[to + 1]) ++to;
            u64 begin = 0;
            if (lane() == 0) {
                // Relaxed: the barrier's letters say how many.
                begin = fetch_add_relaxed_gpu(&barrier.sent_to(to), u64(__popc(news)));
                told[base / 32] = known | news;
            }
            begin = __shfl_sync(~0u, begin, 0);
            if (!is_news) continue;
            const u32 place = near.shape.places[to] + base + lane() - near.shape.exports[to];
            const bool is_current = values.levels[vertex - first] == level;
            inbox(to, settings.device)[begin + __popc(news & ((1u << lane()) - 1))] =
                u64(is_current) << 32 | place;
        }
    }
};

}  // namespace millstream
