// Shortest paths in steps: finds what comes into the next step, by looking at all vertices
// that are left, and by pulling: along the arcs that enter them, from what the last step settled.

namespace millstream {

class StepPull : public StepPush {
   public:
    using StepPush::StepPush;

   protected:
    // Arcs that a lane looks at by itself, and how many of them at a time: in a review, each
    // asks for a key that another device may have.
    static constexpr u32 alone_arcs = 16;
    static constexpr u32 pulled_at_once = 2;
    static constexpr u32 reviewed_at_once = 4;

    // All blocks: vertices whose keys are in the step come into the list, and the
    // nearest beyond it is offered.
    __device__ void collect() {
        const auto is_left = [&](u32 vertex) {
            const u32 key = key_of(values[vertex]);
            return key >= block.begin && key != unreached;
        };
        for_each(first, end, is_left, [&](bool is, u32 vertex) {
            sort_in(is, vertex, is ? key_of(values[vertex]) : unreached);
        });
    }

    // All blocks: as `collect`, after each vertex that is left has looked at the arcs that
    // enter it. What the last step settled has keys from `from`, less than `begin`.
    __device__ void pull(u32 from) {
        const auto is_left = [&](u32 vertex) { return key_of(values[vertex]) >= block.begin; };
        for_each(first, end, is_left, [&](bool is, u32 vertex) {
            // It does not matter whether others see what is written now: the key of a vertex
            // that is left stays at `begin` or above.
            const Best best = improve_by_looking<false>(is, vertex, from);
            if (block.end != unreached) return sort_in(is, vertex, best.key);
            const bool is_rivalled = is && best.rival < best.key;
            append(is_rivalled, vertex, 0);
            count_unlisted(is && !is_rivalled && best.key != unreached);
        });
    }

    // All blocks: each listed vertex, which may be near another one that is left, looks again, at
    // all that are left. Vertices whose keys become smaller come into the list.
    __device__ void review() {
        const u32 all = block.here;
        const u32 grid_warps = gridDim.x * warps;
        const u32 share = (all + grid_warps - 1) / grid_warps;
        const u32 rows = share < 32 ? share : 32;
        const u32 warp = blockIdx.x * warps + threadIdx.x / 32;
        for (u32 base = warp * rows; base < all; base += grid_warps * rows) {
            const u32 at = base + lane();
            const bool is = lane() < rows && at < all;
            const u32 vertex = is ? list(block.filled ^ 1)[at] : first;
            const u32 before = is ? key_at(vertex) : 0;
            append(improve_by_looking<true>(is, vertex, block.begin).key < before, vertex, 0);
        }
    }

   private:
    // The shortest known way to a vertex. No way through vertices that are left is shorter
    // than the rival.
    struct Best {
        u32 key;
        u32 source;
        u32 rival;
    };

    // A warp: lists its lanes' vertices that are near, and notes the nearest of the others.
    __device__ void sort_in(bool is, u32 vertex, u32 key) {
        const bool is_near = is && key < block.end;
        if (is && !is_near && key < block.nearest) atomicMin(&block.nearest, key);
        append(is_near, vertex, is_near ? degree(vertex) : 0);
    }

    // A warp: looks along the arcs that enter each lane's vertex, and keeps the key if it is
    // smaller. Nobody else writes it now.
    template <bool is_review>
    __device__ Best improve_by_looking(bool is, u32 vertex, u32 from) {
        Best best{unreached, unreached, unreached};
        if (is) best.key = key_at(vertex);
        const u32 before = best.key;
        look<is_review>(is, vertex, from, best);
        if (best.key < before) {
            StepValue value;
            make_value(best.key, best.source, &value);
            // Relaxed: others may look at it, and can use either value.
            store_relaxed_sys(&values[vertex], value);
        }
        return best;
    }

    // A warp: the shortest way through arcs of each lane's vertex. Lanes look alone, and
    // help each other with what is left of long rows. An arc is at least as heavy as those
    // before it: if it would be too long even from the nearest vertex, so are all that follow.
    template <bool is_review>
    __device__ void look(bool is, u32 vertex, u32 from, Best& best) const {
        const u64 row = is ? in.offsets[vertex - first] : 0;
        const u32 arcs = is ? degree(vertex) : 0;
        constexpr u32 at_once = is_review ? reviewed_at_once : pulled_at_once;
        bool is_over = false;
#pragma unroll 1
        for (u32 at = 0; at < alone_arcs && at < arcs && !is_over; at += at_once)
            is_over = look_at_some<is_review>(row, arcs, at, from, best);
        for (u32 left = __ballot_sync(~0u, !is_over && arcs > alone_arcs); left != 0;
             left &= left - 1) {
            const u32 whose = __ffs(left) - 1;
            Best its{__shfl_sync(~0u, best.key, whose), __shfl_sync(~0u, best.source, whose),
                     __shfl_sync(~0u, best.rival, whose)};
            look_together<is_review>(__shfl_sync(~0u, row, whose), __shfl_sync(~0u, arcs, whose),
                                     from, its);
            if (lane() == whose) best = its;
        }
    }

    __device__ u32 within_limit(u32 key) const { return key > settings.limit ? unreached : key; }

    // The key through an arc from a vertex with the key `key`, if that is settled; else `rival` gets
    // a bound.
    __device__ u32 key_pulled(u32 key, StepWeight weight, u32& rival) const {
        const bool is_left = key >= block.begin;
        const u32 through = within_limit(StepRule::extended(is_left ? block.begin : key, weight));
        if (!is_left) return through;
        if (through < rival) rival = through;
        return unreached;
    }

    // Whether a vertex, whose key is `key` as far as this device knows, is left, and its own key may
    // make the way through an arc shorter than the best.
    __device__ bool is_asked(u32 key, StepWeight weight, const Best& best) const {
        return key >= block.begin && StepRule::extended(block.begin, weight) < best.key;
    }

    // The key through an arc from a vertex that was asked for its own.
    __device__ u32 key_reviewed(u32 key, StepWeight weight) const {
        return key == unreached ? unreached : within_limit(StepRule::extended(key, weight));
    }

    // The key of a vertex that is left, from its owner.
    __device__ u32 key_there(u32 vertex) const {
        if (owns(vertex)) return key_at(vertex);
        u32 owner = 0;
        while (vertex >= settings.place.boundaries[owner + 1]) ++owner;
        return key_of(load_relaxed_sys(&exchange.owned[owner][vertex]));
    }

    // A lane: looks at some arcs. True if none of those that follow can be better.
    template <bool is_review>
    __device__ bool look_at_some(u64 row, u32 arcs, u32 from_arc, u32 from, Best& best) const {
        constexpr u32 at_once = is_review ? reviewed_at_once : pulled_at_once;
        u32 sources[at_once];
        u32 keys[at_once];
        StepWeight weights[at_once];
#pragma unroll
        for (u32 each = 0; each < at_once; ++each) {
            // The last arc comes again at the end of a row.
            const u64 at = row + (from_arc + each < arcs ? from_arc + each : arcs - 1);
            sources[each] = in.targets[at];
            weights[each] = in.weights[at];
        }
#pragma unroll
        for (u32 each = 0; each < at_once; ++each) keys[each] = key_of(values[sources[each]]);
        if (is_review) {
            // All are asked before the first has answered, the last arc not again: that takes long.
#pragma unroll
            for (u32 each = 0; each < at_once; ++each) {
                const bool is_arc = from_arc + each < arcs;
                const bool is = is_arc && is_asked(keys[each], weights[each], best);
                keys[each] = unreached;
                if (is) keys[each] = key_there(sources[each]);
            }
        }
#pragma unroll
        for (u32 each = 0; each < at_once; ++each) {
            const u32 key = is_review ? key_reviewed(keys[each], weights[each])
                                      : key_pulled(keys[each], weights[each], best.rival);
            if (key < best.key) {
                best.key = key;
                best.source = sources[each];
            }
        }
        return StepRule::extended(from, weights[at_once - 1]) >= best.key;
    }

    // A warp: the rest of a row.
    template <bool is_review>
    __device__ void look_together(u64 row, u32 arcs, u32 from, Best& best) const {
#pragma unroll 1
        for (u32 base = alone_arcs; base < arcs; base += 32) {
            const u64 at = row + (base + lane() < arcs ? base + lane() : arcs - 1);
            const u32 source = in.targets[at];
            const StepWeight weight = in.weights[at];
            u32 rival = best.rival;
            u32 key = key_of(values[source]);
            if (is_review) {
                key = is_asked(key, weight, best) ? key_there(source) : unreached;
                key = key_reviewed(key, weight);
            } else {
                key = key_pulled(key, weight, rival);
            }
            best.rival = __reduce_min_sync(~0u, rival);
            const u32 least = __reduce_min_sync(~0u, key);
            if (least < best.key) {
                const u32 who = __ffs(__ballot_sync(~0u, key == least)) - 1;
                best.key = least;
                best.source = __shfl_sync(~0u, source, who);
            }
            if (StepRule::extended(from, __shfl_sync(~0u, weight, 31)) >= best.key) return;
        }
    }
};

}  // namespace millstream
