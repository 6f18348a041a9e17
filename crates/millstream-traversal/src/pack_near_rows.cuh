// Packs rows: `NearRow`. `PackWeight` is the type of the weights, if there are any.

#include "lanes.cuh"

namespace millstream {

struct PackedArcs {
    Span<u32> rows;          // `NearRow`s.
    Span<u32> long_targets;
    Span<u32> long_weights;
    Span<u32> long_arcs;     // One word: how many places of long rows' arcs are taken.
};

struct PackSettings {
    u32 first;  // Owned vertices: from here
    u32 end;    // to there.
    u32 place;  // Of the first row.
    u32 padding;
};

__device__ inline u32 bits_of(u32 weight) { return weight; }
__device__ inline u32 bits_of(float weight) { return __float_as_uint(weight); }

// The place of a target; `none` if it is neither owned nor in the halo.
__device__ inline u32 place_of(const PackSettings& settings, const Span<const u32>& halo,
                               u32 target) {
    if (target >= settings.first && target < settings.end) return target - settings.first;
    u32 low = 0;
    for (u32 high = u32(halo.len); low < high;) {
        const u32 middle = low + (high - low) / 2;
        if (halo[middle] < target) low = middle + 1; else high = middle;
    }
    const bool is_near = low < halo.len && halo[low] == target;
    return is_near ? settings.end - settings.first + low : NearRow::none;
}

__device__ inline void set(NearRow& row, u32 at, u32 target, const Span<const PackWeight>& weights,
                           u64 arc) {
    row.targets[at] = target;
#if MILLSTREAM_ROW_WEIGHS
    row.weights[at] = bits_of(weights[arc]);
#endif
}

}  // namespace millstream

extern "C" __global__ void pack_near_rows(
    const __grid_constant__ millstream::Span<const millstream::u64> offsets,
    const __grid_constant__ millstream::Span<const millstream::u32> targets,
    const __grid_constant__ millstream::Span<const PackWeight> weights,
    const __grid_constant__ millstream::Span<const millstream::u32> halo,
    const __grid_constant__ millstream::PackedArcs packed,
    const __grid_constant__ millstream::PackSettings settings) {
    using namespace millstream;
    NearRow* const rows = reinterpret_cast<NearRow*>(packed.rows.items) + settings.place;
    const u64 count = offsets.len - 1;
    for (u64 base = thread_in_grid() - lane(); base < count; base += threads_in_grid()) {
        const u64 row = base + lane();
        const bool exists = row < count;
        const u64 begin = exists ? offsets[row] : 0, end = exists ? offsets[row + 1] : 0;
        u32 arcs = 0;
        for (u64 arc = begin; arc < end; ++arc) {
            const u32 place = place_of(settings, halo, targets[arc]);
            if (place == NearRow::none) continue;
            if (arcs < NearRow::most) set(rows[row], arcs, place, weights, arc);
            ++arcs;
        }
        for (u32 place = arcs; exists && place < NearRow::most; ++place)
            rows[row].targets[place] = NearRow::none;
        // Long rows of a warp lie side by side, as their vertices do.
        const u32 its_long = arcs > NearRow::most ? arcs : 0;
        const u32 behind = prefix_sum(its_long);
        u32 first = 0;
        // The kernel's end publishes what is there.
        if (lane() == 31 && behind > 0) first = fetch_add_relaxed_gpu(&packed.long_arcs[0], behind);
        u32 at = __shfl_sync(~0u, first, 31) + behind - its_long;
        if (its_long == 0) continue;
        NearRow& its = rows[row];
        its.targets[0] = its.targets[NearRow::most - 1] = NearRow::is_long;
        its.targets[NearRow::long_begin] = at | NearRow::special;
        its.targets[NearRow::long_arcs] = arcs | NearRow::special;
        for (u64 arc = begin; arc < end; ++arc) {
            const u32 place = place_of(settings, halo, targets[arc]);
            if (place == NearRow::none) continue;
#if MILLSTREAM_ROW_WEIGHS
            packed.long_weights[at] = bits_of(weights[arc]);
#endif
            packed.long_targets[at++] = place;
        }
    }
}
