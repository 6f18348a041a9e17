// Every collective of resident kernels, in turns, with lengths and pauses that change;
// each result is checked where it is. Blocks of one number on all devices call together.
#include "block_collectives.cuh"

using namespace millstream;

struct Run {
    u32 rounds;
    u32 most;  // Items of a vector.
    u32 seed;
    u32 unused;
};

// Words of each block, on the host: GPUs cannot add to the same ones.
enum Report { wrong, rounds_done, report_words };

__device__ __forceinline__ u32 hash(u32 x) {
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

struct Case {
    BlockCollectives& collectives;
    const SpanSet<u32>& memory;
    const BlockCollectiveSettings& settings;
    const Run& run;
    u32 round = 0;

    __device__ u32 draw(u32 what) const {
        return hash(run.seed + hash(round * 8 + what) + blockIdx.x * 0x9e3779b9u);
    }
    __device__ u32 item(u32 rank, u64 at) const { return hash(draw(7) + rank * 0x10001u + u32(at)); }

    // Of this block: two vectors, and a cell for each rank.
    __device__ u32* area(u32 rank) const {
        return memory[rank].items + u64(blockIdx.x) * (2 * run.most + most_ranks);
    }

    __device__ u32 sum(u64 at) const {
        u32 sum = 0;
        for (u32 rank = 0; rank < settings.ranks; ++rank) sum += item(rank, at);
        return sum;
    }

    // The first item of a rank's part, of as many parts as there are ranks.
    __device__ u64 start(u32 rank, u64 len) const {
        const u64 more = len % settings.ranks;
        return rank * (len / settings.ranks) + (rank < more ? rank : more);
    }

    template <class Expected>
    __device__ u32 differ(const u32* items, u64 len, Expected expected) const {
        u32 count = 0;
        for (u64 at = threadIdx.x; at < len; at += blockDim.x) count += items[at] != expected(at);
        return count;
    }

    // False if the kernel must end.
    __device__ bool turn(u32& wrong) {
        const u32 ranks = settings.ranks, rank = settings.rank, root = draw(0) % ranks;
        const u64 len = draw(1) % 4 ? draw(2) % 64 : draw(2) % (run.most + 1);
        u32* input = area(rank);
        u32* output = draw(3) % 2 ? input : input + run.most;
        const auto add = [](u32 one, u32 other) { return one + other; };
        for (u64 at = threadIdx.x; at < len; at += blockDim.x) input[at] = item(rank, at);
        if (hash(draw(4) + rank) % 4 == 0) __nanosleep(hash(draw(4) + rank) >> 20);
        const u64 own = start(rank, len), part = start(rank + 1, len) - own;
        u32* apart = input + run.most;
        switch (round % 7) {
            case 0:
                if (!collectives.all_reduce(input, output, len, add)) return false;
                wrong += differ(output, len, [&](u64 at) { return sum(at); });
                break;
            case 1:
                if (!collectives.reduce(root, input, output, len, add)) return false;
                if (rank == root) wrong += differ(output, len, [&](u64 at) { return sum(at); });
                break;
            case 2:
                if (!collectives.reduce_scatter(input, apart, len, add)) return false;
                wrong += differ(apart, part, [&](u64 at) { return sum(own + at); });
                break;
            case 3:
                if (!collectives.broadcast(root, input, output, len)) return false;
                wrong += differ(output, len, [&](u64 at) { return item(root, at); });
                break;
            case 4:
                if (!collectives.all_gather(input, apart, len)) return false;
                for (u32 from = 0; from < ranks; ++from) {
                    const u64 first = start(from, len);
                    wrong += differ(apart + first, start(from + 1, len) - first,
                                    [&](u64 at) { return item(from, at); });
                }
                break;
            case 5:
                if (!collectives.all_to_all(input, output, len / ranks)) return false;
                for (u32 from = 0; from < ranks; ++from)
                    wrong += differ(output + from * (len / ranks), len / ranks, [&](u64 at) {
                        return item(from, rank * (len / ranks) + at);
                    });
                break;
            default: {
                if (threadIdx.x < ranks) area(threadIdx.x)[2 * run.most + rank] = round;
                if (!collectives.barrier()) return false;
                wrong += differ(input + 2 * run.most, ranks, [&](u64) { return round; });
                if (!collectives.barrier()) return false;
            }
        }
        __syncthreads();
        ++round;
        return true;
    }
};

extern "C" __global__ void block_collectives(const __grid_constant__ ResidentCollectives resident,
                                             const __grid_constant__ SpanSet<u32> memory,
                                             Span<u32> report,
                                             const __grid_constant__ Run run) {
    const BlockCollectiveSettings& settings = resident.settings;
    BlockCollectives collectives(resident);
    Case here{collectives, memory, settings, run};
    u32 count = 0;
    while (here.round < run.rounds && here.turn(count)) {}
    collectives.leave();
    const bool is_wrong = __syncthreads_or(count != 0);
    if (threadIdx.x == 0) {
        u32* own = &report[(settings.rank * gridDim.x + blockIdx.x) * report_words];
        store_relaxed_sys(own + wrong, u32(is_wrong));
        store_relaxed_sys(own + rounds_done, here.round);
    }
}
