// Row indexes, made of how many arcs rows have, and which rows are long. The twins are in `index_rows.rs`.
#include "lanes.cuh"

namespace millstream {

// What is said of rows with their index.
struct RowReport {
    u64 arcs;
    u64 longest;      // Arcs of the longest row,
    u64 longest_row;  // and the first that has as many.
    u64 long_rows;    // Rows of more arcs than `rows_of_warp`.
};

}  // namespace millstream

using namespace millstream;

// One block: a row has as many arcs as are counted, and those that it has in another index, if there is one.
extern "C" __global__ void index_rows(const __grid_constant__ Span<u64> counts,
                                      const __grid_constant__ Span<const u64> others,
                                      const __grid_constant__ Span<u64> offsets,
                                      const __grid_constant__ Span<RowReport> report) {
    constexpr u32 threads = 1024, rows_of_thread = 8;
    // Of warps; in turns, so that one meeting is enough.
    __shared__ u64 sums[2][32];
    __shared__ u64 longest, longest_row, long_rows;
    if (threadIdx.x == 0) {
        longest = long_rows = 0;
        longest_row = ~u64(0);
    }
    u64 before = 0, own_longest = 0, own_row = 0, own_long = 0;
    u32 turn = 0;
    for (u64 base = 0; base < counts.len; base += threads * rows_of_thread, turn ^= 1) {
        const u64 first = base + threadIdx.x * rows_of_thread;
        u64 lengths[rows_of_thread];
        u64 own = 0;
#pragma unroll
        for (u32 each = 0; each < rows_of_thread; ++each) {
            const u64 row = first + each;
            u64 length = row < counts.len ? counts[row] : 0;
            if (others.len > 0 && row < counts.len) length += others[row + 1] - others[row];
            if (length > own_longest) {
                own_longest = length;
                own_row = row;
            }
            own_long += length > rows_of_warp;
            lengths[each] = length;
            own += length;
        }
        const u64 last = prefix_sum(own);
        if (lane() == 31) sums[turn][threadIdx.x / 32] = last;
        __syncthreads();
        const u64 of_warp = sums[turn][lane()];
        const u64 up_to_warp = prefix_sum(of_warp);
        u64 begin = before + last - own + __shfl_sync(~0u, up_to_warp - of_warp, threadIdx.x / 32);
#pragma unroll
        for (u32 each = 0; each < rows_of_thread; ++each) {
            if (first + each < counts.len) offsets[first + each] = begin;
            begin += lengths[each];
        }
        before += __shfl_sync(~0u, up_to_warp, 31);
    }
    __syncthreads();
    if (own_longest > 0) atomicMax(&longest, own_longest);
    if (own_long > 0) atomicAdd(&long_rows, own_long);
    __syncthreads();
    if (own_longest > 0 && own_longest == longest) atomicMin(&longest_row, own_row);
    __syncthreads();
    if (threadIdx.x != 0) return;
    offsets[counts.len] = before;
    report[0] = {before, longest, longest > 0 ? longest_row : 0, long_rows};
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
