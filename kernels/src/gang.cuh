// What kernels of a gang share: the host's words, and time.
#pragma once

#include "span.cuh"

namespace millstream {

// Words in the host's memory: whether all kernels have been launched, and whether
// they are to end.
enum HostWord { host_open, host_stop, host_words };

// What `host_stop` says. A kernel that cannot go on says why, and the host fails for it: it has
// waited for another for too long, or calls collectives that a kernel before has not left, or from a
// block that they have no memory for.
enum StopReason : u32 { goes_on, is_stopped, peer_is_late, not_left, no_memory };

// One thread, with the word `host_stop`: the kernel cannot go on. One of those who say so first is
// heard.
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
