// What is found out about rows when they are uploaded. The twin is in `survey.rs`.
#include "lanes.cuh"
#include "row_index.cuh"

namespace millstream {

// Equal words have the same fingerprint, different ones hardly ever: a step of SplitMix64.
__device__ u64 fingerprint(u64 word) {
    word += 0x9E3779B97F4A7C15;
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9;
    word = (word ^ word >> 27) * 0x94D049BB133111EB;
    return word ^ word >> 31;
}

}  // namespace millstream

// `words`: the sum of the fingerprints of all arcs towards smaller vertices less those towards larger
// ones, as `imbalance` of millstream-graph gives them; the complement of the lowest target; the highest
// target and 1. Arcs may have weights.
extern "C" __global__ void survey(const __grid_constant__ millstream::Span<const millstream::u64> offsets,
                                  const __grid_constant__ millstream::Span<const millstream::u32> targets,
                                  const __grid_constant__ millstream::Span<const millstream::u32> weights,
                                  const __grid_constant__ millstream::u32 first_vertex,
                                  const __grid_constant__ millstream::Span<millstream::u64> words) {
    using namespace millstream;
    u64 sum = 0;
    u32 lowest = 0;
    u32 end = 0;
    for_each_arc(offsets, targets.len, [&](u64 arc, u64 row) {
        const u32 from = first_vertex + u32(row);
        const u32 to = targets[arc];
        u64 print = fingerprint(u64(min(from, to)) << 32 | max(from, to));
        if (weights.len > 0) print = fingerprint(print ^ weights[arc]);
        // A vertex's arc to itself is its own reverse.
        sum += from > to ? print : from < to ? 0 - print : 0;
        lowest = max(lowest, ~to);
        end = max(end, to + 1);
    });
    __syncwarp();
    for (u32 step = 16; step > 0; step /= 2) {
        sum += __shfl_xor_sync(~0u, sum, step);
        lowest = max(lowest, __shfl_xor_sync(~0u, lowest, step));
        end = max(end, __shfl_xor_sync(~0u, end, step));
    }
    if (lane() != 0 || end == 0) return;
    fetch_add_relaxed_gpu(&words[0], sum);
    fetch_max_relaxed_gpu(&words[1], u64(lowest));
    fetch_max_relaxed_gpu(&words[2], u64(end));
}
