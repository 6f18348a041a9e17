// A vertex and its value on the way to another device.
#pragma once

#include "span.cuh"

namespace millstream {

// As Rust writes it: without hidden padding.
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
