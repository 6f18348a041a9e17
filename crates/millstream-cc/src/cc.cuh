// Connected components by hooking and pointer jumping (Ben-Nun et al., Groute, ACM
// TOPC 7(3), art. 18, 2020, section 5.1.4); the twin of `kernels.rs` and `hooking.rs`,
// whose README has the protocol.
//
// Every vertex has a parent that is not larger; a root is its own. A root is only
// ever hooked to a smaller one, by compare-and-exchange, so that a tree's root is
// its smallest vertex. Parents say nothing of other memory: all is relaxed.
#pragma once

#include "span.cuh"

namespace millstream {

struct Edge {
    u32 from;
    u32 to;
};

// The root of a vertex's tree. Halves the path on its way: whoever is not a root
// never becomes one again, and any ancestor is as good as another.
__device__ u32 find_root(const Span<u32>& parents, u32 vertex) {
    u32 parent = load_relaxed_gpu(&parents[vertex]);
    while (parent != vertex) {
        const u32 grandparent = load_relaxed_gpu(&parents[parent]);
        if (grandparent == parent) return parent;
        store_relaxed_gpu(&parents[vertex], grandparent);
        vertex = grandparent;
        parent = load_relaxed_gpu(&parents[vertex]);
    }
    return vertex;
}

__device__ void hook(const Span<u32>& parents, u32 from, u32 to) {
    for (;;) {
        from = find_root(parents, from);
        to = find_root(parents, to);
        if (from == to) return;
        const u32 larger = from > to ? from : to;
        const u32 smaller = from > to ? to : from;
        if (compare_exchange_relaxed_gpu(&parents[larger], larger, smaller) == larger) return;
    }
}

// Calls `use(item, arc)` for the arcs of one item for each lane of a warp, spread
// over its lanes.
template <class Use>
__device__ void for_each_arc(u32 item, u64 first, u64 last, Use use) {
    const u32 degree = u32(last - first);
    u32 end = degree;
    for (u32 step = 1; step < 32; step *= 2) {
        const u32 before = __shfl_up_sync(~0u, end, step);
        if (lane() >= step) end += before;
    }
    const u32 total = __shfl_sync(~0u, end, 31);
    for (u32 base = 0; base < total; base += 32) {
        const u32 at = base + lane();
        // The item whose arcs end after `at`.
        u32 owner = 0;
        for (u32 step = 16; step > 0; step /= 2) {
            const u32 ends = __shfl_sync(~0u, end, owner + step - 1);
            if (at >= ends) owner += step;
        }
        const u32 before = __shfl_sync(~0u, end - degree, owner);
        const u64 from = __shfl_sync(~0u, first, owner);
        const u32 its = __shfl_sync(~0u, item, owner);
        if (at < total) use(its, from + (at - before));
    }
}

}  // namespace millstream

using namespace millstream;

extern "C" __global__ void start(Span<u32> parents) {
    for (u64 at = thread_in_grid(); at < parents.len; at += threads_in_grid())
        store_relaxed_gpu(&parents[at], u32(at));
}

extern "C" __global__ __launch_bounds__(256, 4) void hook_rows(
    Span<const u64> offsets, Span<const u32> targets, Span<u32> parents, u32 first_vertex) {
    const u64 rows = offsets.len - 1;
    const u64 rounds = (rows + threads_in_grid() - 1) / threads_in_grid();
    u64 row = thread_in_grid();
    for (u64 round = 0; round < rounds; ++round, row += threads_in_grid()) {
        const bool is_row = row < rows;
        for_each_arc(first_vertex + u32(row), is_row ? offsets[row] : 0,
                     is_row ? offsets[row + 1] : 0,
                     [&](u32 from, u64 arc) { hook(parents, from, targets[arc]); });
    }
}

extern "C" __global__ void hook_edges(Span<const Edge> edges, Span<u32> parents) {
    for (u64 at = thread_in_grid(); at < edges.len; at += threads_in_grid()) {
        const Edge edge = edges[at];
        hook(parents, edge.from, edge.to);
    }
}

extern "C" __global__ void compress(Span<u32> parents) {
    for (u64 at = thread_in_grid(); at < parents.len; at += threads_in_grid())
        store_relaxed_gpu(&parents[at], find_root(parents, u32(at)));
}

// Pairs of a vertex from `first` on and its parent, where that is another, as many
// vertices as there is room for. `scratch` has two words that are 0 between
// kernels; the number of pairs goes to `count`, a word of the host.
extern "C" __global__ void pairs(Span<u32> parents, u32 first, Span<Edge> output,
                                 Span<u32> scratch, Span<u32> count) {
    const u64 left = parents.len - first;
    const u64 vertices = left < output.len ? left : output.len;
    const u64 rounds = (vertices + threads_in_grid() - 1) / threads_in_grid();
    u64 at = thread_in_grid();
    for (u64 round = 0; round < rounds; ++round, at += threads_in_grid()) {
        const u32 vertex = first + u32(at);
        const u32 parent = at < vertices ? load_relaxed_gpu(&parents[vertex]) : vertex;
        const bool selected = parent != vertex;
        const u32 place = append_place(&scratch[0], selected);
        if (selected) output[place] = Edge{vertex, parent};
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x != 0) return;
    // The last block to arrive has seen all that the others appended.
    if (fetch_add_acq_rel_gpu(&scratch[1], 1) == gridDim.x - 1) {
        store_release_sys(&count[0], load_relaxed_gpu(&scratch[0]));
        store_relaxed_gpu(&scratch[0], 0u);
        store_relaxed_gpu(&scratch[1], 0u);
    }
}
