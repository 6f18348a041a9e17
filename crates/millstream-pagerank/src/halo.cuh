// Packs what goes over a link after a sweep, if another device asks for only some of the
// vertices; the twin of `halo.rs`.

#include "span.cuh"

namespace millstream {

// `rows`: the rows whose shares the packet has, in this order.
template <class Real>
__device__ void pack(Span<const u32> rows, Span<const Real> gives, Span<Real> packet) {
    for (u64 at = thread_in_grid(); at < rows.len; at += threads_in_grid())
        packet[at] = gives[rows[at]];
}

extern "C" __global__ void pack_f32(Span<const u32> rows, Span<const float> gives,
                                    Span<float> packet) {
    pack(rows, gives, packet);
}

extern "C" __global__ void pack_f64(Span<const u32> rows, Span<const double> gives,
                                    Span<double> packet) {
    pack(rows, gives, packet);
}

}  // namespace millstream
