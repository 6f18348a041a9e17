// One sweep of PageRank by pulling: every vertex adds up what its predecessors
// give; the twin of `sweep.rs`. Rows of the transposed graph are taken by a thread,
// a warp or a block each, as long as they are: `order` has short rows first.
#pragma once

#include "span.cuh"

namespace millstream {

template <class Real>
struct SweepGraph {
    Span<const u64> offsets;
    Span<const u32> sources;
    // Empty if arcs count once each.
    Span<const Real> weights;
    Span<const u32> order;
};

template <class Real>
struct SweepVertices {
    // 0 for a vertex that no step leaves along an arc.
    Span<const Real> inverse_row_weights;
    // What comes from nowhere.
    Span<const Real> teleport;
};

struct SweepSettings {
    double damping;
    // What every vertex gets of the dangling ones.
    double base;
    // Places in `order` where rows for warps and for blocks begin.
    u32 first_warp_row;
    u32 first_block_row;
};

struct SweepSums {
    double change;
    double dangling;
};

template <class Real>
__device__ Real sum_of_arcs(const SweepGraph<Real>& graph, const Span<const Real>& given,
                            u64 first, u64 last, u32 step) {
    Real sum = 0;
    for (u64 arc = first; arc < last; arc += step) {
        const Real share = given[graph.sources[arc]];
        sum += graph.weights.len ? share * graph.weights[arc] : share;
    }
    return sum;
}

template <class Real>
__device__ void settle(const SweepVertices<Real>& vertices, Span<Real> ranks, Span<Real> gives,
                       const SweepSettings& settings, u32 row, Real sum, SweepSums& sums) {
    const Real rank = sum + vertices.teleport[row] + Real(settings.base);
    const double change = double(rank) - double(ranks[row]);
    sums.change += change < 0 ? -change : change;
    if (vertices.inverse_row_weights[row] == 0) sums.dangling += double(rank);
    ranks[row] = rank;
    gives[row] = Real(settings.damping) * rank * vertices.inverse_row_weights[row];
}

// `totals` has three words of the device that are 0 between kernels; the two sums
// go to `report`, words of the host, as the bits of a double.
template <class Real>
__device__ void sweep(const SweepGraph<Real>& graph, const SweepVertices<Real>& vertices,
                      Span<const Real> given, Span<Real> ranks, Span<Real> gives,
                      Span<u64> totals, Span<u64> report, const SweepSettings& settings) {
    SweepSums sums{0, 0};
    const u32 rows = u32(graph.order.len);
    // Long rows first: they take longest.
    __shared__ Real parts[32];
    for (u32 at = settings.first_block_row + blockIdx.x; at < rows; at += gridDim.x) {
        const u32 row = graph.order[at];
        Real sum = sum_of_arcs(graph, given, graph.offsets[row] + threadIdx.x,
                               graph.offsets[row + 1], blockDim.x);
        for (u32 step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
        if (lane() == 0) parts[threadIdx.x / 32] = sum;
        __syncthreads();
        if (threadIdx.x == 0) {
            sum = 0;
            for (u32 warp = 0; warp < blockDim.x / 32; ++warp) sum += parts[warp];
            settle(vertices, ranks, gives, settings, row, sum, sums);
        }
        __syncthreads();
    }
    const u32 warps = u32(threads_in_grid() / 32);
    for (u32 at = settings.first_warp_row + u32(thread_in_grid() / 32);
         at < settings.first_block_row; at += warps) {
        const u32 row = graph.order[at];
        Real sum = sum_of_arcs(graph, given, graph.offsets[row] + lane(),
                               graph.offsets[row + 1], 32);
        for (u32 step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
        if (lane() == 0) settle(vertices, ranks, gives, settings, row, sum, sums);
    }
    for (u64 at = thread_in_grid(); at < settings.first_warp_row; at += threads_in_grid()) {
        const u32 row = graph.order[at];
        const Real sum =
            sum_of_arcs(graph, given, graph.offsets[row], graph.offsets[row + 1], 1);
        settle(vertices, ranks, gives, settings, row, sum, sums);
    }
    for (u32 step = 16; step > 0; step /= 2) {
        sums.change += __shfl_xor_sync(~0u, sums.change, step);
        sums.dangling += __shfl_xor_sync(~0u, sums.dangling, step);
    }
    if (lane() == 0) {
        atomicAdd(reinterpret_cast<double*>(&totals[0]), sums.change);
        atomicAdd(reinterpret_cast<double*>(&totals[1]), sums.dangling);
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x != 0) return;
    // The last block to arrive has seen all that the others added.
    if (fetch_add_acq_rel_gpu(&totals[2], u64(1)) == gridDim.x - 1) {
        store_release_sys(&report[0], load_relaxed_gpu(&totals[0]));
        store_release_sys(&report[1], load_relaxed_gpu(&totals[1]));
        for (u32 word = 0; word < 3; ++word) store_relaxed_gpu(&totals[word], u64(0));
    }
}

#define MILLSTREAM_SWEEP(entry, Real)                                                      \
    extern "C" __global__ __launch_bounds__(256, 4) void entry(                            \
        SweepGraph<Real> graph, SweepVertices<Real> vertices, Span<const Real> given,      \
        Span<Real> ranks, Span<Real> gives, Span<u64> totals, Span<u64> report,            \
        SweepSettings settings) {                                                          \
        sweep(graph, vertices, given, ranks, gives, totals, report, settings);             \
    }

MILLSTREAM_SWEEP(sweep_f32, float)
MILLSTREAM_SWEEP(sweep_f64, double)

}  // namespace millstream
