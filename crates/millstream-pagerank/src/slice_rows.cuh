// Rows of arcs, put into slices by the GPU that has them: see `slices.rs`. Weights are
// converted to `SlicedReal`.
#include "lanes.cuh"
#include "span.cuh"

namespace millstream {

struct SliceSettings {
    u32 long_rows;  // Rows before the first slice: they stay as they are.
    u32 is_real;    // Weights are bits of reals, not integers.
};

enum : u32 { no_source = ~0u };

// A part's rows.
struct SlicedArcs {
    Span<const u64> offsets;
    Span<const u32> sources;
    Span<const u32> weights;  // Empty, or as many as sources.
};

// Where long rows and slices begin, and the end; what is in them.
struct ArcsInSlices {
    Span<const u64> offsets;
    Span<u32> sources;
    Span<SlicedReal> weights;
};

// Copies an arc, or stores padding.
__device__ void put(const SlicedArcs& from, const ArcsInSlices& to, u64 place, bool is_arc, u64 arc,
                    bool is_real) {
    to.sources[place] = is_arc ? from.sources[arc] : no_source;
    if (from.weights.len == 0) return;
    const u32 bits = is_arc ? from.weights[arc] : 0;
    to.weights[place] = is_real ? SlicedReal(__uint_as_float(bits)) : SlicedReal(bits);
}

}  // namespace millstream

using namespace millstream;

extern "C" __global__ void slice_rows(const __grid_constant__ SlicedArcs from,
                                      const __grid_constant__ ArcsInSlices to,
                                      const __grid_constant__ SliceSettings settings) {
    const bool is_real = settings.is_real != 0;
    const u64 long_arcs = to.offsets[settings.long_rows];
    for (u64 arc = thread_in_grid(); arc < long_arcs; arc += threads_in_grid()) {
        put(from, to, arc, true, arc, is_real);
    }
    // A warp for each slice, a lane for each row.
    const u64 slices = to.offsets.len - 1 - settings.long_rows;
    for (u64 slice = thread_in_grid() / 32; slice < slices; slice += threads_in_grid() / 32) {
        const u64 row = settings.long_rows + slice * 32 + lane();
        const bool is_row = row + 1 < from.offsets.len;
        const u64 first = is_row ? from.offsets[row] : 0;
        const u64 last = is_row ? from.offsets[row + 1] : 0;
        const u64 begin = to.offsets[settings.long_rows + slice];
        const u64 end = to.offsets[settings.long_rows + slice + 1];
        u64 arc = first;
        for (u64 place = begin + lane(); place < end; place += 32, ++arc) {
            put(from, to, place, arc < last, arc, is_real);
        }
    }
}

// Sets the bits of vertices that the rows name and other devices own.
extern "C" __global__ void mark_asked(const __grid_constant__ Span<const u32> sources,
                                      const __grid_constant__ u32 first,
                                      const __grid_constant__ u32 end,
                                      const __grid_constant__ Span<u32> asked) {
    for (u64 arc = thread_in_grid(); arc < sources.len; arc += threads_in_grid()) {
        const u32 source = sources[arc];
        if (source >= first && source < end) continue;
        // A look first: most bits are set already.
        u32* const word = &asked[source / 32];
        const u32 bit = 1u << source % 32;
        if ((load_relaxed_gpu(word) & bit) == 0) fetch_or_relaxed_gpu(word, bit);
    }
}
