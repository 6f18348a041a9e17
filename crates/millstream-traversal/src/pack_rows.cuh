// Packs the rows of a graph's part; the twin of `packed.rs`.
#pragma once

#include "packed_rows.cuh"

using millstream::u32;
using millstream::u64;

// Weights as they lie in memory, or none; `words` of a row in `packed`.
extern "C" __global__ void pack_rows(millstream::Span<const u64> offsets,
                                     millstream::Span<const u32> targets,
                                     millstream::Span<const u32> weights, u32 words,
                                     millstream::Span<u32> packed) {
    for (u64 row = millstream::thread_in_grid(); row + 1 < offsets.len;
         row += millstream::threads_in_grid()) {
        const u64 first = offsets[row];
        const u64 arcs = offsets[row + 1] - first;
        const bool is_long = arcs > millstream::row_arcs;
        u32* const to = &packed[row * words];
        for (u32 place = 0; place < millstream::row_arcs; ++place) {
            const bool has = !is_long && place < arcs;
            to[place] = is_long ? millstream::long_row
                                : has ? targets[first + place] : millstream::no_vertex;
            if (words > millstream::row_arcs) {
                to[millstream::row_arcs + place] = has ? weights[first + place] : 0;
            }
        }
    }
}
