// Trees of vertices that any number of threads hook together; the twin of
// `hooking.rs`, whose README has the protocol.
//
// Every vertex has a parent that is not larger; a root is its own. A root is only
// ever hooked to a smaller one, by compare-and-exchange, so that a tree's root is
// its smallest vertex. Parents say nothing of other memory: all is relaxed.
#pragma once

#include "shared_arcs.cuh"
#include "spread_arcs.cuh"

namespace millstream {

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

// The roots of vertices' trees, when nobody hooks: all ways are in flight together.
// Only looks on its way: a path halved beside labelling could put an ancestor that is
// no root in place of a root written before. A multiprocessor's own cache may answer,
// since an old parent leads to the root as well.
template <u32 count>
__device__ void look_for_roots(const Span<u32>& parents, u32 (&vertices)[count]) {
    for (bool goes_on = true; goes_on;) {
        goes_on = false;
        u32 next[count];
#pragma unroll
        for (u32 at = 0; at < count; ++at) next[at] = load_relaxed_cta(&parents[vertices[at]]);
#pragma unroll
        for (u32 at = 0; at < count; ++at) {
            goes_on |= next[at] != vertices[at];
            vertices[at] = next[at];
        }
    }
}

__device__ u32 look_for_root(const Span<u32>& parents, u32 vertex) {
    u32 vertices[] = {vertex};
    look_for_roots(parents, vertices);
    return vertices[0];
}

// Makes the trees of two vertices one.
__device__ void hook(const Span<u32>& parents, u32 from, u32 to) {
    for (;;) {
        from = find_root(parents, from);
        to = find_root(parents, to);
        if (from == to) return;
        const u32 larger = from > to ? from : to;
        const u32 smaller = from > to ? to : from;
        const u32 before = compare_exchange_relaxed_gpu(&parents[larger], larger, smaller);
        if (before == larger) return;
        // Another thread's hook: go on from there.
        from = before;
        to = smaller;
    }
}

// The tree of one vertex, the hub. A root that it once had is in it for good.
struct HubTree {
    const Span<u32>& parents;
    u32 hub;
    u32 root = ~0u;

    // Whether a vertex is in it for sure.
    __device__ bool has(u32 vertex) {
        const u32 its = find_root(parents, vertex);
        if (its != root) root = find_root(parents, hub);
        return its == root;
    }
};

}  // namespace millstream
