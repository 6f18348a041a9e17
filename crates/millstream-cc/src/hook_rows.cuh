// Hooking along rows: README, "Which arcs".

namespace millstream {

// Hooks along rows, except those of members; with the method `outside_hub`, along a row until its
// vertex is in the hub's tree.
template <class Parents>
class RowHooks {
   public:
    // `shared` is a `SharedArcs`, used once.
    __device__ RowHooks(const Rows& rows, const Parents& parents, u32 method, u32 hub,
                        const Members& members, const Span<u64>& shared)
        : rows(rows), parents(parents), method(method), members(members), shared_arcs{shared},
          hub_tree{parents, hub} {}

    // A row for each lane. All lanes together.
    __device__ void hook_rows(bool is_row, u64 row) {
        const u32 vertex = rows.first_vertex + u32(row);
        u64 first = is_row ? rows.offsets[row] : 0;
        u64 last = is_row ? rows.offsets[row + 1] : 0;
        for (u32 visited = 0; first < last; ++visited, ++first) {
            if (method == outside_hub && hub_tree.has(vertex)) last = first;
            if (visited == few || first == last) break;
            visit(true, first, vertex);
        }
        if (last - first >= shared_arcs.many && shared_arcs.add(first, last, vertex))
            first = last;
        if (__any_sync(~0u, first < last))
            SpreadArcs<u32>(first, last, vertex).for_each([&](bool is_arc, u64 arc, u32 from) {
                visit(is_arc, arc, from);
            });
    }

    // Then the arcs of rows that are too long for a warp.
    __device__ void hook_shared_arcs() {
        shared_arcs.for_each([&](u64 first, u64 last, u32 from) {
            for (u64 arc = first + lane(); arc < last; arc += 32) visit(true, arc, from);
        });
    }

   private:
    // Arcs that the thread of a row visits itself: often they are all, or enough.
    static constexpr u32 few = 4;

    __device__ void visit(bool is_arc, u64 arc, u32 from) const {
        if (!is_arc) return;
        const u32 target = rows.targets[arc];
        hook(parents, from, members.has(target) ? hub_tree.hub : target);
    }

    const Rows& rows;
    const Parents& parents;
    const u32 method;
    const Members& members;
    const SharedArcs<u32> shared_arcs;
    HubTree hub_tree;
};

// Hooks along all rows.
template <class Parents>
__device__ void hook_along_rows(const Rows& rows, RowHooks<Parents>& hooks) {
    const u64 rounds = (rows.count() + threads_in_grid() - 1) / threads_in_grid();
    u64 row = thread_in_grid();
    for (u64 round = 0; round < rounds; ++round, row += threads_in_grid())
        hooks.hook_rows(row < rows.count(), row);
    hooks.hook_shared_arcs();
}

// Hooks along the rows of vertices that are no members.
template <class Parents>
__device__ void hook_along_open_rows(const Rows& rows, const Span<u32>& hubs,
                                     const Members& members, u32* list,
                                     RowHooks<Parents>& hooks) {
    constexpr u32 words = OpenVertices::words;
    const u32 end = rows.first_vertex + u32(rows.count());
    OpenVertices open(list, hubs, rows.first_vertex, members, Range{rows.first_vertex, end});
    for (u64 first = rows.first_vertex / 32 + thread_in_grid() / 32 * words; first * 32 < end;
         first += threads_in_grid() / 32 * words) {
        open.read(first);
#pragma unroll
        for (u32 at = 0; at < words; ++at)
            open.add(open.is_open[at], u32(first + at) * 32 + lane());
        open.for_each([&](bool is_vertex, u32 vertex) {
            hooks.hook_rows(is_vertex, vertex - rows.first_vertex);
        });
    }
    hooks.hook_shared_arcs();
}

}  // namespace millstream
