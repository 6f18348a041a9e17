// Arcs the other way round: from rows of the vertices that they leave into rows of those that they lead
// to. The twins are in `reversed_rows.rs`.
#include "row_index.cuh"

namespace millstream {

// Rows of the vertices from some on.
struct RowsToReverse {
    Span<const u64> offsets;
    Span<const u32> targets;
    Span<const u32> weights;  // None, or as many.
    u32 first_vertex;
    u32 unused;
};

// Rows of the vertices from some on, and how many arcs each of these has that are not in their place.
struct ReversedRows {
    Span<u64> counts;
    Span<const u64> offsets;
    Span<const u32> new_ids;  // Of all vertices, or none.
    Span<u32> targets;
    Span<u32> weights;
    u32 first_vertex;
    u32 unused;
};

// The row of a vertex, the first being that of a vertex `first` by its new id. Those before it are beyond all rows.
__device__ __forceinline__ u64 row_of_vertex(u32 vertex, const Span<const u32>& new_ids, u32 first) {
    return u64(new_ids.len > 0 ? new_ids[vertex] : vertex) - first;
}

}  // namespace millstream

using namespace millstream;

// Adds how many arcs lead to each of the vertices from some on that there are counts for.
extern "C" __global__ void count_reversed(const __grid_constant__ Span<const u32> targets,
                                          const __grid_constant__ Span<const u32> new_ids,
                                          const __grid_constant__ u32 first_vertex,
                                          const __grid_constant__ Span<u64> counts) {
    for (u64 arc = thread_in_grid(); arc < targets.len; arc += threads_in_grid()) {
        const u64 row = row_of_vertex(targets[arc], new_ids, first_vertex);
        if (row < counts.len) fetch_add_relaxed_gpu(&counts[row], u64(1));
    }
}

// Puts arcs into the rows of their targets, where these have rows, the last place first.
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

// Puts the arcs of rows into the last places of rows that have more.
extern "C" __global__ void keep_rows(const __grid_constant__ Span<const u64> offsets,
                                     const __grid_constant__ Span<const u32> targets,
                                     const __grid_constant__ Span<const u64> their_offsets,
                                     const __grid_constant__ Span<u32> their_targets) {
    for_each_arc(offsets, targets.len, [&](u64 arc, u64 row) {
        their_targets[their_offsets[row + 1] - (offsets[row + 1] - arc)] = targets[arc];
    });
}
