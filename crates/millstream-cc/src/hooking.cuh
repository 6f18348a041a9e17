// Trees of vertices that any number of threads hook together; the twin of
// `hooking.rs`, whose README has the protocol.
//
// Every vertex has a parent that is not larger; a root is its own. A root is only
// ever hooked to a smaller one, by compare-and-exchange, so that a tree's root is
// its smallest vertex. Parents say nothing of other memory: all is relaxed.
#pragma once

#include "filter.cuh"
#include "shared_arcs.cuh"
#include "spread_arcs.cuh"

namespace millstream {

// Parents are in the device's memory, as here, or in shared memory (`tiles.cuh`).
__device__ u32 parent_of(const Span<u32>& parents, u32 vertex) {
    return load_relaxed_gpu(&parents[vertex]);
}

__device__ void shorten(const Span<u32>& parents, u32 vertex, u32 ancestor) {
    store_relaxed_gpu(&parents[vertex], ancestor);
}

// Returns the parent that the root had: itself, if it is now hooked to `smaller`.
__device__ u32 hook_root(const Span<u32>& parents, u32 root, u32 smaller) {
    return compare_exchange_relaxed_gpu(&parents[root], root, smaller);
}

// The root of a vertex's tree. Halves the path on its way: whoever is not a root
// never becomes one again, and any ancestor is as good as another.
__device__ u32 find_root(const Span<u32>& parents, u32 vertex) {
    u32 parent = parent_of(parents, vertex);
    while (parent != vertex) {
        const u32 grandparent = parent_of(parents, parent);
        if (grandparent == parent) return parent;
        shorten(parents, vertex, grandparent);
        vertex = grandparent;
        parent = parent_of(parents, vertex);
    }
    return vertex;
}

// The roots of vertices' trees, when nobody hooks: all paths are followed at once. Only
// reads: halving a path beside labelling could put an ancestor that is no root in place
// of a root written before. A multiprocessor's own cache may answer, since an old parent
// leads to the root as well.
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

// The roots of two vertices' trees, both paths followed at once; or an ancestor of both.
template <class Parents>
__device__ void find_roots(const Parents& parents, u32& from, u32& to) {
    u32 next_from = parent_of(parents, from);
    u32 next_to = parent_of(parents, to);
    while ((next_from != from || next_to != to) && next_from != next_to) {
        const u32 after_from = parent_of(parents, next_from);
        const u32 after_to = parent_of(parents, next_to);
        if (after_from != next_from) shorten(parents, from, after_from);
        if (after_to != next_to) shorten(parents, to, after_to);
        from = next_from;
        to = next_to;
        next_from = after_from;
        next_to = after_to;
    }
    from = next_from;
    to = next_to;
}

// Makes the trees of two vertices one.
template <class Parents>
__device__ void hook(const Parents& parents, u32 from, u32 to) {
    for (;;) {
        find_roots(parents, from, to);
        if (from == to) return;
        const u32 larger = from > to ? from : to;
        const u32 smaller = from > to ? to : from;
        const u32 before = hook_root(parents, larger, smaller);
        if (before == larger) return;
        // Another thread's hook: go on from there.
        from = before;
        to = smaller;
    }
}

// Writes the first `room` of four words, at a multiple of four; all four if `room` is larger.
__device__ void store_some(const Span<u32>& words, u64 at, u64 room, Quad quad) {
    if (room >= 4) return store_relaxed_gpu(reinterpret_cast<Quad*>(&words[at]), quad);
#pragma unroll
    for (u32 item = 0; item < 3; ++item)
        if (item < room) store_relaxed_gpu(&words[at + item], quad.words[item]);
}

// An edge between vertices.
struct Edge {
    u32 from;
    u32 to;
};

// Edges that the lanes of a warp have put together, hooked 32 at a time: else lanes whose hooks
// take long would hold up lanes without any.
template <class Parents>
struct WarpEdges {
    // Edges that a warp has room for in shared memory.
    static constexpr u32 most = 64;

    const Parents& parents;
    Edge* edges;
    u32 count = 0;

    // All lanes together, as below.
    __device__ __forceinline__ void add(bool is_edge, u32 from, u32 to) {
        const u32 chosen = __ballot_sync(~0u, is_edge);
        if (chosen == 0) return;
        if (is_edge) edges[count + __popc(chosen & ((1u << lane()) - 1))] = Edge{from, to};
        count += __popc(chosen);
        if (count >= 32) hook_first(32);
    }

    __device__ void hook_rest() { hook_first(count); }

   private:
    // Hooks 32 of them, or all.
    __device__ void hook_first(u32 some) {
        __syncwarp();
        if (lane() < some) hook(parents, edges[lane()].from, edges[lane()].to);
        count -= some;
        __syncwarp();
        if (lane() < count) edges[lane()] = edges[32 + lane()];
        __syncwarp();
    }
};

// The tree of one vertex, the hub. A root that it once had stays in the tree for good.
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
