// One sweep, after which the host decides. Follows `sweep.cuh`, and what makes `SweptReal` the type of
// ranks; the host's side is `sweep.rs`.

namespace millstream {

// `totals` has four words of the device that are 0 between kernels, and behind them the parts of shared
// rows; the two sums go to `report`, words of the host, as the bits of a double.
template <class Real>
__device__ void sweep_once(const SweepGraph<Real>& graph, const SweepVertices<Real>& vertices,
                           Span<const Real> given, Span<Real> gives, Span<u64> totals,
                           Span<u64> report, const SweepSettings& settings) {
    const Sweep<Real, 8, false> sweep(graph, vertices, settings, given.items, &totals[4]);
    const auto give = [&](u32, u32 row, Real share) { gives[row] = share; };
    const SweepSums<double> sums = sum_of_block(sweep.rows(Tickets{&totals[3], 0}, give));
    if (threadIdx.x != 0) return;
    atomicAdd(reinterpret_cast<double*>(&totals[0]), sums.change);
    atomicAdd(reinterpret_cast<double*>(&totals[1]), sums.dangling);
    __threadfence();
    // The last block to arrive has seen all that the others added.
    if (fetch_add_acq_rel_gpu(&totals[2], u64(1)) == gridDim.x - 1) {
        store_release_sys(&report[0], load_relaxed_gpu(&totals[0]));
        store_release_sys(&report[1], load_relaxed_gpu(&totals[1]));
        for (u32 word = 0; word < 4; ++word) store_relaxed_gpu(&totals[word], u64(0));
    }
}

extern "C" __global__ __launch_bounds__(256, 4) void sweep(
    SweepGraph<SweptReal> graph, SweepVertices<SweptReal> vertices, Span<const SweptReal> given,
    Span<SweptReal> gives, Span<u64> totals, Span<u64> report, SweepSettings settings) {
    sweep_once(graph, vertices, given, gives, totals, report, settings);
}

}  // namespace millstream
