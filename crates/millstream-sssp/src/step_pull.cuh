// Shortest paths in steps: what comes into the next one, by looking at all vertices that
// are left, and pulling: along the arcs that enter them, from what the last step settled.

namespace millstream {

class StepPull : public StepPush {
   public:
    using StepPush::StepPush;

   protected:
    // Arcs that a lane looks at by itself, and how many of them at a time.
    static constexpr u32 alone_arcs = 16;
    static constexpr u32 pulled_at_once = 4;

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
            Best best{unreached, unreached};
            if (is) best.key = key_of(values[vertex]);
            const u32 before = best.key;
            look(is, vertex, from, best);
            if (best.key < before) {
                StepValue value;
                make_value(best.key, best.source, &value);
                // Nobody else writes it now, or cares whether they see it: a key that is
                // left stays at `begin` or above.
                values[vertex] = value;
            }
            sort_in(is, vertex, best.key);
        });
    }

   private:
    struct Best {
        u32 key;
        u32 source;
    };

    // A warp.
    __device__ void sort_in(bool is, u32 vertex, u32 key) {
        const bool is_near = is && key < block.end;
        if (is && !is_near && key < block.nearest) atomicMin(&block.nearest, key);
        append(is_near, vertex, is_near ? degree(vertex) : 0);
    }

    // A warp: the shortest way through arcs of each lane's vertex. Lanes look alone, and
    // help each other with what is left of long rows. An arc is as heavy as those before
    // it: when one from the nearest vertex would be too long, so are all that follow.
    __device__ void look(bool is, u32 vertex, u32 from, Best& best) const {
        u64 arc = 0;
        u64 row_end = 0;
        if (is) {
            arc = in.offsets[vertex - first];
            row_end = in.offsets[vertex - first + 1];
        }
        bool is_over = arc >= row_end;
        const u64 alone = arc + alone_arcs < row_end ? arc + alone_arcs : row_end;
#pragma unroll 1
        for (; arc < alone && !is_over; arc += pulled_at_once)
            is_over = look_at_some(arc, row_end, from, best);
        for (u32 left = __ballot_sync(~0u, !is_over && arc < row_end); left != 0;
             left &= left - 1) {
            const u32 whose = __ffs(left) - 1;
            Best its{__shfl_sync(~0u, best.key, whose), __shfl_sync(~0u, best.source, whose)};
            look_together(__shfl_sync(~0u, arc, whose), __shfl_sync(~0u, row_end, whose), from,
                          its);
            if (lane() == whose) best = its;
        }
    }

    // The key through an arc from a settled vertex.
    __device__ u32 key_through(u32 source, StepWeight weight) const {
        const u32 key = key_of(values[source]);
        const u32 through = key < block.begin ? StepRule::extended(key, weight) : unreached;
        return through <= settings.limit ? through : unreached;
    }

    // A lane: some arcs. Whether no other can be better.
    __device__ bool look_at_some(u64 arc, u64 row_end, u32 from, Best& best) const {
        u32 sources[pulled_at_once];
        StepWeight weights[pulled_at_once];
#pragma unroll
        for (u32 each = 0; each < pulled_at_once; ++each) {
            const u64 at = arc + each < row_end ? arc + each : row_end - 1;
            sources[each] = in.targets[at];
            weights[each] = in.weights[at];
        }
#pragma unroll
        for (u32 each = 0; each < pulled_at_once; ++each) {
            const u32 key = key_through(sources[each], weights[each]);
            if (key < best.key) best = {key, sources[each]};
        }
        return StepRule::extended(from, weights[pulled_at_once - 1]) >= best.key;
    }

    // A warp: the rest of a row.
    __device__ void look_together(u64 arc, u64 row_end, u32 from, Best& best) const {
#pragma unroll 1
        for (; arc < row_end; arc += 32) {
            const u64 at = arc + lane() < row_end ? arc + lane() : row_end - 1;
            const u32 source = in.targets[at];
            const StepWeight weight = in.weights[at];
            const u32 key = key_through(source, weight);
            const u32 least = __reduce_min_sync(~0u, key);
            if (least < best.key) {
                const u32 who = __ffs(__ballot_sync(~0u, key == least)) - 1;
                best = {least, __shfl_sync(~0u, source, who)};
            }
            if (StepRule::extended(from, __shfl_sync(~0u, weight, 31)) >= best.key) return;
        }
    }
};

}  // namespace millstream
