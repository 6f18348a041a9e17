// What goes over a link after a sweep, where another device asks for a part of the vertices
// only; the twin of `halo.rs`.

#include "span.cuh"

namespace millstream {

// `vertices`: whose shares the packet has, in its order.
template <class Real>
__device__ void pack(Span<const u32> vertices, Span<const Real> gives, Span<Real> packet) {
    for (u64 at = thread_in_grid(); at < vertices.len; at += threads_in_grid())
        packet[at] = gives[vertices[at]];
}

template <class Real>
__device__ void unpack(Span<const u32> vertices, Span<const Real> packet, Span<Real> gives) {
    for (u64 at = thread_in_grid(); at < vertices.len; at += threads_in_grid())
        gives[vertices[at]] = packet[at];
}

extern "C" __global__ void pack_f32(Span<const u32> vertices, Span<const float> gives,
                                    Span<float> packet) {
    pack(vertices, gives, packet);
}

extern "C" __global__ void pack_f64(Span<const u32> vertices, Span<const double> gives,
                                    Span<double> packet) {
    pack(vertices, gives, packet);
}

extern "C" __global__ void unpack_f32(Span<const u32> vertices, Span<const float> packet,
                                      Span<float> gives) {
    unpack(vertices, packet, gives);
}

extern "C" __global__ void unpack_f64(Span<const u32> vertices, Span<const double> packet,
                                      Span<double> gives) {
    unpack(vertices, packet, gives);
}

}  // namespace millstream
