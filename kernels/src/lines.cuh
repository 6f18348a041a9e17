// Lines of two words that devices write into each other's memory: by one of them, the tag,
// whoever polls knows that the other has come.
#pragma once

#include "atomics.cuh"

namespace millstream {

// Both words in one operation: neither is seen without the other. Names say the order;
// the scope is all devices.
#define MILLSTREAM_STORE_LINE(order)                                                        \
    __device__ __forceinline__ void store_line_##order(u64* line, u64 word, u64 tag) {      \
        asm volatile("{ .reg .b128 line; mov.b128 line, {%1, %2};"                          \
                     " st." #order ".sys.global.b128 [%0], line; }"                         \
                     : : "l"(line), "l"(word), "l"(tag) : "memory");                        \
    }

MILLSTREAM_STORE_LINE(relaxed)
MILLSTREAM_STORE_LINE(release)

#undef MILLSTREAM_STORE_LINE

__device__ __forceinline__ void load_line_acquire(const u64* line, u64* word, u64* tag) {
    asm volatile("{ .reg .b128 line; ld.acquire.sys.global.b128 line, [%2];"
                 " mov.b128 {%0, %1}, line; }"
                 : "=l"(*word), "=l"(*tag) : "l"(line) : "memory");
}

// Loads the line if `is_asked`; else both words stay. Without a branch, so that several loads are under
// way at once.
__device__ __forceinline__ void load_line_relaxed_if(bool is_asked, const u64* line, u64* word,
                                                     u64* tag) {
    asm volatile("{ .reg .pred asked; .reg .b128 line; setp.ne.u32 asked, %2, 0;"
                 " mov.b128 line, {%0, %1}; @asked ld.relaxed.sys.global.b128 line, [%3];"
                 " mov.b128 {%0, %1}, line; }"
                 : "+l"(*word), "+l"(*tag) : "r"(u32(is_asked)), "l"(line) : "memory");
}

}  // namespace millstream
