// Connected components by hooking and pointer jumping (Ben-Nun et al., Groute, ACM
// TOPC 7(3), art. 18, 2020, section 5.1.4): what the host launches step by step. The twin
// of `kernels.rs`; follows all other files but `cc_gang.cuh`.

using namespace millstream;

extern "C" __global__ void start(Span<const u64> offsets, Span<const u32> targets,
                                 u32 first_vertex, Span<u32> parents, Range range) {
    start_trees(Rows{offsets, targets, first_vertex}, parents, range);
}

extern "C" __global__ __launch_bounds__(tile_threads, 1) void start_tiles(
    Span<const u64> offsets, Span<const u32> targets, u32 first_vertex, Span<u32> parents,
    Range range, Span<u32> leaving, Span<u64> shared) {
    start_tiles_of_trees(Rows{offsets, targets, first_vertex}, parents, range,
                         Leaving{leaving.items}, shared);
}

extern "C" __global__ __launch_bounds__(256, 5) void hook_leaving(
    Span<const u64> offsets, Span<const u32> targets, u32 first_vertex, Span<u32> parents,
    Range range, Span<u32> leaving, Span<u64> shared) {
    hook_leaving_arcs<256>(Rows{offsets, targets, first_vertex}, parents, range,
                           Leaving{leaving.items}, shared);
}

extern "C" __global__ __launch_bounds__(256, 4) void hook_rows(
    Span<const u64> offsets, Span<const u32> targets, u32 first_vertex, Span<u32> parents,
    u32 method, u32 hub, Span<u64> shared) {
    const Rows rows{offsets, targets, first_vertex};
    const SpanSet<u32> none{};
    const Members members{none, 0, 0};
    RowHooks<Span<u32>> hooks(rows, parents, method, hub, members, shared);
    hook_along_rows(rows, hooks);
}

extern "C" __global__ void hook_edges(Span<const Edge> edges, Span<u32> parents) {
    for (u64 at = thread_in_grid(); at < edges.len; at += threads_in_grid()) {
        const Edge edge = edges[at];
        hook(parents, edge.from, edge.to);
    }
}

extern "C" __global__ void hook_sent(Span<const u32> words, Span<u32> parents, Span<u64> hooked) {
    const SentRows rows{words};
    for_each_sent_arc(rows, [&](u32 from, u32 to) { hook(parents, from, to); });
    if (thread_in_grid() == 0) fetch_add_relaxed_gpu(&hooked[0], rows.arcs());
}

// Appends pairs of a vertex and its parent, where these differ, for as many vertices
// from `first` on as there is room for. `scratch` has two words that are 0 between
// kernels; the number of pairs goes to `count`, a word of the host.
extern "C" __global__ void pairs(Span<u32> parents, u32 first, Span<Edge> output,
                                 Span<u32> scratch, Span<u32> count) {
    const u64 left = parents.len - first;
    const u64 vertices = left < output.len ? left : output.len;
    append_selected(vertices, output, scratch, count, [&](u64 at, Edge& pair) {
        const u32 vertex = first + u32(at);
        pair = Edge{vertex, load_relaxed_gpu(&parents[vertex])};
        return pair.from != pair.to;
    });
}

// Makes the root of every vertex its parent, when all hooks are over.
extern "C" __global__ void compress(Span<u32> parents) {
    const Range all{0, u32(parents.len)};
    const auto itself = [](u32 vertex) { return vertex; };
    for_each_root(parents, all, itself, [&](u32 vertex, bool is_vertex, u32 root) {
        if (is_vertex) store_relaxed_gpu(&parents[vertex], root);
    });
}
