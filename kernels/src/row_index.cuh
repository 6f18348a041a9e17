// Arcs with the rows that they are in, for kernels that divide arcs among warps, not rows: rows differ too
// much in length.
#pragma once

#include "span.cuh"

namespace millstream {

// The last row that begins at an arc or before, searched from row `first` on, which does.
__device__ __forceinline__ u64 row_of(const Span<const u64>& offsets, u64 first, u64 arc) {
    u64 row = first, step = 1;
    // Often the same or the next one.
    while (row + step + 1 < offsets.len && offsets[row + step] <= arc) {
        row += step;
        step *= 2;
    }
    for (step /= 2; step > 0; step /= 2) {
        if (row + step + 1 < offsets.len && offsets[row + step] <= arc) row += step;
    }
    return row;
}

// Calls `use(arc, row)` for all arcs of all rows: each warp has a range of consecutive arcs.
template <class Use>
__device__ __forceinline__ void for_each_arc(const Span<const u64>& offsets, u64 arcs, const Use& use) {
    const u64 warps = threads_in_grid() / 32, warp = thread_in_grid() / 32;
    const u64 share = (arcs + 32 * warps - 1) / (32 * warps) * 32;
    const u64 begin = warp * share;
    const u64 end = begin + share < arcs ? begin + share : arcs;
    u64 row = 0;
    for (u64 arc = begin + threadIdx.x % 32; arc < end; arc += 32) {
        row = row_of(offsets, row, arc);
        use(arc, row);
    }
}

}  // namespace millstream
