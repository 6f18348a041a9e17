// Each vertex's hub: of the other vertices that its row names, the one with the most arcs. The twin
// is in `hubs.rs`.
#include "lanes.cuh"
#include "span.cuh"

extern "C" __global__ void find_hubs(
    const __grid_constant__ millstream::Span<const millstream::u64> offsets,
    const __grid_constant__ millstream::Span<const millstream::u32> targets,
    const __grid_constant__ millstream::Span<const millstream::u32> degrees,
    const __grid_constant__ millstream::Span<millstream::u32> hubs,
    const __grid_constant__ millstream::u32 first) {
    using namespace millstream;
    for (u64 row = thread_in_grid() / 32; row < hubs.len; row += threads_in_grid() / 32) {
        // Degrees in the upper half, so that the largest wins; of equal ones, the first vertex.
        u64 best = 0;
        const u64 end = offsets[row + 1];
        for (u64 arc = offsets[row] + lane(); arc < end; arc += 32) {
            const u32 target = targets[arc];
            const u64 its = u64(degrees[target]) << 32 | ~target;
            if (its > best && target != first + row) best = its;
        }
        for (u32 step = 16; step > 0; step /= 2) {
            const u64 other = __shfl_xor_sync(~0u, best, step);
            if (other > best) best = other;
        }
        if (lane() == 0) hubs[row] = best == 0 ? first + u32(row) : ~u32(best);
    }
}
