// Shortest paths in steps: a device, what its blocks share, and the list of vertices that
// they fill together; see STEPS.md.
//
// `StepRule` says how distances grow, `StepValue` is what a vertex holds: 32 bits, or 64
// with its predecessor.

#include "gang_device.cuh"
#include "keyed_values.cuh"
#include "lanes.cuh"
#include "spread_arcs.cuh"

namespace millstream {

using StepWeight = StepRule::Weight;

// Rows whose arcs come in ascending order of weight.
struct StepRows {
    Span<const u64> offsets;
    Span<const u32> targets;
    Span<const StepWeight> weights;
};

struct StepLists {
    Span<u32> near;          // Two lists of owned vertices.
    Span<u32> marks;         // Two sets of them, a bit each.
    Span<const u32> lights;  // For each row of `out`: arcs lighter than each quarter of a step.
};

// What owners have told, each device's part where its vertices would be. Twice, since a list is
// told while others may still read the one before.
struct StepExchange {
    SpanSet<u32> vertices;
    SpanSet<StepValue> values;
    SpanSet<StepValue> owned;  // The values on each device, exact for the vertices that it owns.
};

struct StepSettings {
    GangPlace place;
    u64 arcs;       // Arcs that enter vertices, of all devices.
    u32 limit;      // Larger keys are left out.
    u32 delta;      // The width of a step, a weight.
    u32 first_end;  // Where the first step ends; `unreached` if there is but one.
    u32 pull;       // Pull if the arcs left are less than those settled times this.
    u32 rest;       // A step is the last if the arcs left, times this, are less than all.
    u32 lightest;   // The smallest weight in the whole graph.
};

// Loops that must not be unrolled say so: with 1024 threads a block, a thread has 64
// registers, and values kept throughout leave few of them.
class StepDevice : public GangDevice<u32> {
   public:
    static constexpr u32 threads = 1024;
    static constexpr u32 warps = threads / 32;

    // A row that a block's warps visit together, and what goes along its arcs.
    struct LongRow {
        u64 begin;
        StepValue from;
        u32 arcs;
    };

    // What a block shares.
    struct Block {
        LongRow rows[threads];  // One for each vertex that a block takes at a time.
        u32 stage[warps][64];  // Vertices on their way to the list.
        u32 pending[warps];    // How many of them each warp has.
        u32 places[warps];     // Where they go.
        u32 told[SpanSet<u64>::most];   // Vertices told by each device now,
        u32 seen[SpanSet<u64>::most];  // and since the start.
        u32 longs;
        u32 begin;    // The step: keys from here,
        u32 end;      // less than this.
        u32 filled;   // Which list is.
        u32 mark;     // Places taken before it.
        u32 here;     // Vertices in the list that is read, on this device.
        u32 nearest;  // Beyond the step, of those seen since the blocks last met.
        u64 settled;  // Arcs that enter vertices that have come into the step since then.
        u64 received;  // Vertices that other devices have told.
        u64 sent;      // Vertices told to each of them.
        u64 listed;    // Vertices of this device's lists.
        u32 unlisted;  // Vertices with keys that come into no list, since the blocks last met.
        u32 steps;
    };
    static constexpr u32 most_longs = sizeof(Block::rows) / sizeof(LongRow);

    __device__ StepDevice(const StepRows& out, const StepRows& in, const Span<StepValue>& values,
                          const StepLists& lists, const StepExchange& exchange,
                          const SpanSet<u64>& words, const GangReports& reports,
                          const StepSettings& settings, Block& block)
        : GangDevice<u32>(settings.place, words, reports), out(out), in(in), values(values), lists(lists),
          exchange(exchange), words(words), settings(settings), block(block) {}

   protected:
    static constexpr GangBarrier::Counter settled_count = GangBarrier::first_count;

    // Rows of all vertices, of arcs whose targets are owned; on a single device, simply all rows.
    const StepRows& out;
    // Rows of owned vertices, with the arcs that enter them.
    const StepRows& in;
    const Span<StepValue>& values;
    const StepLists& lists;
    const StepExchange& exchange;
    const SpanSet<u64>& words;
    const StepSettings& settings;
    Block& block;

    __device__ u32* list(u32 which) const { return lists.near.items + u64(which) * (end - first); }

    __device__ u32& mark_word(u32 which, u32 vertex) const {
        return lists.marks[u64(which) * ((end - first + 31) / 32) + (vertex - first) / 32];
    }

    // Marks an owned vertex for the list that is filled. True if it was not marked.
    __device__ bool set_mark(u32 vertex) const {
        const u32 bit = 1u << (vertex - first) % 32;
        // Relaxed: the barrier publishes the list, and the value that goes with it.
        return !(fetch_or_relaxed_gpu(&mark_word(block.filled, vertex), bit) & bit);
    }

    // This warp's number in the grid. Consecutive numbers belong to different blocks, since hubs, to
    // which most arcs lead, lie together.
    __device__ static u32 spread_warp() { return threadIdx.x / 32 * gridDim.x + blockIdx.x; }

    // Arcs that enter an owned vertex.
    __device__ u32 degree(u32 vertex) const {
        const u64* const offset = &in.offsets[vertex - first];
        return u32(offset[1] - offset[0]);
    }

    // Whether an arc of the smallest weight leads from `key` to a key in the step.
    __device__ bool leads_on(u32 key) const {
        return block.end == unreached ||
               StepRule::extended(key, StepRule::weight(settings.lightest)) < block.end;
    }

    // What all blocks of the device have counted as `Block::unlisted`, since the start.
    __device__ u64& unlisted() const { return words[settings.place.device][barrier_words]; }

    __device__ u32 key_at(u32 vertex) const { return key_of(load_relaxed_gpu(&values[vertex])); }

    // A warp: appends vertices of its lanes to the list, 32 at a time. `arcs` is how many arcs enter
    // a vertex whose key has come into the step just now; else it is 0. Such a vertex comes into no
    // list if it leads nowhere in the step (`leads` is false).
    __device__ void append(bool is_news, u32 vertex, u32 arcs, bool leads = true) {
        const u32 all = __ballot_sync(~0u, is_news);
        if (__any_sync(~0u, arcs > 0)) {
            // In halves, which cannot overflow.
            const u64 low = __reduce_add_sync(~0u, arcs & 0xffff);
            const u64 high = __reduce_add_sync(~0u, arcs >> 16);
            if (lane() == 0) atomicAdd(&block.settled, (high << 16) + low);
            count_unlisted(arcs > 0 && !leads);
        }
        if (all == 0) return;
        u32* const stage = block.stage[threadIdx.x / 32];
        u32 pending = block.pending[threadIdx.x / 32];
        if (is_news) stage[pending + __popc(all & ((1u << lane()) - 1))] = vertex;
        pending += __popc(all);
        __syncwarp();
        if (pending >= 32) {
            pending -= 32;
            u32 place = 0;
            if (lane() == 0) place = u32(barrier.take_places(32)) - block.mark;
            place = __shfl_sync(~0u, place, 0);
            list(block.filled)[place + lane()] = stage[pending + lane()];
        }
        if (lane() == 0) block.pending[threadIdx.x / 32] = pending;
        __syncwarp();
    }

    // A warp: counts vertices of its lanes that have keys but need no place in a list.
    __device__ void count_unlisted(bool is) {
        const u32 all = __popc(__ballot_sync(~0u, is));
        if (all > 0 && lane() == 0) atomicAdd(&block.unlisted, all);
    }

    // All blocks: calls `use(is_one, vertex)` for the vertices from `low` to `high` for which
    // `is_one(vertex)` holds, spread over the lanes of warps.
    template <class Is, class Use>
    __device__ void for_each(u32 low, u32 high, const Is& is_one, const Use& use) {
        for_each_word(low, high, use, [&](u32 first_word, u32 step, u32 words) {
            // Several at once: one by one, each would wait for memory.
            constexpr u32 at_once = 4;
            u32 word = 0;
#pragma unroll 1
            for (u32 each = 0; each < words; each += at_once) {
                bool is[at_once];
#pragma unroll
                for (u32 next = 0; next < at_once; ++next) {
                    const u64 place = (first_word + u64(each + next) * step) * 32 + lane();
                    const bool is_place = each + next < words && place < high - low;
                    // Without a branch: the next load would wait behind it.
                    is[next] = is_one(low + (is_place ? u32(place) : 0)) && is_place;
                }
#pragma unroll
                for (u32 next = 0; next < at_once; ++next) {
                    const u32 bits = __ballot_sync(~0u, is[next]);
                    if (lane() == each + next) word = bits;
                }
            }
            return word;
        });
    }

    // All blocks: the same for the marked vertices of the list that is read.
    template <class Use>
    __device__ void for_each_marked(const Use& use) {
        for_each_word(first, end, use, [&](u32 first_word, u32 step, u32 words) {
            const u64 place = (first_word + u64(lane()) * step) * 32;
            const bool is_word = lane() < words && place < end - first;
            return is_word ? load_relaxed_gpu(&mark_word(block.filled ^ 1, first + u32(place))) : 0;
        });
    }

    // The whole block, before it meets the others: appends what is left in the stages, and
    // tells what its threads have seen.
    __device__ void flush() {
        __syncthreads();
        if (threadIdx.x < 32) {
            const u32 its = lane() < warps ? block.pending[lane()] : 0;
            const u32 sum = prefix_sum(its);
            const u32 total = __shfl_sync(~0u, sum, 31);
            u32 place = 0;
            if (lane() == 0 && total > 0) place = u32(barrier.take_places(total)) - block.mark;
            place = __shfl_sync(~0u, place, 0);
            if (lane() < warps) block.places[lane()] = place + sum - its;
        }
        __syncthreads();
        const u32 warp = threadIdx.x / 32;
        if (lane() < block.pending[warp])
            list(block.filled)[block.places[warp] + lane()] = block.stage[warp][lane()];
        __syncwarp();
        if (lane() == 0) block.pending[warp] = 0;
        if (threadIdx.x != 0) return;
        if (block.settled != 0) barrier.count(settled_count, block.settled);
        if (block.nearest != unreached) barrier.offer(u64(~block.nearest));
        // Relaxed: the barrier publishes it.
        if (block.unlisted != 0) fetch_add_relaxed_gpu(&unlisted(), u64(block.unlisted));
        block.unlisted = 0;
        block.settled = 0;
        block.nearest = unreached;
    }

   private:
    // All blocks: goes through bits, one for each vertex from `low` to `high`. `word_of(word, step, words)`
    // returns the word of each lane: a warp has `words` of them, every `step`-th from `word` on. Calls
    // `use(is_set, vertex)` for the bits that are set, spread over the lanes.
    template <class Use, class WordOf>
    __device__ void for_each_word(u32 low, u32 high, const Use& use, const WordOf& word_of) {
        const u32 grid_warps = gridDim.x * warps;
        const u32 share = (high - low) / 32 / grid_warps + 1;
        const u32 words = share < 32 ? share : 32;
        if (low == high) return;
        // The stride gives consecutive hubs, in lists too, to many warps. It is odd, since each window of 32
        // words may begin with hubs.
        const u32 groups = ((high - low + 31) / 32 + words - 1) / words | 1;
        for (u32 group = spread_warp(); group < groups; group += grid_warps) {
            const u32 word = word_of(group, groups, words);
            const u32 sum = prefix_sum(__popc(word));
            const u32 total = __shfl_sync(~0u, sum, 31);
#pragma unroll 1
            for (u32 at = lane(); at - lane() < total; at += 32) {
                const u32 whose = owner_of(sum, at);
                const u32 before = __shfl_sync(~0u, sum - __popc(word), whose);
                const u32 bit = nth_bit(__shfl_sync(~0u, word, whose), at - before);
                use(at < total, low + (group + whose * groups) * 32 + bit);
            }
        }
    }
};

}  // namespace millstream
