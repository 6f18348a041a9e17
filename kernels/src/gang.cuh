// What kernels of a gang share: the host's words, and time.
#pragma once

#include "span.cuh"

namespace millstream {

// Words in the host's memory: whether all kernels have been launched, and whether
// they are to end.
enum HostWord { host_open, host_stop, host_words };

// What `host_stop` says. A kernel that has waited for another for too long says so, and the host
// fails for it.
enum StopReason : u32 { goes_on, is_stopped, peer_is_late };

__device__ __forceinline__ u64 nanoseconds() {
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

}  // namespace millstream
