// One sweep of PageRank by pulling: every vertex adds up what its predecessors give;
// the twin of `sweep.rs`. Rows of the transposed graph lie as `sliced_rows.rs` says.
#pragma once

#include "span.cuh"

namespace millstream {

// In the place of a source where there is none.
constexpr u32 no_source = ~0u;

template <class Real>
struct SweepGraph {
    // Where the arcs of each long row and then of each slice begin, and the end.
    Span<const u64> offsets;
    Span<const u32> sources;
    // Empty if arcs count once each.
    Span<const Real> weights;
};

// Of the owned vertices.
template <class Real>
struct SweepVertices {
    // What the arcs weigh that leave; 0 for a vertex that no step leaves.
    Span<const Real> row_weights;
    // What comes from nowhere; empty if the same for all, and in `base`.
    Span<const Real> teleport;
};

struct SweepSettings {
    double damping;
    // What every vertex gets from nowhere and of the dangling ones.
    double base;
    u32 first_vertex;
    // Rows for blocks are the first, then come those for warps, then slices.
    u32 block_rows;
    u32 long_rows;
    u32 padding;
};

struct SweepSums {
    double change;
    double dangling;
};

// What is read once in a sweep leaves the cache first.
__device__ __forceinline__ u32 load_once(const u32* place) { return __ldcs(place); }
__device__ __forceinline__ float load_once(const float* place) { return __ldcs(place); }
__device__ __forceinline__ double load_once(const double* place) { return __ldcs(place); }

template <class Real>
struct Sweep {
    // Arcs that a thread has in flight.
    static constexpr u32 loads = 8;

    const SweepGraph<Real>& graph;
    const SweepVertices<Real>& vertices;
    const SweepSettings& settings;
    // What the vertices of all devices give.
    const Real* given;

    // `give(item, row, share)` tells what a row gives from now on, in groups of threads
    // with the same item.
    template <class Give>
    __device__ __forceinline__ SweepSums rows(const Give& give) const {
        SweepSums sums{0, 0};
        __shared__ Real parts[32];
        // Long rows first: they take longest.
        for (u32 row = blockIdx.x; row < settings.block_rows; row += gridDim.x) {
            const Real part = sum_of_warp(sum_of_arcs(row, threadIdx.x, blockDim.x));
            if (lane() == 0) parts[threadIdx.x / 32] = part;
            __syncthreads();
            if (threadIdx.x < 32) {
                const Real sum = sum_of_warp(lane() < blockDim.x / 32 ? parts[lane()] : Real(0));
                if (lane() == 0) settle(row, row, before(row), sum, give, sums);
            }
            __syncthreads();
        }
        const u32 items = u32(graph.offsets.len) - 1;
        const u32 warps = u32(threads_in_grid() / 32);
        u32 item = settings.block_rows + u32(thread_in_grid() / 32);
        for (; item < settings.long_rows; item += warps) {
            const Real sum = sum_of_warp(sum_of_arcs(item, lane(), 32));
            if (lane() == 0) settle(item, item, before(item), sum, give, sums);
        }
        for (; item < items; item += warps) {
            const u32 row = settings.long_rows + (item - settings.long_rows) * 32 + lane();
            const bool exists = row < vertices.row_weights.len;
            // On its way while the arcs are.
            const Before known = exists ? before(row) : Before{0, 0};
            const Real sum = sum_of_arcs(item, lane(), 32);
            if (exists) settle(item, row, known, sum, give, sums);
        }
        return sums;
    }

   private:
    struct Before {
        Real share;
        Real row_weight;
    };

    __device__ __forceinline__ Before before(u32 row) const {
        return Before{given[settings.first_vertex + row], load_once(&vertices.row_weights[row])};
    }

    __device__ __forceinline__ Real share(u32 source) const {
        return source == no_source ? Real(0) : given[source];
    }

    __device__ __forceinline__ void load(u32 (&sources)[loads], u64 at, u64 last, u32 step) const {
#pragma unroll
        for (u32 each = 0; each < loads; ++each) {
            const u64 arc = at + u64(each) * step;
            sources[each] = arc < last ? load_once(&graph.sources[arc]) : no_source;
        }
    }

    // Every `step`th arc of an item.
    __device__ __forceinline__ Real sum_of_arcs(u32 item, u32 first, u32 step) const {
        const u64 last = graph.offsets[item + 1];
        u64 at = graph.offsets[item] + first;
        Real sum = 0;
        for (; at < last; at += u64(loads) * step) {
            u32 sources[loads];
            load(sources, at, last, step);
            Real shares[loads];
#pragma unroll
            for (u32 each = 0; each < loads; ++each) shares[each] = share(sources[each]);
            if (graph.weights.len != 0) {
#pragma unroll
                for (u32 each = 0; each < loads; ++each) {
                    if (sources[each] == no_source) continue;
                    shares[each] *= load_once(&graph.weights[at + u64(each) * step]);
                }
            }
#pragma unroll
            for (u32 each = 0; each < loads; ++each) sum += shares[each];
        }
        return sum;
    }

    __device__ __forceinline__ static Real sum_of_warp(Real sum) {
        for (u32 step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
        return sum;
    }

    // Of a vertex without arcs nobody asks what it gives: its rank is kept there.
    template <class Give>
    __device__ __forceinline__ void settle(u32 item, u32 row, Before known, Real sum,
                                           const Give& give, SweepSums& sums) const {
        Real rank = Real(settings.damping) * sum + Real(settings.base);
        if (vertices.teleport.len != 0) rank += vertices.teleport[row];
        const bool dangles = known.row_weight == 0;
        const Real old = dangles ? known.share : known.share * known.row_weight;
        const double change = double(rank) - double(old);
        sums.change += change < 0 ? -change : change;
        if (dangles) sums.dangling += double(rank);
        give(item, row, dangles ? rank : rank / known.row_weight);
    }
};

// The sums of a block, in its first thread.
__device__ inline SweepSums sum_of_block(SweepSums sums) {
    __shared__ SweepSums parts[32];
    const auto of_warp = [](SweepSums sums) {
        for (u32 step = 16; step > 0; step /= 2) {
            sums.change += __shfl_xor_sync(~0u, sums.change, step);
            sums.dangling += __shfl_xor_sync(~0u, sums.dangling, step);
        }
        return sums;
    };
    const SweepSums part = of_warp(sums);
    if (lane() == 0) parts[threadIdx.x / 32] = part;
    __syncthreads();
    if (threadIdx.x >= 32) return part;
    return of_warp(lane() < blockDim.x / 32 ? parts[lane()] : SweepSums{0, 0});
}

// `totals` has three words of the device that are 0 between kernels; the two sums
// go to `report`, words of the host, as the bits of a double.
template <class Real>
__device__ void sweep_once(const SweepGraph<Real>& graph, const SweepVertices<Real>& vertices,
                           Span<const Real> given, Span<Real> gives, Span<u64> totals,
                           Span<u64> report, const SweepSettings& settings) {
    const Sweep<Real> sweep{graph, vertices, settings, given.items};
    const auto give = [&](u32, u32 row, Real share) { gives[row] = share; };
    const SweepSums sums = sum_of_block(sweep.rows(give));
    if (threadIdx.x != 0) return;
    atomicAdd(reinterpret_cast<double*>(&totals[0]), sums.change);
    atomicAdd(reinterpret_cast<double*>(&totals[1]), sums.dangling);
    __threadfence();
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
        Span<Real> gives, Span<u64> totals, Span<u64> report, SweepSettings settings) {    \
        sweep_once(graph, vertices, given, gives, totals, report, settings);               \
    }

MILLSTREAM_SWEEP(sweep_f32, float)
MILLSTREAM_SWEEP(sweep_f64, double)

}  // namespace millstream
