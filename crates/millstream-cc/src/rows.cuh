// A device's rows of arcs, and the ways to hook along them: README, "Which arcs".

namespace millstream {

struct Range {
    u32 start;
    u32 end;

    __device__ bool has(u64 vertex) const { return vertex >= start && vertex < end; }
};

// The rows of the vertices from `first_vertex` on.
struct Rows {
    Span<const u64> offsets;
    Span<const u32> targets;
    u32 first_vertex;

    __device__ u64 count() const { return offsets.len - 1; }

    // Vertices before the first wrap around.
    __device__ bool has(u32 vertex) const { return u64(vertex) - first_vertex < count(); }
};

// Which arcs are hooked: `Method` in `method.rs`.
enum Method : u32 { every_arc, towards_smaller, outside_hub };

// The parent that a vertex has at first: the target of its first arc, where that is smaller.
__device__ u32 first_parent(const Rows& rows, u32 vertex) {
    if (!rows.has(vertex)) return vertex;
    const u32 row = vertex - rows.first_vertex;
    if (rows.offsets[row] == rows.offsets[row + 1]) return vertex;
    const u32 target = rows.targets[rows.offsets[row]];
    return target < vertex ? target : vertex;
}

// Every vertex becomes a tree.
__device__ void plant_all(const Span<u32>& parents) {
    for (u64 at = thread_in_grid() * 4; at < parents.len; at += threads_in_grid() * 4) {
        const u32 vertex = u32(at);
        store_some(parents, at, parents.len - at,
                   Quad{{vertex, vertex + 1, vertex + 2, vertex + 3}});
    }
}

// Every vertex of a range gets its first parent.
__device__ void start_trees(const Rows& rows, const Span<u32>& parents, Range range) {
    for (u64 at = range.start + thread_in_grid(); at < range.end; at += threads_in_grid())
        store_relaxed_gpu(&parents[at], first_parent(rows, u32(at)));
}

// The part of a row that a lane looks at first.
struct RowStart {
    // Arcs whose targets are here, and the most arcs of a row that is hooked arc by arc.
    static constexpr u32 few = 4;
    static constexpr u32 most = 32;

    u64 first = 0;
    // `most` + 1 if there are more than `most`.
    u32 arcs = 0;
    // `~0u` where there is no arc, or if the row is long.
    u32 targets[few];

    __device__ __forceinline__ bool is_long() const { return arcs > most; }

    // For several rows, `find` all, then `read` all: so their loads are in flight together.
    __device__ __forceinline__ void find(const u64* offsets, u64 row) {
        first = offsets[row];
        const u64 all = offsets[row + 1] - first;
        arcs = all > most ? most + 1 : u32(all);
    }
    __device__ __forceinline__ void read(const Rows& rows) {
        const u32 end = is_long() ? 0 : arcs;
#pragma unroll
        for (u32 at = 0; at < few; ++at) targets[at] = at < end ? rows.targets[first + at] : ~0u;
    }
    // Whether lanes share the arcs after the first few of this row and of its warp's other rows.
    __device__ __forceinline__ bool is_wide() const { return arcs > 3 * few && !is_long(); }
};

}  // namespace millstream
