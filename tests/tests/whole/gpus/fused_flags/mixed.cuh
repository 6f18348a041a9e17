#include "worklist.cuh"
using namespace millstream;
// As `mixed` of fused_flags.rs.
__device__ u32 mixed(u32 item) {
    item = (item ^ item >> 16) * 0x45d9f3bu;
    item = (item ^ item >> 15) * 0x2c1b3c6du;
    return item ^ item >> 16;
}
