// Two kernels that send each other a number through peer rings, there and back.
#include "gang.cuh"
#include "peer_ring.cuh"
#include "span.cuh"

using namespace millstream;

constexpr u32 capacity = 4;

struct Run {
    u32 rounds;
    u32 begins;
    u32 milliseconds;
    u32 unused;
};

// In the memory of each side: the words of the ring that it sends into, then the slots
// and the payloads of the one that it receives from.
__device__ __forceinline__ PeerRing<u32> ring(Span<u32> sender, Span<u32> receiver) {
    return PeerRing<u32>{reinterpret_cast<SenderWords*>(sender.items),
                         reinterpret_cast<SlotWords*>(receiver.items + 16), receiver.items + 32,
                         capacity, 1};
}

// In the report: nanoseconds of the side that begins, numbers that were wrong, sides
// that gave up.
extern "C" __global__ void echo(Span<u32> here, Span<u32> there, Span<u64> report, Run run) {
    __shared__ u32 number;
    PeerRing<u32> out = ring(here, there);
    PeerRing<u32> in = ring(there, here);
    const u64 start = nanoseconds();
    const u64 deadline = start + u64(run.milliseconds) * 1000000;
    u32 next = 0;
    u32 count;
    u32 wrong = 0;
    for (u32 round = 0; round < run.rounds; ++round) {
        if (run.begins) {
            if (threadIdx.x == 0) number = round;
            __syncthreads();
            while (!out.try_send(&number, 1)) {
            }
        }
        while (!in.try_receive(&next, &number, &count)) {
            if (__syncthreads_or(threadIdx.x == 0 && nanoseconds() > deadline)) {
                if (threadIdx.x == 0) fetch_add_relaxed_sys(report.items + 2, u64(1));
                return;
            }
        }
        wrong += number != round || count != 1;
        if (!run.begins) {
            while (!out.try_send(&number, 1)) {
            }
        }
    }
    if (threadIdx.x != 0) return;
    if (run.begins) store_relaxed_sys(report.items, nanoseconds() - start);
    fetch_add_relaxed_sys(report.items + 1, u64(wrong));
}
