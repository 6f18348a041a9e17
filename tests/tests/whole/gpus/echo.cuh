// Two kernels that send each other a number over links, there and back.
#include "device_link.cuh"

using namespace millstream;

struct Run {
    u32 rounds;
    u32 begins;
};

// In the report: nanoseconds of the side that begins, numbers that were wrong, sides
// that gave up.
extern "C" __global__ void echo(DeviceLink<u32> there, DeviceLink<u32> back, Span<u64> report,
                                Span<u32> host, Run run) {
    __shared__ u32 number;
    const DeviceSender<u32> out(there, host);
    DeviceReceiver<u32> in(back, host);
    const u64 start = nanoseconds();
    u32 count, wrong = 0;
    bool is_late = false;
    for (u32 round = 0; round < run.rounds && !is_late; ++round) {
        if (run.begins) {
            if (threadIdx.x == 0) number = round;
            __syncthreads();
            is_late = !out.send(&number, 1);
        }
        if (is_late || !in.receive(&number, &count)) {
            is_late = true;
            break;
        }
        wrong += number != round || count != 1;
        if (!run.begins) is_late = !out.send(&number, 1);
    }
    if (threadIdx.x != 0) return;
    if (run.begins) store_relaxed_sys(report.items, nanoseconds() - start);
    fetch_add_relaxed_sys(report.items + 1, u64(wrong));
    fetch_add_relaxed_sys(report.items + 2, u64(is_late));
}
