// The transpose: moves arcs from rows of the vertices that they leave into rows of those that they lead
// to. The twins are in `reversed_rows.rs`.
#include "row_index.cuh"

namespace millstream {

// Rows of the vertices from `first_vertex` on.
struct RowsToReverse {
    Span<const u64> offsets;
    Span<const u32> targets;
    Span<const u32> weights;  // Empty, or as many as targets.
    u32 first_vertex;
    u32 unused;
};

// Rows of the vertices from `first_vertex` on, and how many arcs of each row are not yet in place.
struct ReversedRows {
    Span<u64> counts;
    Span<const u64> offsets;
    Span<const u32> new_ids;  // Of all vertices, or empty.
    Span<u32> targets;
    Span<u32> weights;
    u32 first_vertex;
    u32 unused;
};

// The row of a vertex; row 0 is that of new id `first`. Vertices before it wrap around, beyond all rows.
__device__ __forceinline__ u64 row_of_vertex(u32 vertex, const Span<const u32>& new_ids, u32 first) {
    return u64(new_ids.len > 0 ? new_ids[vertex] : vertex) - first;
}

}  // namespace millstream

using namespace millstream;

// Adds how many arcs lead to each vertex that has a count: those from `first_vertex` on.
extern "C" __global__ void count_reversed(const __grid_constant__ Span<const u32> targets,
                                          const __grid_constant__ Span<const u32> new_ids,
                                          const __grid_constant__ u32 first_vertex,
                                          const __grid_constant__ Span<u64> counts) {
    for (u64 arc = thread_in_grid(); arc < targets.len; arc += threads_in_grid()) {
        const u64 row = row_of_vertex(targets[arc], new_ids, first_vertex);
        if (row < counts.len) fetch_add_relaxed_gpu(&counts[row], u64(1));
    }
}

// Puts arcs into the rows of their targets, if the targets have rows here, from each row's last place on.
extern "C" __global__ void reverse_rows(const __grid_constant__ RowsToReverse from,
                                        const __grid_constant__ ReversedRows to) {
    for_each_arc(from.offsets, from.targets.len, [&](u64 arc, u64 its_row) {
        const u64 row = row_of_vertex(from.targets[arc], to.new_ids, to.first_vertex);
        if (row >= to.counts.len) return;
        const u64 place = to.offsets[row] + (fetch_add_relaxed_gpu(&to.counts[row], ~u64(0)) - 1);
        to.targets[place] = from.first_vertex + u32(its_row);
        if (from.weights.len > 0) to.weights[place] = from.weights[arc];
    });
}

// Copies the arcs of each row into the last places of the same row of an index with more arcs.
extern "C" __global__ void keep_rows(const __grid_constant__ Span<const u64> offsets,
                                     const __grid_constant__ Span<const u32> targets,
                                     const __grid_constant__ Span<const u64> their_offsets,
                                     const __grid_constant__ Span<u32> their_targets) {
    for_each_arc(offsets, targets.len, [&](u64 arc, u64 row) {
        their_targets[their_offsets[row + 1] - (offsets[row + 1] - arc)] = targets[arc];
    });
}
