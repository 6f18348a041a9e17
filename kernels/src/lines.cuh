// Lines of two words that devices write into each other's memory: a word, and a tag by which
// whoever polls knows that it has come.
#pragma once

#include "atomics.cuh"

namespace millstream {

// Both words in one operation: neither is seen without the other.
__device__ __forceinline__ void store_line(u64* line, u64 word, u64 tag) {
    asm volatile("{ .reg .b128 line; mov.b128 line, {%1, %2};"
                 " st.relaxed.sys.global.b128 [%0], line; }"
                 : : "l"(line), "l"(word), "l"(tag) : "memory");
}

__device__ __forceinline__ void load_line(const u64* line, u64* word, u64* tag) {
    asm volatile("{ .reg .b128 line; ld.relaxed.sys.global.b128 line, [%2];"
                 " mov.b128 {%0, %1}, line; }"
                 : "=l"(*word), "=l"(*tag) : "l"(line) : "memory");
}

}  // namespace millstream
