// Where a thread stands in the grid, and leaders of groups of threads.
#pragma once

#include "atomics.cuh"

namespace millstream {

__device__ __forceinline__ u32 lane() { return threadIdx.x & 31; }

__device__ __forceinline__ u64 thread_in_grid() {
    return u64(blockIdx.x) * blockDim.x + threadIdx.x;
}

__device__ __forceinline__ u64 threads_in_grid() { return u64(gridDim.x) * blockDim.x; }

// Threads that the device runs at once, at most.
__device__ __forceinline__ u32 most_threads() {
    u32 multiprocessors;
    asm("mov.u32 %0, %%nsmid;" : "=r"(multiprocessors));
    return multiprocessors * 2048;
}

// Bytes of `extern __shared__` memory that the launch gave each block.
__device__ __forceinline__ u32 dynamic_shared_bytes() {
    u32 bytes;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
    return bytes;
}

// The place of each selected thread among the selected threads of its warp, added
// to `counter` once for the warp. The warp's threads that reach this together
// take part, in blocks of one dimension.
__device__ __forceinline__ u32 append_place(u32* counter, bool selected) {
    const u32 active = __activemask();
    const u32 chosen = __ballot_sync(active, selected);
    if (chosen == 0) return 0;
    const u32 leader = __ffs(chosen) - 1;
    u32 base = 0;
    // The kernel's end publishes what is appended; the counter orders nothing.
    if (lane() == leader) base = fetch_add_relaxed_gpu(counter, u32(__popc(chosen)));
    base = __shfl_sync(active, base, leader);
    return base + __popc(chosen & ((1u << lane()) - 1));
}

}  // namespace millstream
