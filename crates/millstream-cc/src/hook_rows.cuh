// Hooking along rows: README, "Which arcs".

namespace millstream {

// Arcs that the thread of a row visits itself: often they are all, or enough.
constexpr u32 few = 4;

// Hooks along rows, but for those of members; by the method `outside_hub` until they are in the
// hub's tree. `shared` is a `SharedArcs`, used once.
__device__ void hook_along_rows(const Rows& rows, const Span<u32>& parents, u32 method, u32 hub,
                                const Members& members, const Span<u64>& shared) {
    const SharedArcs<u32> shared_arcs{shared};
    HubTree hub_tree{parents, hub};
    const auto visit = [&](bool is_arc, u64 arc, u32 from) {
        if (!is_arc) return;
        const u32 target = rows.targets[arc];
        hook(parents, from, members.has(target) ? hub : target);
    };
    const u64 rounds = (rows.count() + threads_in_grid() - 1) / threads_in_grid();
    u64 row = thread_in_grid();
    for (u64 round = 0; round < rounds; ++round, row += threads_in_grid()) {
        const u32 vertex = rows.first_vertex + u32(row);
        const bool is_row = row < rows.count() && !members.has(vertex);
        u64 first = is_row ? rows.offsets[row] : 0;
        u64 last = is_row ? rows.offsets[row + 1] : 0;
        for (u32 visited = 0; first < last; ++visited, ++first) {
            if (method == outside_hub && hub_tree.has(vertex)) last = first;
            if (visited == few || first == last) break;
            visit(true, first, vertex);
        }
        if (last - first >= shared_arcs.many && shared_arcs.add(first, last, vertex))
            first = last;
        if (__any_sync(~0u, first < last)) SpreadArcs<u32>(first, last, vertex).for_each(visit);
    }
    shared_arcs.for_each([&](u64 first, u64 last, u32 from) {
        for (u64 arc = first + lane(); arc < last; arc += 32) visit(true, arc, from);
    });
}

}  // namespace millstream
