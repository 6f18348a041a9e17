// Keeps the multiples of a number, each tested `cost` times: the compiler, which knows nothing of
// the item after each turn, leaves none out.
#include "filter.cuh"
using namespace millstream;
extern "C" __global__ void filter(Span<const u32> input, Span<u32> kept, Span<u32> scratch,
                                  Span<u32> count, u32 divisor, u32 cost) {
    filter(input, kept, scratch, count, [=](u32 item) {
        u32 kept = item % divisor == 0;
        for (u32 turn = 1; turn < cost; ++turn) {
            asm volatile("" : "+r"(item));
            kept += item % divisor == 0;
        }
        return kept == cost;
    });
}
