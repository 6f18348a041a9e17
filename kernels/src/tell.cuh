// How a kernel says that it is over, in place of its stream.
#pragma once

#include "atomics.cuh"

namespace millstream {

// As Rust writes it: null where nobody has asked.
struct Tell {
    u32* word;  // In the host's memory.
    u64 value;

    // One thread, as the last thing that the kernel does: it has acquired what all others did.
    // Release: pairs with the host's acquire of the word.
    __device__ void say() const {
        if (word != nullptr) store_release_sys(word, u32(value));
    }
};

}  // namespace millstream
