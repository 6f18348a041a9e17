// What kernels take for a buffer: where it lies and how long it is.
#pragma once

#include "grid.cuh"

namespace millstream {

template <class T>
struct Span {
    T* items;
    u64 len;

    __device__ __forceinline__ T& operator[](u64 at) const { return items[at]; }
};
static_assert(sizeof(Span<u32>) == 16, "as Rust writes it");

// One buffer for each device.
template <class T>
struct SpanSet {
    static constexpr u32 most = 16;
    Span<T> of[most];

    __device__ __forceinline__ const Span<T>& operator[](u32 device) const { return of[device]; }
};

}  // namespace millstream
