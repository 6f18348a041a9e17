// Vertices that devices own in blocks of consecutive ids, and packets about vertices.
#pragma once

#include "span.cuh"

namespace millstream {

// First vertex of each device, and the number of vertices at the end.
struct VertexBlocks {
    Span<const u32> boundaries;

    __device__ bool owns(u32 device, u32 vertex) const {
        return vertex >= boundaries[device] && vertex < boundaries[device + 1];
    }

    // Empty blocks have equal boundaries: the last that starts here owns it.
    __device__ u32 owner(u32 vertex) const {
        u32 device = 0;
        while (device + 2 < boundaries.len && boundaries[device + 1] <= vertex) ++device;
        return device;
    }

    // The place of a vertex in its owner's block.
    __device__ u32 row(u32 device, u32 vertex) const { return vertex - boundaries[device]; }
};

// A vertex and its value on the way to another device, as Rust writes it: without
// hidden bytes.
template <class Value, bool is_wide = sizeof(Value) == 8>
struct VertexPacket {
    Value value;
    u32 vertex;
};

template <class Value>
struct VertexPacket<Value, true> {
    Value value;
    u32 vertex;
    u32 padding;
};

}  // namespace millstream
