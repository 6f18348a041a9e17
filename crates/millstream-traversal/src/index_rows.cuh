// Computes row indexes from how many arcs rows have, and finds long rows. The twins are in `index_rows.rs`.
#include "lanes.cuh"

namespace millstream {

// What is reported about rows along with their index.
struct RowReport {
    u64 arcs;
    u64 longest;      // Arcs of the longest row,
    u64 longest_row;  // and the first row of that length.
    u64 long_rows;    // Rows of more arcs than `rows_of_warp`.
};

// A block indexes a tile of rows: each of its threads has consecutive ones.
enum : u32 { threads = 1024, rows_of_thread = 8, rows_of_tile = threads * rows_of_thread };

// The whole block: sums `own` over the threads before this one, and over all. `sums` must not be in use.
__device__ __forceinline__ u64 sum_before(u64 own, u64 (&sums)[32], u64& all) {
    const u64 last = prefix_sum(own);
    if (lane() == 31) sums[threadIdx.x / 32] = last;
    __syncthreads();
    const u64 of_warp = sums[lane()];
    const u64 up_to_warp = prefix_sum(of_warp);
    all = __shfl_sync(~0u, up_to_warp, 31);
    return last - own + __shfl_sync(~0u, up_to_warp - of_warp, threadIdx.x / 32);
}

// What the threads of a block have found, except the sum of arcs. `of` is for all of them, and ends with a
// barrier.
struct BlockReport {
    u64 longest, longest_row, long_rows;

    __device__ void of(const RowReport& own) {
        if (threadIdx.x == 0) {
            longest = long_rows = 0;
            longest_row = ~u64(0);
        }
        __syncthreads();
        if (own.longest > 0) atomicMax(&longest, own.longest);
        if (own.long_rows > 0) atomicAdd(&long_rows, own.long_rows);
        __syncthreads();
        if (own.longest > 0 && own.longest == longest) atomicMin(&longest_row, own.longest_row);
        __syncthreads();
    }

    __device__ RowReport with(u64 arcs) const {
        return {arcs, longest, longest > 0 ? longest_row : 0, long_rows};
    }
};

}  // namespace millstream

using namespace millstream;

// Indexes each tile as if it began at 0: a row has the arcs that are counted, plus those that it has in
// another index, if there is one.
extern "C" __global__ void index_tiles(const __grid_constant__ Span<u64> counts,
                                       const __grid_constant__ Span<const u64> others,
                                       const __grid_constant__ Span<u64> offsets,
                                       const __grid_constant__ Span<RowReport> tiles) {
    __shared__ u64 sums[32];
    __shared__ BlockReport report;
    for (u64 tile = blockIdx.x; tile < tiles.len; tile += gridDim.x) {
        const u64 first = tile * rows_of_tile + threadIdx.x * rows_of_thread;
        u64 lengths[rows_of_thread];
        RowReport own = {};
#pragma unroll
        for (u32 each = 0; each < rows_of_thread; ++each) {
            const u64 row = first + each;
            u64 length = row < counts.len ? counts[row] : 0;
            if (others.len > 0 && row < counts.len) length += others[row + 1] - others[row];
            if (length > own.longest) {
                own.longest = length;
                own.longest_row = row;
            }
            own.long_rows += length > rows_of_warp;
            lengths[each] = length;
            own.arcs += length;
        }
        u64 arcs;
        u64 begin = sum_before(own.arcs, sums, arcs);
#pragma unroll
        for (u32 each = 0; each < rows_of_thread; ++each) {
            if (first + each < counts.len) offsets[first + each] = begin;
            begin += lengths[each];
        }
        report.of(own);
        if (threadIdx.x == 0) tiles[tile] = report.with(arcs);
    }
}

// One block: replaces each tile's number of arcs by where the tile begins, and stores the end of all.
extern "C" __global__ void sum_tiles(const __grid_constant__ Span<RowReport> tiles,
                                     const __grid_constant__ Span<u64> offsets,
                                     const __grid_constant__ Span<RowReport> all) {
    __shared__ u64 sums[32];
    __shared__ BlockReport report;
    u64 before = 0;
    RowReport own = {};
    for (u64 base = 0; base < tiles.len; base += threads) {
        const u64 tile = base + threadIdx.x;
        const RowReport its = tile < tiles.len ? tiles[tile] : RowReport{};
        if (its.longest > own.longest) {
            own.longest = its.longest;
            own.longest_row = its.longest_row;
        }
        own.long_rows += its.long_rows;
        u64 arcs;
        const u64 begin = before + sum_before(its.arcs, sums, arcs);
        if (tile < tiles.len) tiles[tile].arcs = begin;
        before += arcs;
        // All have read the sums.
        __syncthreads();
    }
    report.of(own);
    if (threadIdx.x != 0) return;
    offsets[offsets.len - 1] = before;
    all[0] = report.with(before);
}

// Adds to each row's offset where the row's tile begins.
extern "C" __global__ void add_tiles(const __grid_constant__ Span<const RowReport> tiles,
                                     const __grid_constant__ Span<u64> offsets) {
    for (u64 row = thread_in_grid(); row + 1 < offsets.len; row += threads_in_grid())
        offsets[row] += tiles[row / rows_of_tile].arcs;
}

// Lists the long rows, in any order; `count` begins as 0.
extern "C" __global__ void list_long_rows(const __grid_constant__ Span<const u64> offsets,
                                          const __grid_constant__ Span<u64> count,
                                          const __grid_constant__ Span<LongRow> rows) {
    for (u64 row = thread_in_grid(); row + 1 < offsets.len; row += threads_in_grid()) {
        const u64 begin = offsets[row], arcs = offsets[row + 1] - begin;
        if (arcs <= rows_of_warp) continue;
        rows[fetch_add_relaxed_gpu(&count[0], u64(1))] = {begin, 0, u32(arcs), 0};
    }
}

// A bit for each row, set if it has arcs.
extern "C" __global__ void mark_rows(const __grid_constant__ Span<const u64> offsets,
                                     const __grid_constant__ Span<u32> bits) {
    for (u64 row = thread_in_grid(); row / 32 < bits.len; row += threads_in_grid()) {
        const bool has_arcs = row + 1 < offsets.len && offsets[row] < offsets[row + 1];
        const u32 word = __ballot_sync(~0u, has_arcs);
        if (lane() == 0) bits[row / 32] = word;
    }
}
