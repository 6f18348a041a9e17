// A device's rows of arcs, and the ways to hook along them: README, "Which arcs".

namespace millstream {

struct Range {
    u32 start;
    u32 end;

    __device__ bool has(u64 vertex) const { return vertex >= start && vertex < end; }
};

// Those of the vertices from `first_vertex` on.
struct Rows {
    Span<const u64> offsets;
    Span<const u32> targets;
    u32 first_vertex;

    __device__ u64 count() const { return offsets.len - 1; }
};

// Which arcs are hooked: `Method` in `method.rs`.
enum Method : u32 { every_arc, towards_smaller, outside_hub };

// Vertices of a tile: as many as words in a block's own memory, but for a few.
constexpr u32 tile_vertices = 12256;

// The tile of `range` that a vertex is in, if it is cut into tiles.
__device__ u32 tile_of(Range range, u32 vertex) { return (vertex - range.start) / tile_vertices; }

// The parent that a vertex of `range` has at first: the target of its first arc,
// where that is smaller and in the range too.
__device__ u32 first_parent(const Rows& rows, u32 vertex, Range range) {
    const u64 row = u64(vertex) - rows.first_vertex;
    // Vertices before the first have wrapped around.
    if (row >= rows.count() || rows.offsets[row] == rows.offsets[row + 1]) return vertex;
    const u32 target = rows.targets[rows.offsets[row]];
    return target < vertex && target >= range.start ? target : vertex;
}

// Every vertex of a range becomes a tree.
__device__ void plant_all(const Span<u32>& parents, Range range) {
    for (u64 at = range.start + thread_in_grid(); at < range.end; at += threads_in_grid())
        store_relaxed_gpu(&parents[at], u32(at));
}

// Every vertex of a range gets its first parent.
__device__ void start_trees(const Rows& rows, const Span<u32>& parents, Range range) {
    for (u64 at = range.start + thread_in_grid(); at < range.end; at += threads_in_grid())
        store_relaxed_gpu(&parents[at], first_parent(rows, u32(at), Range{0, ~0u}));
}

// The trees of each tile of `range` by itself, in a block's own memory: hooked along
// all arcs that do not leave it, and compressed.
__device__ void start_tiles_of_trees(const Rows& rows, const Span<u32>& parents, Range range) {
    __shared__ u32 words[tile_vertices];
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
            const u64 row = u64(here.start + at) - rows.first_vertex;
            if (row >= rows.count()) continue;
            for (u64 arc = rows.offsets[row] + 1; arc < rows.offsets[row + 1]; ++arc) {
                const u32 target = rows.targets[arc];
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

}  // namespace millstream
