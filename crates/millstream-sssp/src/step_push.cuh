// Shortest paths in steps, pushing: values go along the arcs that leave vertices. Whoever
// owns an arc's target has the arc, so that it lowers values in its own memory.

namespace millstream {

class StepPush : public StepDevice {
   public:
    using StepDevice::StepDevice;

   protected:
    // Rows with more arcs are left for the block.
    static constexpr u32 long_arcs = 32;
    // Arcs of a lane that are under way at once.
    static constexpr u32 at_once = 2;
    // Frontiers of up to this many vertices are spread over all warps, arc by arc.
    static constexpr u32 thin = 32;
    // A list is dense if it has more than one of `dense` owned vertices, and `many` for each warp.
    static constexpr u32 dense = 64;
    static constexpr u32 many = 8;

    // All blocks: visits the light arcs of near vertices. `is_marked` says if the list's are marked.
    __device__ void expand(bool is_marked) {
        const bool is_ordered = is_marked && is_dense();
        const u32 all = count_told(!is_ordered);
        if (all <= thin && !is_ordered) return expand_thin(all);
        StepWaiting waiting{};
        const auto visit = [&](bool is, u32 vertex, StepValue from) {
            u32 arcs = 0;
            if (is && leads_on(key_of(from))) arcs = arcs_of(row_of(vertex), key_of(from), true);
            if (waiting.add(arcs, vertex, from)) relax_waiting(waiting);
        };
        if (is_ordered) {
            for_each_marked([&](bool is, u32 vertex) {
                StepValue from{};
                if (is) from = take_own(vertex);
                visit(is, vertex, from);
            });
        }
        const u32 grid_warps = gridDim.x * warps;
        const u32 share = (all + grid_warps - 1) / grid_warps;
        const u32 rows = share < 32 ? share : 32;
        for (u32 base = spread_warp() * rows; base < all; base += grid_warps * rows) {
            const u32 at = base + lane();
            const bool is = lane() < rows && at < all;
            StepValue from{};
            const u32 vertex = is ? take(at, from) : 0;
            visit(is, vertex, from);
        }
        if (waiting.count > 0) relax_waiting(waiting);
        relax_long_rows<true>();
    }

    // All blocks: visits the arcs that lead beyond the step, from all its vertices.
    __device__ void push_beyond() {
        const auto is_settled = [&](u32 vertex) {
            const u32 key = key_of(values[vertex]);
            return key >= block.begin && key < block.end;
        };
        // Values of others' vertices are here since they were told.
        const u32 low = is_alone() ? first : 0;
        for_each(low, is_alone() ? end : settings.place.vertices, is_settled, [&](bool is, u32 vertex) {
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

    // What is offered if an arc leads on from a vertex that is told: more than any key.
    static constexpr u64 leads = 1ull << 32;

    // All blocks: tells others the list's vertices and values, in the marks' order if it is marked and dense.
    __device__ void tell(bool is_marked) {
        bool is_any = false;
        const auto say = [&](u32 vertex, u64 at) {
            const StepValue value = values[vertex];
            is_any |= leads_on(key_of(value));
            for (u32 device = 0; device < settings.place.devices; ++device) {
                if (device == settings.place.device) continue;
                exchange.vertices[device][told_place(settings.place.device, at)] = vertex;
                exchange.values[device][told_place(settings.place.device, at)] = value;
            }
        };
        // Places are counted in what is sent to the first other device.
        const u32 other = settings.place.device == 0 ? 1 : 0;
        const bool is_ordered = is_marked && is_dense();
        if (is_ordered) {
            for_each_marked([&](bool is, u32 vertex) {
                const u32 all = __ballot_sync(~0u, is);
                u32 place = 0;
                if (lane() == 0) place = u32(barrier.send(other, __popc(all)) - block.sent);
                place = __shfl_sync(~0u, place, 0) + __popc(all & ((1u << lane()) - 1));
                if (is) say(vertex, place);
            });
        } else {
            for (u64 at = thread_in_grid(); at < block.here; at += threads_in_grid())
                say(list(block.filled ^ 1)[at], at);
        }
        is_any = __syncthreads_or(is_any);
        if (threadIdx.x == 0) {
            block.sent += block.here;
            if (is_any) barrier.offer(leads);
        }
        const u32 device = u32(thread_in_grid());
        if (thread_in_grid() >= settings.place.devices || device == settings.place.device) return;
        if (!is_ordered || device != other) barrier.send(device, block.here);
    }

    // All blocks: takes the values that were told, if their vertices are not expanded.
    __device__ void take_told() {
        const u32 all = count_told(true);
        if (all == 0) return;
        for (u32 at = u32(thread_in_grid()); at < all; at += u32(threads_in_grid())) {
            StepValue from;
            take(at, from);
        }
        // If the gang is stopped, the next round says so again.
        barrier.meet_here();
    }

   private:
    // A vertex's row in `out`.
    __device__ u32 row_of(u32 vertex) const { return is_alone() ? vertex - first : vertex; }

    // Where a device tells an entry of the list that is read.
    __device__ u64 told_place(u32 from, u64 at) const {
        return u64(block.filled) * settings.place.vertices + settings.place.boundaries[from] + at;
    }

    // Whether the list that is read has so many of the owned vertices that it is best gone through in
    // their order: then what lies together in memory is read together. A short list takes little time anyway.
    __device__ bool is_dense() const {
        return block.here >= gridDim.x * warps * many && u64(block.here) * dense > end - first;
    }

    // All blocks: from a list of a few vertices, each arc by a thread of the grid.
    __device__ void expand_thin(u32 all) {
        u64 arc = 0;
        u32 arcs = 0;
        StepValue from{};
        if (lane() < all) {
            const u32 row = row_of(take(lane(), from));
            // Warps share the arcs by their numbers, which must not depend on keys that others
            // lower meanwhile.
            arcs = arcs_of(row, key_of(from), false);
            if (arcs > 0) arc = out.offsets[row];
        }
        const u32 offset = u32(thread_in_grid()) - lane();
        relax_rows<true>(arc, arcs, from, offset, u32(threads_in_grid()));
    }

    // The whole block: counts the vertices in the lists of all devices, or of all others.
    __device__ u32 count_told(bool with_own) {
        const u32 own = with_own ? block.here : 0;
        if (is_alone()) return own;
        const u32 device = threadIdx.x;
        if (device < settings.place.devices) {
            const u32 seen = barrier.received_from(device);
            block.told[device] = device == settings.place.device ? own : seen - block.seen[device];
            block.seen[device] = seen;
        }
        __syncthreads();
        u32 all = 0;
        for (u32 each = 0; each < settings.place.devices; ++each) all += block.told[each];
        if (threadIdx.x == 0) block.received += all - own;
        return all;
    }

    // A vertex of the lists of all devices, and what goes along its arcs.
    __device__ u32 take(u32 at, StepValue& from) const {
        u32 of = settings.place.device;
        if (!is_alone()) {
            for (of = 0; at >= block.told[of]; ++of) at -= block.told[of];
        }
        u32 vertex;
        if (of == settings.place.device) {
            vertex = list(block.filled ^ 1)[at];
            from = take_own(vertex);
        } else {
            const u64 place = told_place(of, at);
            vertex = exchange.vertices[settings.place.device][place];
            const StepValue value = exchange.values[settings.place.device][place];
            values[vertex] = value;
            make_value(key_of(value), vertex, &from);
        }
        return vertex;
    }

    // An owned vertex that is listed: what goes along its arcs.
    __device__ StepValue take_own(u32 vertex) const {
        mark_word(block.filled ^ 1, vertex) = 0;
        StepValue from;
        make_value(key_at(vertex), vertex, &from);
        return from;
    }

    // How many arcs of a row are light; if `by_key`, without those in quarters of a step that
    // surely lead from `key` beyond it.
    __device__ u32 arcs_of(u32 row, u32 key, bool by_key) const {
        if (block.end == unreached) return u32(out.offsets[row + 1] - out.offsets[row]);
        u32 quarter = StepQuarters::count - 1;
        if (by_key) {
            while (quarter > 0 && leads_beyond(key, quarter - 1)) --quarter;
        }
        return lists.lights[u64(row) * StepQuarters::count + quarter];
    }

    // Whether arcs too heavy for a quarter lead from `key` beyond the step.
    __device__ bool leads_beyond(u32 key, u32 quarter) const {
        const StepWeight delta = StepRule::weight(settings.delta);
        return StepRule::extended(key, StepQuarters::end(delta, quarter)) >= block.end;
    }

    // A warp: visits the arcs of the vertices that wait.
    __device__ void relax_waiting(StepWaiting& waiting) {
        const u64 arc = waiting.arcs > 0 ? out.offsets[row_of(waiting.vertex)] : 0;
        relax_rows<true>(arc, leave_long(arc, waiting.arcs, waiting.from), waiting.from, 0, 32);
        waiting.turn();
    }

    // Leaves a row to the block if it is long. Returns how many of its arcs are still the lane's.
    __device__ u32 leave_long(u64 arc, u32 arcs, StepValue from) {
        if (arcs <= long_arcs) return arcs;
        const u32 at = atomicAdd(&block.longs, 1);
        if (at >= most_longs) return arcs;
        block.rows[at] = {arc, from, arcs};
        return 0;
    }

    // A warp: visits, of all arcs of its lanes' rows, 32 in every `step`, from `offset` on. Returns
    // how many arcs the rows have.
    template <bool is_near>
    __device__ u32 relax_rows(u64 arc, u32 arcs, StepValue from, u32 offset, u32 step) {
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
        return spread.total;
    }

    // The whole block: the rows that its warps have left, 32 at a time spread over all of them.
    template <bool is_near>
    __device__ void relax_long_rows() {
        __syncthreads();
        const u32 rows = block.longs < most_longs ? block.longs : most_longs;
        u32 offset = threadIdx.x - lane();
#pragma unroll 1
        for (u32 base = 0; base < rows; base += 32) {
            LongRow its{};
            if (base + lane() < rows) its = block.rows[base + lane()];
            const u32 arcs = relax_rows<is_near>(its.begin, its.arcs, its.from, offset, threads);
            // The warp after the one that had the last arcs takes the next.
            offset = (offset - (arcs + 31) / 32 * 32) % threads;
        }
        __syncthreads();
        if (threadIdx.x == 0) block.longs = 0;
    }

    // On several devices always true: others need the values, and only listed vertices are told.
    __device__ bool may_lead_on(u32 key) const { return !is_alone() || leads_on(key); }

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
        // A key that was larger becomes smaller now, by this lane or by another: its vertex is news before
        // the answer comes. All accesses of one kind come before the next kind, which waits for them.
        u32 enter[at_once];
        u32 before[at_once];
#pragma unroll
        for (u32 each = 0; each < at_once; ++each) {
            enter[each] = before[each] = 0;
            if (!is_better[each]) continue;
            if (is_near) enter[each] = degree(targets[each]);
            StepValue value;
            make_value(keys[each], u32(from[each]), &value);
            before[each] = key_of(lower_value_at_once(&values[targets[each]], value));
        }
        if (!is_near) return;
#pragma unroll
        for (u32 each = 0; each < at_once; ++each)
            is_better[each] = is_better[each] && may_lead_on(keys[each]) && set_mark(targets[each]);
#pragma unroll
        for (u32 each = 0; each < at_once; ++each) {
            const bool is_new = keys[each] < before[each] && before[each] >= block.end;
            append(is_better[each], targets[each], is_new ? enter[each] : 0, may_lead_on(keys[each]));
        }
    }
};

}  // namespace millstream
