// What kernels of a gang share: the host's words, and time.
#pragma once

#include "span.cuh"

namespace millstream {

// Words in the host's memory: whether all kernels have been launched, and whether
// they are to end.
enum HostWord { host_open, host_stop, host_words };

// What `host_stop` says. A kernel that cannot go on says why, and the host fails with that error: the
// kernel has waited for another for too long, or calls collectives that an earlier kernel has not left,
// or calls them from a block that has no memory for them.
enum StopReason : u32 { goes_on, is_stopped, peer_is_late, not_left, no_memory };

// One thread, with the word `host_stop`: the kernel cannot go on. If several say so
// at once, one of them is heard.
__device__ __forceinline__ void give_up(u32* stop, StopReason reason) {
    // Relaxed: the word is all there is to see.
    if (load_relaxed_sys(stop) == goes_on) store_relaxed_sys(stop, u32(reason));
}

__device__ __forceinline__ u64 nanoseconds() {
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

}  // namespace millstream
