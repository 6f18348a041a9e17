// Rows of a graph with few arcs a vertex, packed into 16 bytes each: one access brings
// a whole row. The twin is `packed_rows.rs`.
#include "span.cuh"

namespace millstream {

struct alignas(16) PackedRow {
    static constexpr u32 most = 4;
    static constexpr u32 none = ~0u;         // In the place of a target.
    static constexpr u32 is_long = ~0u - 1;  // In the first place, if there are more than `most`:
    static constexpr u32 long_begin = 1;     // where they are among all long rows' targets,
    static constexpr u32 long_arcs = 2;      // and how many.

    u32 targets[most];
};

struct PackedRows {
    Span<u32> rows;
    Span<u32> long_targets;
    Span<u32> long_arcs;  // One word: how many of them are taken.
};

struct PackSettings {
    u32 first;     // Owned vertices, as in `LevelDevice`.
    u32 end;
    u32 vertices;  // Ids from here on are those of the halo.
    u32 place;     // Of the first row among the packed.
};

// What a packed row has for a target: itself if it is owned, `vertices` and its place if it
// is in the halo, else nothing.
__device__ inline u32 near_id(const PackSettings& settings, const Span<const u32>& halo,
                              u32 target) {
    if (target >= settings.first && target < settings.end) return target;
    u32 low = 0;
    for (u32 high = u32(halo.len); low < high;) {
        const u32 middle = low + (high - low) / 2;
        if (halo[middle] < target) low = middle + 1; else high = middle;
    }
    return low < halo.len && halo[low] == target ? settings.vertices + low : PackedRow::none;
}

}  // namespace millstream

extern "C" __global__ void pack_rows(
    const __grid_constant__ millstream::Span<const millstream::u64> offsets,
    const __grid_constant__ millstream::Span<const millstream::u32> targets,
    const __grid_constant__ millstream::Span<const millstream::u32> halo,
    const __grid_constant__ millstream::PackedRows packed,
    const __grid_constant__ millstream::PackSettings settings) {
    using namespace millstream;
    for (u64 row = thread_in_grid(); row + 1 < offsets.len; row += threads_in_grid()) {
        u32* const its = &packed.rows[PackedRow::most * (settings.place + row)];
        const u64 end = offsets[row + 1];
        u32 arcs = 0;
        for (u64 arc = offsets[row]; arc < end; ++arc) {
            const u32 id = near_id(settings, halo, targets[arc]);
            if (id == PackedRow::none) continue;
            if (arcs < PackedRow::most) its[arcs] = id;
            ++arcs;
        }
        for (u32 place = arcs; place < PackedRow::most; ++place) its[place] = PackedRow::none;
        if (arcs <= PackedRow::most) continue;
        // The kernel's end publishes what is there.
        const u32 begin = fetch_add_relaxed_gpu(&packed.long_arcs[0], arcs);
        its[0] = PackedRow::is_long;
        its[PackedRow::long_begin] = begin;
        its[PackedRow::long_arcs] = arcs;
        u32 place = begin;
        for (u64 arc = offsets[row]; arc < end; ++arc) {
            const u32 id = near_id(settings, halo, targets[arc]);
            if (id != PackedRow::none) packed.long_targets[place++] = id;
        }
    }
}
