// Packs rows: `NearRow`. `PackWeight` is the type of the weights, if there are any.

namespace millstream {

struct PackedArcs {
    Span<u32> rows;          // `NearRow`s.
    Span<u32> long_targets;
    Span<u32> long_weights;
    Span<u32> long_arcs;     // One word: how many of them are taken.
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
    for (u64 row = thread_in_grid(); row + 1 < offsets.len; row += threads_in_grid()) {
        const u64 end = offsets[row + 1];
        NearRow& its = rows[row];
        u32 arcs = 0;
        for (u64 arc = offsets[row]; arc < end; ++arc) {
            const u32 place = place_of(settings, halo, targets[arc]);
            if (place == NearRow::none) continue;
            if (arcs < NearRow::most) set(its, arcs, place, weights, arc);
            ++arcs;
        }
        for (u32 place = arcs; place < NearRow::most; ++place) its.targets[place] = NearRow::none;
        if (arcs > NearRow::most) {
            // The kernel's end publishes what is there.
            u32 at = fetch_add_relaxed_gpu(&packed.long_arcs[0], arcs);
            its.targets[0] = its.targets[NearRow::most - 1] = NearRow::is_long;
            its.targets[NearRow::long_begin] = at | NearRow::special;
            its.targets[NearRow::long_arcs] = arcs | NearRow::special;
            for (u64 arc = offsets[row]; arc < end; ++arc) {
                const u32 place = place_of(settings, halo, targets[arc]);
                if (place == NearRow::none) continue;
#if MILLSTREAM_ROW_WEIGHS
                packed.long_weights[at] = bits_of(weights[arc]);
#endif
                packed.long_targets[at++] = place;
            }
        }
    }
}
