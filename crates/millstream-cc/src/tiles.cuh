// Trees of tiles, in shared memory: README, "Tiles".

namespace millstream {

// The parents of a tile's vertices, all given by their places in the tile.
struct TileParents {
    u32* words;
};

__device__ __forceinline__ u32 parent_of(const TileParents& parents, u32 vertex) {
    return load_relaxed_shared(parents.words + vertex);
}

__device__ __forceinline__ void shorten(const TileParents& parents, u32 vertex, u32 ancestor) {
    store_relaxed_shared(parents.words + vertex, ancestor);
}

__device__ __forceinline__ u32 hook_root(const TileParents& parents, u32 root, u32 smaller) {
    return compare_exchange_relaxed_shared(parents.words + root, root, smaller);
}

// How a range of vertices is cut into tiles, and which vertices have arcs that leave their
// tile: what `start_tiles` tells `hook_leaving`.
struct Leaving {
    // Vertices of a tile, then a bit for each vertex of the range.
    u32* words;

    __device__ u32& tile() const { return words[0]; }
    __device__ u32& of(u32 word) const { return words[1 + word]; }
};

// Threads of a block that starts tiles.
constexpr u32 tile_threads = 1024;

// Vertices of a tile, such that all blocks have equally many tiles, and a tile fits into
// shared memory; a multiple of 32.
__device__ u32 tile_vertices(u32 vertices) {
    const u64 most = u64(dynamic_shared_bytes() / sizeof(u32) / 32 * 32) * gridDim.x;
    const u64 rounds = vertices == 0 ? 1 : (vertices + most - 1) / most;
    const u64 tiles = rounds * gridDim.x;
    return u32((vertices + tiles - 1) / tiles + 31) / 32 * 32;
}

// One tile.
struct Tile {
    const Rows& rows;
    const TileParents& parents;
    WarpEdges<TileParents>& edges;
    // Where the longest rows go: all warps of `hook_leaving` take pieces of them.
    const SharedArcs<u32>& shared_arcs;
    // Its first vertex.
    u32 start;

    // Hooks 32 vertices, one for each lane at its place `at`, along arcs to smaller ones of the
    // tile, except arcs of long rows. True if the lane's row has arcs left, to a smaller one.
    __device__ bool hook_rows(u32 at, const RowStart& row) const {
        // Targets before the tile wrap around, to places after all others.
        u32 to[RowStart::few];
        const u32 before = at > 0 ? at - 1 : 0;
        bool is_next = false;
#pragma unroll
        for (u32 arc = 0; arc < RowStart::few; ++arc) {
            to[arc] = row.targets[arc] - start;
            is_next |= to[arc] == before;
        }
        const u32 low = min(to[0], to[1]), high = min(to[2], to[3]);
        const u32 least = min(low, high);
        const u32 second = min(max(low, high), min(max(to[0], to[1]), max(to[2], to[3])));
        bool leaves = max(max(to[0], to[1]), max(to[2], to[3])) > ~start;

        // Consecutive vertices, each with an arc to the one before, are a chain: its first is the parent.
        const u32 below = (1u << lane()) - 1;
        const u32 firsts = ~__ballot_sync(~0u, is_next) | 1;
        const u32 first = 31 - __clz(firsts & (below << 1 | 1));
        const u32 root = at - lane() + first;
        const u32 parent = lane() > 0 ? root : before;
        const bool is_lost = is_next && hook_root(parents, at, parent) != at;

        const bool is_up = least < before;
        hook_chain(is_up, least, root, first);
        const bool has_more = second < before || row.arcs > RowStart::few;
        if (__any_sync(~0u, is_lost || has_more)) {
            edges.add(is_lost, at, parent);
#pragma unroll
            for (u32 arc = 0; arc < RowStart::few; ++arc)
                edges.add(to[arc] < before && to[arc] != least, at, to[arc]);
            leaves |= hook_others(at, row);
        }
        return leaves;
    }

   private:
    // Hooks chains, whose first lanes and roots are given, to the vertices that lanes name. The
    // first lane of a chain that names one makes it the root's parent; later lanes whose vertex has
    // the same grandparent as that of the last lane before them that names one need not hook.
    __device__ void hook_chain(bool is_up, u32 to, u32 root, u32 first) const {
        // Closer to the root.
        if (is_up) to = above(to);
        const u32 below = __ballot_sync(~0u, is_up) & ((1u << lane()) - 1);
        const int last = 31 - __clz(below);
        const u32 its = __shfl_sync(~0u, to, last & 31);
        const bool leads = last < int(first);
        bool is_left = is_up && (leads || its != to);
        if (is_left && leads && to < root) is_left = hook_root(parents, root, to) != root;
        edges.add(is_left, root, to);
    }

    // The parent's parent of a vertex.
    __device__ u32 above(u32 at) const { return parent_of(parents, parent_of(parents, at)); }

    // Hooks along the arcs after the first few, unless the row is long. True if any arc is left.
    __device__ bool hook_others(u32 at, const RowStart& row) const {
        bool leaves = row.is_long() && !share(at, row);
        if (__any_sync(~0u, row.is_wide())) return hook_wide(at, row) || leaves;
        const u32 end = row.is_long() ? 0 : row.arcs;
        for (u32 arc = RowStart::few; __any_sync(~0u, arc < end); ++arc) {
            const u32 target = arc < end ? rows.targets[row.first + arc] : ~0u;
            leaves |= target < start;
            edges.add(target - start < at, at, target - start);
        }
        return leaves;
    }

    // The same for rows of which one is wide: lanes share their arcs.
    __device__ bool hook_wide(u32 at, const RowStart& row) const {
        constexpr u32 at_once = 2;
        const bool is_more = row.arcs > RowStart::few && !row.is_long();
        const u64 first = row.first + (is_more ? RowStart::few : 0);
        const SpreadArcs<u32> others(first, is_more ? row.first + row.arcs : first, at);
        u32 leaving = 0;
        for (u32 base = 0; base < others.total; base += at_once * 32) {
            u32 from[at_once];
            u32 to[at_once];
#pragma unroll
            for (u32 each = 0; each < at_once; ++each) {
                const auto place = others[base + each * 32 + lane()];
                from[each] = place.state;
                to[each] = place.is_arc ? rows.targets[place.arc] - start : from[each];
            }
#pragma unroll
            for (u32 each = 0; each < at_once; ++each) {
                // A vertex's bit in the warp's word is that of its lane.
                if (to[each] > ~start) leaving |= 1u << from[each] % 32;
                // Most arcs would join a tree with itself, which mostly shows two steps up from both ends.
                const bool is_arc = to[each] < from[each];
                edges.add(is_arc && above(from[each]) != above(to[each]), from[each], to[each]);
            }
        }
        return __reduce_or_sync(~0u, leaving) >> lane() & 1;
    }

    // Shares a row if it has enough arcs and there is room. True if it was shared.
    __device__ bool share(u32 at, const RowStart& row) const {
        const u64 last = rows.offsets[u64(start) + at - rows.first_vertex + 1];
        return last - row.first >= shared_arcs.many &&
               shared_arcs.add(row.first, last, start + at);
    }
};

// Hooks along the arcs of a tile of `size` vertices that stay in it.
__device__ void hook_in_tile(const Tile& tile, u32 size, u32* leaving) {
    constexpr u32 at_once = 2;
    const Rows& rows = tile.rows;
    // Vertices of other devices have no rows here; those before the first wrap around.
    const u64 first_row = u64(tile.start) - rows.first_vertex;
    const u64 count = rows.count();
    for (u32 warp = threadIdx.x - lane(); warp < size; warp += at_once * blockDim.x) {
        RowStart starts[at_once];
#pragma unroll
        for (u32 item = 0; item < at_once; ++item) {
            const u32 at = warp + item * blockDim.x + lane();
            const u64 row = first_row + at;
            if (at < size && row < count) starts[item].find(rows.offsets.items, row);
        }
#pragma unroll
        for (u32 item = 0; item < at_once; ++item) starts[item].read(rows);
#pragma unroll
        for (u32 item = 0; item < at_once; ++item) {
            const u32 at = warp + item * blockDim.x + lane();
            if (at - lane() >= size) break;
            const u32 bits = __ballot_sync(~0u, tile.hook_rows(at, starts[item]));
            if (lane() == 0) leaving[at / 32] = bits;
        }
    }
    tile.edges.hook_rest();
}

// Makes the roots of a tile's vertices their parents in the device's memory.
__device__ void write_roots(const Span<u32>& parents, const u32* words, u32 start, u32 size) {
    for (u32 at = threadIdx.x * 4; at < size; at += blockDim.x * 4) {
        // Nobody hooks any more. Places after the last vertex are their own parents.
        uint4 roots = *reinterpret_cast<const uint4*>(words + at);
        for (bool goes_on = true; goes_on;) {
            const uint4 next{words[roots.x], words[roots.y], words[roots.z], words[roots.w]};
            goes_on = next.x != roots.x || next.y != roots.y || next.z != roots.z ||
                      next.w != roots.w;
            roots = next;
        }
        store_some(parents, start + at, size - at,
                   Quad{{start + roots.x, start + roots.y, start + roots.z, start + roots.w}});
    }
}

// Builds the trees of each tile of `range` by itself: hooked along all arcs that do not leave
// it, except those of long rows, and compressed. `range` begins at a multiple of 32.
__device__ void start_tiles_of_trees(const Rows& rows, const Span<u32>& parents, Range range,
                                     const Leaving& leaving, const Span<u64>& shared) {
    extern __shared__ uint4 quads[];
    __shared__ Edge room[tile_threads / 32 * WarpEdges<TileParents>::most];
    u32* const words = reinterpret_cast<u32*>(quads);
    const TileParents own{words};
    WarpEdges<TileParents> edges{own, room + threadIdx.x / 32 * WarpEdges<TileParents>::most};
    const SharedArcs<u32> shared_arcs{shared};
    const u32 vertices = range.end - range.start;
    const u32 most = tile_vertices(vertices);
    if (thread_in_grid() == 0) leaving.tile() = most;
    const u64 stride = u64(gridDim.x) * most;
    for (u64 base = u64(blockIdx.x) * most; base < vertices; base += stride) {
        const u32 size = vertices - base < most ? u32(vertices - base) : most;
        const u32 start = range.start + u32(base);
        for (u32 at = threadIdx.x; at * 4 < size; at += blockDim.x)
            quads[at] = uint4{at * 4, at * 4 + 1, at * 4 + 2, at * 4 + 3};
        __syncthreads();
        hook_in_tile(Tile{rows, own, edges, shared_arcs, start}, size, &leaving.of(u32(base) / 32));
        __syncthreads();
        write_roots(parents, words, start, size);
        __syncthreads();
    }
}

}  // namespace millstream
