// Copies words: consecutive ones, from random places or to random places.
#include "span.cuh"
using namespace millstream;

// A permutation of the words, unless their number is a multiple of this prime.
__device__ __forceinline__ u64 scattered(u64 at, u64 len) { return (at * 2654435761u) % len; }

extern "C" __global__ void access(Span<const u32> from, Span<u32> to, u32 how) {
    for (u64 at = thread_in_grid(); at < to.len; at += threads_in_grid()) {
        const u64 elsewhere = how == 0 ? at : scattered(at, to.len);
        if (how == 2) to[elsewhere] = from[at];
        else to[at] = from[elsewhere];
    }
}
