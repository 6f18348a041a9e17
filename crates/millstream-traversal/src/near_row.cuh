// Rows of a graph with few arcs a vertex, packed into 32 bytes each: one access brings targets and
// weights. Without weights (`MILLSTREAM_ROW_WEIGHS` is 0) 16 do. The twin is `pack_near_rows.rs`.
//
// Vertices are given by their *places* on a device: those that it owns come first, in
// ascending order, then those of its halo.
#pragma once

#include "span.cuh"

namespace millstream {

struct alignas(16) NearRow {
    static constexpr u32 most = 4;
    static constexpr u32 special = 1u << 31;  // Targets are smaller.
    static constexpr u32 none = ~0u;          // In the place of a target.
    // In the first place and the last, if there are more arcs than `most`; between them
    static constexpr u32 is_long = ~0u - 1;
    static constexpr u32 long_begin = 1;  // where they are among all long rows' arcs,
    static constexpr u32 long_arcs = 2;   // and how many, both marked as special.

    u32 targets[most];
#if MILLSTREAM_ROW_WEIGHS
    u32 weights[most];  // Their bits.
#endif

    __device__ u32 weight(u32 arc) const {
#if MILLSTREAM_ROW_WEIGHS
        return weights[arc];
#else
        return 1;
#endif
    }
};
static_assert(sizeof(NearRow) == (MILLSTREAM_ROW_WEIGHS ? 32 : 16), "as Rust writes it");

}  // namespace millstream
