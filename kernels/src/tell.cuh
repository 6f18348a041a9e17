// How a kernel says that it is over, in place of its stream.
#pragma once

#include "atomics.cuh"

namespace millstream {

// As Rust writes it: null where nothing is to be said.
struct Tell {
    u32* word;  // In the host's memory.
    u64 value;

    // One thread, as the last thing that the kernel does: it has acquired what all others did.
    // Release: pairs with the host's acquire of the word.
    __device__ void say() const {
        if (word != nullptr) store_release_sys(word, u32(value));
    }
};

// The whole block, as the last thing that it does: the last block of the grid to come here says that the
// kernel is over. `left` counts those that have come: 0 before the kernel, and again after it.
__device__ __forceinline__ void say_last(const Tell& tell, u64* left) {
    __syncthreads();
    if (threadIdx.x != 0 || tell.word == nullptr) return;
    // Each block releases what it did; the last one acquires all of that.
    if (fetch_add_acq_rel_gpu(left, u64(1)) != gridDim.x - 1) return;
    // Relaxed: whoever counts next comes after this kernel.
    store_relaxed_gpu(left, u64(0));
    tell.say();
}

}  // namespace millstream
