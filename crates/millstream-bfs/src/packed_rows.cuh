// Rows of a graph with few arcs a vertex, packed into 16 bytes each: one access brings
// a whole row. The twin is `packed_rows.rs`.
#include "span.cuh"

namespace millstream {

struct alignas(16) PackedRow {
    static constexpr u32 most = 4;
    static constexpr u32 none = ~0u;         // In the place of a target.
    static constexpr u32 is_long = ~0u - 1;  // In the first place: the row has more than `most`.

    u32 targets[most];
};

}  // namespace millstream

extern "C" __global__ void pack_rows(
    const __grid_constant__ millstream::Span<const millstream::u64> offsets,
    const __grid_constant__ millstream::Span<const millstream::u32> targets,
    const __grid_constant__ millstream::Span<millstream::u32> packed) {
    using namespace millstream;
    for (u64 row = thread_in_grid(); row + 1 < offsets.len; row += threads_in_grid()) {
        const u64 begin = offsets[row];
        const u64 arcs = offsets[row + 1] - begin;
        PackedRow its;
        for (u32 arc = 0; arc < PackedRow::most; ++arc)
            its.targets[arc] = arc < arcs ? targets[begin + arc] : PackedRow::none;
        if (arcs > PackedRow::most) its.targets[0] = PackedRow::is_long;
        reinterpret_cast<PackedRow*>(packed.items)[row] = its;
    }
}
