// Level-synchronous BFS: a device and what its blocks share; see LEVELS.md.
//
// Each device owns the vertices `first..end`, and has the visited bits of all
// vertices, twice: a bottom-up level reads one copy and writes the other. A visited
// vertex with an arc to one that is not visited can only be of the last level, so
// visited bits are the frontier too.

#include "gang_device.cuh"
#include "lanes.cuh"

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
    SpanSet<u64> inboxes;  // From each other device, an item for each owned vertex.
};

// A part of a row: the arcs that lead to a device's vertices.
struct SplitRow {
    u64 begin;   // In `LevelHubs::targets`.
    u32 arcs;
    u32 vertex;  // Whose row; `unreached` if there is none.
};

struct LevelHubs {
    // For each owned vertex, of all sources of arcs to it the one most likely to be visited first;
    // or empty.
    Span<const u32> of;
    Span<const u32> targets;  // Owned targets of rows that are split.
    SplitRow source;          // The row that the search begins with.
};

struct LevelSettings {
    GangPlace place;
    u32 connected;  // Vertices with arcs.
    u32 depth_limit;
    u32 alpha;  // Bottom-up if the frontier times this is more than what is left unvisited.
    u32 beta;   // Top-down if the frontier times this is less.
    u32 degree; // Arcs of a vertex, on average.
    u32 reaches_late;  // Not 0 if a rush only visits.
    u32 source;  // The only source, if its row is not split; else `unreached`.
    u32 unused;
};

class LevelDevice : public GangDevice<const u32&> {
   public:
    // A row, or a piece of one, in the log.
    struct alignas(16) Row {
        u64 begin;
        u32 vertex;
        u32 arcs;
    };
    static constexpr u32 stage_rows = 1024;
    static constexpr u32 block_threads = 1024;

    // What a block shares.
    struct Block {
        Row stage[stage_rows];  // On their way to the log.
        u32 bits[block_threads / 32][32];  // Found by each warp in a sweep.
        u32 staged;
        u32 found;   // Vertices found since the block last met.
        u32 stored;  // Words published.
        u32 sent;    // Items for other devices.
        u32 seen[SpanSet<u64>::most];  // Items taken from others.
        u64 place;
    };

    __device__ LevelDevice(const LevelRows& out, const LevelRows& in, const LevelValues& values,
                           const LevelLists& lists, const LevelExchange& exchange,
                           const SpanSet<u64>& words, const GangReports& reports,
                           const LevelSettings& settings, Block& block)
        : GangDevice<const u32&>(settings.place, words, reports), out(out), in(in), values(values), lists(lists),
          exchange(exchange), settings(settings), block(block) {}

   protected:
    // Words that are kept: totals of the last frontier.
    enum Kept { kept_places, kept_visited, kept_sent, kept_in_vain, kept_rows };
    // Words of the device, which reports say.
    enum DeviceWord { published, kept_items };
    static constexpr GangBarrier::Counter visited_count = GangBarrier::first_count;
    static constexpr GangBarrier::Counter sent_count = GangBarrier::second_count;

    const LevelRows& out;
    const LevelRows& in;
    const LevelValues& values;
    const LevelLists& lists;
    const LevelExchange& exchange;
    const LevelSettings& settings;
    Block& block;
    u32 level = 0;
    u32 copy = 0;
    u64 mark = 0;

    // Known when the kernel is compiled: one for a device alone, one for several.
    __device__ static constexpr bool is_alone() { return MILLSTREAM_IS_ALONE; }

    __device__ u32* bits(u32 device, u32 which) const {
        return exchange.visited[device].items + u64(which) * ((settings.place.vertices + 31) / 32);
    }

    __device__ Row row_of(u32 vertex) const {
        const u64* const offset = &out.offsets[vertex - first];
        const u64 begin = offset[0];
        return Row{begin, vertex, u32(offset[1] - begin)};
    }

    // Sets a visited bit of this device's copy. True if it was clear.
    __device__ bool claim(u32 vertex) const {
        const u32 bit = 1u << vertex % 32;
        // Relaxed: the barrier publishes what comes with it.
        return !(fetch_or_relaxed_gpu(bits(settings.place.device, copy) + vertex / 32, bit) & bit);
    }

    __device__ void reach(u32 vertex, u32 predecessor) const {
        values.levels[vertex - first] = level;
        if (values.predecessors.len > 0) values.predecessors[vertex - first] = predecessor;
    }

    // Reaches a claimed vertex. If it goes into the log, it is marked as visited in both copies: else
    // it would be taken for one that is reached late.
    __device__ void find(u32 vertex, u32 predecessor, bool is_listed) const {
        reach(vertex, predecessor);
        // Relaxed: the barrier publishes it.
        if (is_listed)
            fetch_or_relaxed_gpu(bits(settings.place.device, copy ^ 1) + vertex / 32, 1u << vertex % 32);
    }

    // Whether what a rush finds is reached in the sweep or gather after it: see LEVELS.md.
    __device__ bool reaches_late() const { return settings.reaches_late; }

    // A warp: counts the bits of all its lanes.
    __device__ void count_all_found(u32 found) {
        const u32 all = __reduce_add_sync(~0u, __popc(found));
        if (lane() == 0 && all != 0) atomicAdd(&block.found, all);
    }

    __device__ void count_found(bool is_found) {
        const u32 all = __ballot_sync(~0u, is_found);
        if (lane() == 0 && all != 0) atomicAdd(&block.found, __popc(all));
    }
};

}  // namespace millstream
