// Connected components by hooking and pointer jumping (Ben-Nun et al., Groute, ACM
// TOPC 7(3), art. 18, 2020, section 5.1.4); the twin of `kernels.rs` and `hooking.rs`,
// whose README has the protocol.
//
// Every vertex has a parent that is not larger; a root is its own. A root is only
// ever hooked to a smaller one, by compare-and-exchange, so that a tree's root is
// its smallest vertex. Parents say nothing of other memory: all is relaxed.
#pragma once

#include "shared_arcs.cuh"
#include "spread_arcs.cuh"

namespace millstream {

struct Edge {
    u32 from;
    u32 to;
};

struct Range {
    u32 start;
    u32 end;
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

// The root of a vertex's tree, when nobody hooks. Only looks on its way: a path
// halved beside compression could put an ancestor that is no root in place of a root
// written before.
__device__ u32 look_for_root(const Span<u32>& parents, u32 vertex) {
    for (u32 parent; (parent = load_relaxed_gpu(&parents[vertex])) != vertex;) vertex = parent;
    return vertex;
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

// A device's rows of arcs: those of the vertices from `first_vertex` on.
struct Rows {
    Span<const u64> offsets;
    Span<const u32> targets;
    u32 first_vertex;

    __device__ u64 count() const { return offsets.len - 1; }
};

// Whose arcs are hooked, and which: `Method` in `method.rs`.
enum Method : u32 { every_arc, towards_smaller, outside_hub };

__device__ bool are_together(const Span<u32>& parents, u32 one, u32 other) {
    return find_root(parents, one) == find_root(parents, other);
}

// The parent that a vertex of `range` has at first: the target of its first arc,
// where that is smaller and in the range too.
__device__ u32 first_parent(const Rows& rows, u32 vertex, Range range) {
    const u64 row = u64(vertex) - rows.first_vertex;
    // Vertices before the first have wrapped around.
    if (row >= rows.count() || rows.offsets[row] == rows.offsets[row + 1]) return vertex;
    const u32 target = rows.targets[rows.offsets[row]];
    return target < vertex && target >= range.start ? target : vertex;
}

// Vertices of a tile: as many as words in a block's own memory.
constexpr u32 tile_vertices = 12288;

// The tile of `range` that a vertex is in, if it is cut into tiles.
__device__ u32 tile_of(Range range, u32 vertex) { return (vertex - range.start) / tile_vertices; }

}  // namespace millstream

using namespace millstream;

extern "C" __global__ void start(Span<const u64> offsets, Span<const u32> targets,
                                 u32 first_vertex, Span<u32> parents, Range range) {
    const Rows rows{offsets, targets, first_vertex};
    for (u64 at = range.start + thread_in_grid(); at < range.end; at += threads_in_grid())
        store_relaxed_gpu(&parents[at], first_parent(rows, u32(at), Range{0, ~0u}));
}

// The trees of each tile of `range` by itself, in a block's own memory: hooked along
// all arcs that do not leave it, and compressed.
extern "C" __global__ __launch_bounds__(1024, 2) void start_tiles(
    Span<const u64> offsets, Span<const u32> targets, u32 first_vertex, Span<u32> parents,
    Range range) {
    __shared__ u32 words[tile_vertices];
    const Rows rows{offsets, targets, first_vertex};
    const u64 stride = u64(gridDim.x) * tile_vertices;
    for (u64 base = range.start + u64(blockIdx.x) * tile_vertices; base < range.end;
         base += stride) {
        const u32 left = range.end - u32(base);
        const u32 size = left < tile_vertices ? left : tile_vertices;
        const Range here{u32(base), u32(base) + size};
        const Span<u32> tile{words, size};
        for (u32 at = threadIdx.x; at < size; at += blockDim.x)
            tile[at] = first_parent(rows, here.start + at, here) - here.start;
        __syncthreads();
        for (u32 at = threadIdx.x; at < size; at += blockDim.x)
            store_relaxed_gpu(&tile[at], look_for_root(tile, at));
        __syncthreads();
        for (u32 at = threadIdx.x; at < size; at += blockDim.x) {
            const u64 row = u64(here.start + at) - first_vertex;
            if (row >= rows.count()) continue;
            for (u64 arc = offsets[row] + 1; arc < offsets[row + 1]; ++arc) {
                const u32 target = targets[arc];
                if (target < here.start + at && target >= here.start)
                    hook(tile, at, target - here.start);
            }
        }
        __syncthreads();
        for (u32 at = threadIdx.x; at < size; at += blockDim.x)
            store_relaxed_gpu(&parents[base + at], here.start + look_for_root(tile, at));
        __syncthreads();
    }
}

// Hooks along the second arc of the rows of a range.
extern "C" __global__ void sample(Span<const u64> offsets, Span<const u32> targets,
                                  u32 first_vertex, Span<u32> parents, Range range) {
    for (u64 row = range.start + thread_in_grid(); row < range.end; row += threads_in_grid()) {
        const u64 second = offsets[row] + 1;
        if (second < offsets[row + 1]) hook(parents, first_vertex + u32(row), targets[second]);
    }
}

// Arcs that the thread of a row visits itself: often they are all, or enough.
constexpr u32 few = 4;

// `range` has been cut into tiles if the method is `towards_smaller`; `shared` is a
// `SharedArcs`, used once.
extern "C" __global__ __launch_bounds__(256, 4) void hook_rows(
    Span<const u64> offsets, Span<const u32> targets, u32 first_vertex, Span<u32> parents,
    Range range, u32 method, u32 hub, Span<u64> shared) {
    const Rows rows{offsets, targets, first_vertex};
    const SharedArcs<u32> shared_arcs{shared};
    const auto visit = [&](bool is_arc, u64 arc, u32 from) {
        if (!is_arc) return;
        const u32 target = targets[arc];
        const bool is_wanted = method != towards_smaller ||
                               (target < from && tile_of(range, target) != tile_of(range, from));
        if (is_wanted) hook(parents, from, target);
    };
    const u64 rounds = (rows.count() + threads_in_grid() - 1) / threads_in_grid();
    u64 row = thread_in_grid();
    for (u64 round = 0; round < rounds; ++round, row += threads_in_grid()) {
        const bool is_row = row < rows.count();
        const u32 vertex = first_vertex + u32(row);
        u64 first = is_row ? offsets[row] : 0;
        u64 last = is_row ? offsets[row + 1] : 0;
        for (u32 visited = 0; first < last; ++visited, ++first) {
            if (method == outside_hub && are_together(parents, vertex, hub)) last = first;
            if (visited == few || first == last) break;
            visit(true, first, vertex);
        }
        if (last - first >= shared_arcs.many && shared_arcs.add(first, last, vertex))
            first = last;
        if (__any_sync(~0u, first < last)) SpreadArcs<u32>(first, last, vertex).for_each(visit);
    }
    shared_arcs.for_each(visit);
}

extern "C" __global__ void hook_edges(Span<const Edge> edges, Span<u32> parents) {
    for (u64 at = thread_in_grid(); at < edges.len; at += threads_in_grid()) {
        const Edge edge = edges[at];
        hook(parents, edge.from, edge.to);
    }
}

// Four vertices a thread, whose ways are in flight together.
extern "C" __global__ void compress(Span<u32> parents) {
    constexpr u32 most = 4;
    const u64 stride = threads_in_grid() * most;
    for (u64 first = thread_in_grid() * most; first < parents.len; first += stride) {
        if (first + most > parents.len) {
            for (u64 at = first; at < parents.len; ++at)
                store_relaxed_gpu(&parents[at], look_for_root(parents, u32(at)));
            return;
        }
        u32 roots[most];
        load_four_relaxed_gpu(&parents[first], roots);
        for (bool goes_on = true; goes_on;) {
            goes_on = false;
            u32 next[most];
            // Old ones lead to the root as well.
            for (u32 at = 0; at < most; ++at) next[at] = load_relaxed_cta(&parents[roots[at]]);
            for (u32 at = 0; at < most; ++at) {
                goes_on |= next[at] != roots[at];
                roots[at] = next[at];
            }
        }
        store_four_relaxed_gpu(&parents[first], roots);
    }
}

// A number that is the same for equal pairs, and hardly ever for others.
__device__ u64 fingerprint(u32 from, u32 to) {
    u64 word = (u64(from) << 32 | to) + 0x9E3779B97F4A7C15;
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9;
    word = (word ^ word >> 27) * 0x94D049BB133111EB;
    return word ^ word >> 31;
}

// `words`: the sum of the fingerprints of all arcs less those of their reverses; the
// complement of the lowest target; the highest target and 1.
extern "C" __global__ void survey(Span<const u64> offsets, Span<const u32> targets,
                                  u32 first_vertex, Span<u64> words) {
    const Rows rows{offsets, targets, first_vertex};
    const u64 rounds = (rows.count() + threads_in_grid() - 1) / threads_in_grid();
    u64 row = thread_in_grid();
    u64 sum = 0;
    u32 lowest = 0;
    u32 end = 0;
    for (u64 round = 0; round < rounds; ++round, row += threads_in_grid()) {
        const bool is_row = row < rows.count();
        const u64 first = is_row ? offsets[row] : 0;
        const u64 last = is_row ? offsets[row + 1] : 0;
        SpreadArcs<u32>(first, last, first_vertex + u32(row))
            .for_each([&](bool is_arc, u64 arc, u32 from) {
                if (!is_arc) return;
                const u32 to = targets[arc];
                sum += fingerprint(from, to) - fingerprint(to, from);
                lowest = ~to > lowest ? ~to : lowest;
                end = to + 1 > end ? to + 1 : end;
            });
    }
    for (u32 step = 16; step > 0; step /= 2) {
        sum += __shfl_xor_sync(~0u, sum, step);
        lowest = max(lowest, __shfl_xor_sync(~0u, lowest, step));
        end = max(end, __shfl_xor_sync(~0u, end, step));
    }
    if (lane() != 0 || end == 0) return;
    fetch_add_relaxed_gpu(&words[0], sum);
    fetch_max_relaxed_gpu(&words[1], u64(lowest));
    fetch_max_relaxed_gpu(&words[2], u64(end));
}

// Hooks along the pairs of a vertex of `range` and its parent on another device,
// which is finished; adds the number of pairs to `merged`.
extern "C" __global__ void merge(Span<u32> parents, Span<u32> others, Range range,
                                 Span<u32> merged) {
    u32 pairs = 0;
    for (u64 at = range.start + thread_in_grid(); at < range.end; at += threads_in_grid()) {
        const u32 parent = load_relaxed_sys(&others[at]);
        if (parent == at) continue;
        hook(parents, u32(at), parent);
        ++pairs;
    }
    for (u32 step = 16; step > 0; step /= 2) pairs += __shfl_xor_sync(~0u, pairs, step);
    if (lane() == 0 && pairs > 0) fetch_add_relaxed_gpu(&merged[0], pairs);
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
