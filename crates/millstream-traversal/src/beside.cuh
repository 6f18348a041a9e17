// The vertices of other parts that arcs of a part lead to. The twin is in `beside.rs`.
#include "atomics.cuh"
#include "grid.cuh"
#include "span.cuh"

// Sets the bit of each target that is not from `first` to `end`.
extern "C" __global__ void mark_beside(const __grid_constant__ millstream::Span<const millstream::u32> targets,
                                       const __grid_constant__ millstream::u32 first,
                                       const __grid_constant__ millstream::u32 end,
                                       const __grid_constant__ millstream::Span<millstream::u32> bits) {
    using namespace millstream;
    for (u64 arc = thread_in_grid(); arc < targets.len; arc += threads_in_grid()) {
        const u32 target = targets[arc];
        if (target - first < end - first) continue;
        const u32 bit = 1u << target % 32;
        // Most bits have been set by another arc.
        if (!(load_relaxed_gpu(&bits[target / 32]) & bit)) fetch_or_relaxed_gpu(&bits[target / 32], bit);
    }
}
