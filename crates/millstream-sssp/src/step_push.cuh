// Shortest paths in steps, pushing: values go along the arcs that leave vertices. Whoever
// owns an arc's target has the arc, so that values are lowered in own memory.

namespace millstream {

class StepPush : public StepDevice {
   public:
    using StepDevice::StepDevice;

   protected:
    // Rows with more arcs are left for the block.
    static constexpr u32 long_arcs = 32;
    // Arcs of a lane that are under way at once.
    static constexpr u32 at_once = 2;
    // Frontiers of so many vertices are spread over all warps, arc by arc.
    static constexpr u32 thin = 32;

    // All blocks: the vertices that are near, their light arcs.
    __device__ void expand() {
        const u32 all = count_told();
        const u32 grid_warps = gridDim.x * warps;
        const u32 share = (all + grid_warps - 1) / grid_warps;
        const auto has_arcs = [&](u32 at) { return take(at); };
        const auto visit = [&](bool is, u32 at) {
            StepValue from{};
            u64 arc = 0;
            const u32 arcs = is ? arcs_within(at, from, arc) : 0;
            relax_rows<true>(arc, leave_long(arc, arcs, from), from, 0, 32);
        };
        if (all <= thin) {
            StepValue from{};
            u64 arc = 0;
            const u32 arcs = lane() < all && take(lane()) ? light_arcs(lane(), from, arc) : 0;
            const u32 offset = u32(thread_in_grid()) - lane();
            relax_rows<true>(arc, arcs, from, offset, u32(threads_in_grid()));
        } else if (share < 32) {
            const u32 at = (blockIdx.x * warps + threadIdx.x / 32) * share + lane();
            visit(lane() < share && at < all && take(at), at);
        } else {
            for_each(0, all, has_arcs, visit);
        }
        relax_long_rows<true>();
    }

    // All blocks: from all vertices of the step, along the arcs that lead beyond it.
    __device__ void push_beyond() {
        const auto is_settled = [&](u32 vertex) {
            const u32 key = key_of(values[vertex]);
            return key >= block.begin && key < block.end;
        };
        // Values of others' vertices are here since they were told.
        const u32 low = is_alone() ? first : 0;
        for_each(low, is_alone() ? end : settings.vertices, is_settled, [&](bool is, u32 vertex) {
            u64 arc = 0;
            u32 arcs = 0;
            StepValue from{};
            if (is) {
                arc = out.offsets[row_of(vertex)];
                arcs = u32(out.offsets[row_of(vertex) + 1] - arc);
                make_value(key_of(values[vertex]), vertex, &from);
            }
            relax_rows<false>(arc, leave_long(arc, arcs, from), from, 0, 32);
        });
        relax_long_rows<false>();
    }

    // All blocks: gives the others the list's vertices and values.
    __device__ void tell() {
        for (u64 at = thread_in_grid(); at < block.here; at += threads_in_grid()) {
            const u32 vertex = list(block.filled ^ 1)[at];
            const StepValue value = values[vertex];
            for (u32 device = 0; device < settings.devices; ++device) {
                if (device == settings.device) continue;
                exchange.vertices[device][told_place(settings.device, at)] = vertex;
                exchange.values[device][told_place(settings.device, at)] = value;
            }
        }
        if (threadIdx.x == 0) block.sent += block.here;
        if (thread_in_grid() >= settings.devices || thread_in_grid() == settings.device) return;
        // Relaxed: the barrier's letters say it.
        store_relaxed_gpu(&barrier.sent_to(u32(thread_in_grid())), u64(block.here));
    }

   private:
    // A place of the rows that leave.
    __device__ u32 row_of(u32 vertex) const { return is_alone() ? vertex - first : vertex; }

    // Where a device tells an entry of the list that is read.
    __device__ u64 told_place(u32 from, u64 at) const {
        return u64(block.filled) * settings.vertices + settings.boundaries[from] + at;
    }

    // The whole block: vertices in the lists of all devices.
    __device__ u32 count_told() {
        if (is_alone()) return block.here;
        const u32 device = threadIdx.x;
        if (device < settings.devices)
            block.told[device] = device == settings.device ? block.here : u32(barrier.received_from(device));
        __syncthreads();
        u32 all = 0;
        for (u32 each = 0; each < settings.devices; ++each) all += block.told[each];
        if (threadIdx.x == 0) block.received += all - block.here;
        return all;
    }

    // A vertex of the lists of all devices, and what goes along its arcs.
    __device__ u32 entry(u32 at, StepValue& from) const {
        u32 of = settings.device;
        if (!is_alone()) {
            for (of = 0; at >= block.told[of]; ++of) at -= block.told[of];
        }
        const bool is_own = of == settings.device;
        const u32 vertex = is_own ? list(block.filled ^ 1)[at]
                                  : exchange.vertices[settings.device][told_place(of, at)];
        const u32 key = is_own ? key_at(vertex)
                               : key_of(exchange.values[settings.device][told_place(of, at)]);
        make_value(key, vertex, &from);
        return vertex;
    }

    // Takes an entry out of the lists, or keeps what is told. Whether it may have light arcs,
    // as few have.
    __device__ bool take(u32 at) const {
        StepValue from;
        const u32 vertex = entry(at, from);
        if (owns(vertex)) {
            mark_word(block.filled ^ 1, vertex) = 0;
        } else {
            // Only owners need predecessors.
            values[vertex] = from;
        }
        if (block.end == unreached) return true;
        return leads_on(key_of(from)) && lists.lights[row_of(vertex)] > 0;
    }

    // An entry's light arcs, and where they are.
    __device__ u32 light_arcs(u32 at, StepValue& from, u64& arc) const {
        const u32 row = row_of(entry(at, from));
        arc = out.offsets[row];
        return block.end == unreached ? u32(out.offsets[row + 1] - arc) : lists.lights[row];
    }

    // Those of them that lead to keys in the step.
    __device__ u32 arcs_within(u32 at, StepValue& from, u64& arc) const {
        u32 high = light_arcs(at, from, arc);
        if (block.end == unreached) return high;
        u32 low = 0;
        while (low < high) {
            const u32 middle = (low + high) / 2;
            if (StepRule::extended(key_of(from), out.weights[arc + middle]) < block.end) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }

    // Leaves a row to the block if it is long. How many of its arcs are still the lane's.
    __device__ u32 leave_long(u64 arc, u32 arcs, StepValue from) {
        if (arcs <= long_arcs) return arcs;
        const u32 at = atomicAdd(&block.longs, 1);
        if (at >= most_longs) return arcs;
        block.rows[at] = {arc, from, arcs};
        return 0;
    }

    // A warp: rows of its lanes, of all their arcs those from `offset`, 32 in each `step`.
    template <bool is_near>
    __device__ void relax_rows(u64 arc, u32 arcs, StepValue from, u32 offset, u32 step) {
        __syncwarp();
        const SpreadArcs<StepValue> spread(arc, arc + arcs, from);
#pragma unroll 1
        for (u32 base = offset; base < spread.total; base += at_once * step) {
            bool is_arc[at_once];
            u64 at[at_once];
            StepValue its[at_once];
#pragma unroll
            for (u32 each = 0; each < at_once; ++each) {
                const auto place = spread[base + each * step + lane()];
                is_arc[each] = place.is_arc;
                at[each] = place.arc;
                its[each] = place.state;
            }
            relax<is_near>(is_arc, at, its);
        }
    }

    // The whole block: the rows that its warps have left, each spread over warps.
    template <bool is_near>
    __device__ void relax_long_rows() {
        constexpr u32 piece = 32 * at_once;
        __syncthreads();
        const u32 rows = block.longs < most_longs ? block.longs : most_longs;
        // The warp whose turn it is.
        u32 turn = threadIdx.x / 32;
        for (u32 row = 0; row < rows; ++row) {
            const LongRow its = block.rows[row];
            const u32 pieces = (its.arcs + piece - 1) / piece;
#pragma unroll 1
            for (; turn < pieces; turn += warps) {
                bool is_arc[at_once];
                u64 at[at_once];
                StepValue from[at_once];
#pragma unroll
                for (u32 each = 0; each < at_once; ++each) {
                    const u32 arc = turn * piece + each * 32 + lane();
                    is_arc[each] = arc < its.arcs;
                    at[each] = its.begin + arc;
                    from[each] = its.from;
                }
                relax<is_near>(is_arc, at, from);
            }
            turn -= pieces;
        }
        __syncthreads();
        if (threadIdx.x == 0) block.longs = 0;
    }

    // A warp: some arcs of each lane. Those that stay in the step bring their targets into
    // the list; those that lead beyond it do not.
    template <bool is_near>
    __device__ void relax(const bool (&is_arc)[at_once], const u64 (&arc)[at_once],
                          const StepValue (&from)[at_once]) {
        u32 targets[at_once];
        u32 keys[at_once];
#pragma unroll
        for (u32 each = 0; each < at_once; ++each) {
            const bool is = is_arc[each];
            targets[each] = is ? out.targets[arc[each]] : first;
            keys[each] = is ? StepRule::extended(key_of(from[each]), out.weights[arc[each]])
                            : unreached;
        }
        bool is_better[at_once];
#pragma unroll
        for (u32 each = 0; each < at_once; ++each) {
            const bool is_here = (keys[each] < block.end) == is_near;
            is_better[each] = is_here && keys[each] <= settings.limit &&
                              keys[each] < key_at(targets[each]);
        }
        // All of a kind before the next, which waits for it.
        u32 arcs[at_once];
#pragma unroll
        for (u32 each = 0; each < at_once; ++each) {
            arcs[each] = 0;
            if (!is_better[each]) continue;
            const u32 enter = is_near ? degree(targets[each]) : 0;
            StepValue value;
            make_value(keys[each], u32(from[each]), &value);
            const u32 before = key_of(lower_value(&values[targets[each]], value));
            is_better[each] = keys[each] < before;
            if (is_better[each] && before >= block.end) arcs[each] = enter;
        }
        if (!is_near) return;
#pragma unroll
        for (u32 each = 0; each < at_once; ++each)
            is_better[each] = is_better[each] && (!is_alone() || leads_on(keys[each])) &&
                              set_mark(targets[each]);
#pragma unroll
        for (u32 each = 0; each < at_once; ++each) append(is_better[each], targets[each], arcs[each]);
    }
};

}  // namespace millstream
