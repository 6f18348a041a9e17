// A search by near and far piles: a device, and what its blocks keep to themselves; see
// NEAR_FAR.md.
//
// `NearFarRule` says how keys grow along arcs, `near_far_grows` whether every arc makes them larger;
// `NearFarValue` is what a vertex holds: 32 bits, or 64 with its predecessor. `near_far_threads`
// threads visit an item: `NearRow::most`, or more if most rows are longer.

#include "block_tally.cuh"
#include "gang_device.cuh"
#include "keyed_values.cuh"
#include "lanes.cuh"

namespace millstream {

// Rows of owned vertices and of the halo.
struct NearGraph {
    Span<const u32> rows;  // `NearRow`s.
    Span<const u32> long_targets;
    Span<const u32> long_weights;
    Span<const u32> halo;  // Ids of its vertices, in ascending order.
};

struct NearFarLists {
    Span<NearFarValue> values;  // Of owned vertices and of the halo.
    Span<const u32> sources;    // Places of the sources among these vertices.
    Span<u64> far;              // Items: two piles of each block.
    Span<u64> log;              // A ring of items that blocks cannot keep.
};

struct NearFarExchange {
    Span<const u32> exports;  // Owned vertices in the halos of others, a device after the other,
                              // padded with `NearRow::none` to whole warps;
    Span<u32> told;           // the key that was told last, of each.
    SpanSet<u64> inboxes;     // On each device, room for twice what it may be told at a time.
};

struct HaloShape {
    static constexpr u32 most = SpanSet<u64>::most;
    u32 exports[most + 1];  // Where those to each device begin.
    u32 told[most];         // How many those are, without padding,
    u32 places[most];       // and the place of the first in that device's halo.
    u32 halo[most + 1];     // Where vertices of each device begin in this one's halo.
};

struct NearFarSettings {
    GangPlace place;
    u32 limit;      // Larger keys are left out.
    u32 delta;      // How far the threshold is beyond the nearest vertex, a weight.
    u32 first_end;  // The first threshold; `unreached` if it is the only one.
    u32 padding;
    HaloShape shape;
};

class NearFarDevice : public GangDevice<const u32&> {
   public:
    static constexpr u32 threads = 1024;
    using Tally = BlockTally<threads>;

    // Items of a block's list, at most: after arcs were visited, and with its share of what others
    // could not keep.
    static constexpr u32 most_kept = 384;
    static constexpr u32 most_listed = 512;
    // The largest average of all blocks with which a block hands items on.
    static constexpr u32 most_average = most_listed - most_kept - 1;

    // What a block shares. An item is a vertex and the key that it had when it was listed.
    struct Block {
        NearRow rows[2][most_listed];  // Of the list that is read and of the one that is filled, in turn.
        u32 vertices[2][most_listed];
        u32 keys[2][most_listed];
        u32 listed[3];  // Items of the list that is read, of the one that is filled, and 0, in turn.
        u32 surplus;    // Items for the log since the blocks last met,
        u32 mark;       // where the log's items begin that blocks have not taken,
        u32 read;       // and where those begin that another block may still be reading.
        u32 threshold;  // Keys below are near.
        u32 pile;       // Which is filled:
        u32 room;       // how many items it has room for,
        u32 far;        // its items,
        u32 nearest;    // and the smallest of their keys.
        u32 sent;       // Items sent since the devices last met.
        u32 visited;    // Items visited since then.
        u32 gives_up;   // Whether there was no room for an item.
        u32 seen[SpanSet<u64>::most];  // Items taken from others.
        Tally::Shared tally;
    };

    // Words behind the barrier's and the tally's: items that were put into the log, whether piles
    // or log had no room, items received that were news.
    enum Word { taken = GangDevice::barrier_words + Tally::words, is_too_wide, kept_items };
    static_assert(kept_items < GangDevice::barrier_words + 40, "as `near_far.rs` makes room for");

    __device__ NearFarDevice(const NearGraph& graph, const NearFarLists& lists,
                             const NearFarExchange& exchange, const SpanSet<u64>& words,
                             const GangReports& reports, const NearFarSettings& settings,
                             Block& block)
        : GangDevice<const u32&>(settings.place, words, reports), graph(graph), lists(lists),
          exchange(exchange), settings(settings), words(words), block(block),
          tally(&words[settings.place.device][GangDevice::barrier_words], block.tally) {}

   protected:
    static constexpr GangBarrier::Counter sent_count = GangBarrier::first_count;
    static constexpr GangBarrier::Counter visited_count = GangBarrier::second_count;

    const NearGraph& graph;
    const NearFarLists& lists;
    const NearFarExchange& exchange;
    const NearFarSettings& settings;
    const SpanSet<u64>& words;
    Block& block;
    Tally tally;
    u32 turn = 0;  // Of lists.
    u32 left = 0;  // Items of the log that blocks have not taken.

    __device__ u64& word(Word place) const { return words[settings.place.device][place]; }

    __device__ const NearRow& row_of(u32 vertex) const {
        return reinterpret_cast<const NearRow*>(graph.rows.items)[vertex];
    }

    __device__ static u64 item_of(u32 vertex, u32 key) { return u64(vertex) << 32 | key; }

    // The id of a vertex.
    __device__ u32 id_of(u32 vertex) const {
        const u32 owned = end - first;
        return vertex < owned ? first + vertex : graph.halo[vertex - owned];
    }

    // Replaces a larger key. True if the key before was larger.
    __device__ bool lower(u32 vertex, u32 key, u32 predecessor) const {
        NearFarValue value;
        make_value(key, predecessor, &value);
        NearFarValue* const place = &lists.values[vertex];
        // A smaller predecessor may replace one with the same key, if each arc makes keys larger.
        if (near_far_grows) return key < key_of(fetch_min_relaxed_gpu(place, value));
        return key < key_of(lower_value_at_once(place, value));
    }

    __device__ u32& listed(u32 later) { return block.listed[(turn + later) % 3]; }

    __device__ u64* pile_of(u32 which) const {
        return lists.far.items + u64(blockIdx.x * 2 + which) * block.room;
    }

    // There are too many vertices for these lists: the host searches in another way. The block
    // leaves when its threads meet, before it reads a list in which an item is missing.
    __device__ void give_up() const {
        block.gives_up = 1;
        store_relaxed_gpu(&word(is_too_wide), u64(1));
        // Whoever reports sees why the gang is stopped.
        fence_acq_rel_gpu();
        barrier.stop_all();
    }

    // Prefetches what a visit of a row reads first, while other rows are visited.
    __device__ void prefetch_beyond(const NearRow& row) const {
        if (near_far_threads > NearRow::most && row.targets[0] == NearRow::is_long) {
            const u32 begin = row.targets[NearRow::long_begin] - NearRow::special;
            prefetch(&graph.long_targets[begin]);
            if (graph.long_weights.len > 0) prefetch(&graph.long_weights[begin]);
            return;
        }
        for (const u32 further : row.targets) {
            if (further >= NearRow::special) continue;
            prefetch(&row_of(further));
            prefetch(&lists.values[further]);
        }
    }

    // Puts a vertex whose key became smaller into the list that is `later` lists after the one read
    // now, if that has fewer than `most`; else into the log.
    __device__ void list(u32 later, u32 vertex, u32 key, const NearRow& row, u32 most) {
        prefetch_beyond(row);
        u32& its = listed(later);
        const u32 place = atomicAdd(&its, 1);
        if (place < most) {
            const u32 which = (turn + later) % 2;
            block.rows[which][place] = row;
            block.vertices[which][place] = vertex;
            block.keys[which][place] = key;
            return;
        }
        atomicSub(&its, 1);
        atomicAdd(&block.surplus, 1);
        const u32 at = u32(fetch_add_relaxed_gpu(&word(taken), u64(1)));
        if (at - block.read >= lists.log.len) return give_up();
        // The tally publishes it. Relaxed, as the load, not plain: places of the ring are used again.
        store_relaxed_gpu(&lists.log[at % lists.log.len], item_of(vertex, key));
    }

    // Puts a vertex whose key became smaller, but is not near, into the far pile.
    __device__ void defer(u32 vertex, u32 key) {
        const u32 place = atomicAdd(&block.far, 1);
        if (place >= block.room) return give_up();
        pile_of(block.pile)[place] = item_of(vertex, key);
        atomicMin(&block.nearest, key);
    }
};

}  // namespace millstream
