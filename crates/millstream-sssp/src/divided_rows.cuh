// Arcs that enter a device's vertices, in rows of the vertices that they leave. The twins are in
// `divided_rows.rs`.
#include "span.cuh"

namespace millstream {

// The row that has an arc.
__device__ u64 row_of(const Span<const u64>& offsets, u64 arc) {
    u64 row = 0, end = offsets.len - 1;
    while (end - row > 1) {
        const u64 middle = row + (end - row) / 2;
        (offsets[middle] <= arc ? row : end) = middle;
    }
    return row;
}

}  // namespace millstream

using namespace millstream;

// How many arcs leave each vertex.
extern "C" __global__ void count_leaving(const __grid_constant__ Span<const u32> sources,
                                         const __grid_constant__ Span<u32> counts) {
    for (u64 arc = thread_in_grid(); arc < sources.len; arc += threads_in_grid()) {
        fetch_add_relaxed_gpu(&counts[sources[arc]], 1u);
    }
}

// Puts arcs into the rows of their sources, the last place first: `counts` ends as zeros.
extern "C" __global__ void place_leaving(
    const __grid_constant__ Span<const u64> offsets, const __grid_constant__ Span<const u32> sources,
    const __grid_constant__ Span<const u32> weights, const __grid_constant__ u32 first_vertex,
    const __grid_constant__ Span<u32> counts, const __grid_constant__ Span<const u64> leaving,
    const __grid_constant__ Span<u32> targets, const __grid_constant__ Span<u32> their_weights) {
    for (u64 arc = thread_in_grid(); arc < sources.len; arc += threads_in_grid()) {
        const u32 source = sources[arc];
        const u64 place = leaving[source] + fetch_add_relaxed_gpu(&counts[source], ~0u) - 1;
        targets[place] = first_vertex + u32(row_of(offsets, arc));
        their_weights[place] = weights[arc];
    }
}
