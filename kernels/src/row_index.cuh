// Which row an arc is in, for kernels that share out arcs and not rows: these differ too much in length.
#pragma once

#include "span.cuh"

namespace millstream {

// The row of `offsets` with an arc, which must be in one.
__device__ __forceinline__ u64 row_of(const Span<const u64>& offsets, u64 arc) {
    u64 row = 0, end = offsets.len - 1;
    while (end - row > 1) {
        const u64 middle = row + (end - row) / 2;
        (offsets[middle] <= arc ? row : end) = middle;
    }
    return row;
}

}  // namespace millstream
