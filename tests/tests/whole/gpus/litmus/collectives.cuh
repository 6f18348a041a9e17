// Litmus tests of collectives between peers, as kernels of several rounds: what a kernel's end
// orders otherwise, a meeting of its blocks does here, or a barrier of the block. (Lines have
// block_collectives.cu.)
#include "collective_chain.cuh"
#include "collective_pass.cuh"
#include "collective_ring.cuh"

using namespace millstream;

static_assert(rank_words == 1040, "as the test allocates");

// As Rust writes it.
struct Rounds {
    u32 here;
    u32 devices;
    u32 rounds;
    u32 seed;
};

// Words of each block, on the host: GPUs cannot add to the same ones.
enum Report { wrong, rounds_done, report_words };

__device__ __forceinline__ u32 hash(u32 x) {
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

struct Vectors {
    const SpanSet<u32>& items;
    const Rounds& run;

    __device__ u32 item(u32 rank, u32 round, u32 at) const {
        return hash(run.seed + hash(round * most_ranks + rank) + at);
    }

    __device__ u32 sum(u32 round, u32 at) const {
        u32 sum = 0;
        for (u32 rank = 0; rank < run.devices; ++rank) sum += item(rank, round, at);
        return sum;
    }

    // Sometimes a pause, so that ranks meet in other ways.
    __device__ void pause(u32 round) const {
        const u32 draw = item(run.here, round, blockIdx.x + (1u << 30));
        if (draw % 4 == 0) __nanosleep(draw >> 22);
    }

    __device__ void report(Span<u32> report, bool is_wrong, u32 rounds) const {
        const bool any = __syncthreads_or(is_wrong);
        if (threadIdx.x != 0) return;
        u32* const own = &report[(run.here * gridDim.x + blockIdx.x) * report_words];
        store_relaxed_sys(own + wrong, u32(any));
        store_relaxed_sys(own + rounds_done, rounds);
    }
};

__device__ RankSettings rank_settings(const Rounds& run, u32 round) {
    return {u64(round) + 1, u64(5000000000), run.here, run.devices};
}

// All-reduces in place, in one pass. Each rank combines a part of them for all.
extern "C" __global__ void passes(const __grid_constant__ SpanSet<u64> memory, Span<u32> host,
                                  const __grid_constant__ SpanSet<u32> items, Span<u32> report,
                                  const __grid_constant__ Rounds run) {
    __shared__ PassPlaces<u32> places[most_ranks];
    __shared__ PassSettings settings;
    const Vectors vectors{items, run};
    u32* const own = items[run.here].items;
    const u32 len = u32(items[run.here].len);
    const u32 begin = len / run.devices * run.here;
    const u32 end = run.here + 1 == run.devices ? len : begin + len / run.devices;
    const auto add = [](u32 one, u32 other) { return one + other; };
    bool is_wrong = false;
    u32 done = 0;
    for (u32 round = 0; round < run.rounds; ++round) {
        vectors.pause(round);
        for (u32 at = u32(thread_in_grid()); at < len; at += u32(threads_in_grid()))
            own[at] = vectors.item(run.here, round, at);
        if (threadIdx.x == 0) {
            settings.common = rank_settings(run, round);
            const u32 all = (1u << run.devices) - 1;
            settings.jobs[0] = {end - begin, begin, begin, all, all};
            settings.job_count = 1;
            settings.swaps = settings.in_order = 0;
            settings.in_place = 1;
            // One speaks for two.
            settings.blocks = gridDim.x + 1;
        }
        // As before a kernel.
        meet(memory[run.here].items);
        const Ranks ranks = Ranks::of_a_series(memory, host, settings.common);
        const Pass<u32> pass{ranks, reinterpret_cast<const SpanSet<const u32>&>(items), items,
                             settings, places};
        // Whoever gives up goes on to meet the others, who wait for that.
        if (pass.begin()) {
            pass.run(add);
            pass.end();
            ++done;
        }
        // As after it.
        meet(memory[run.here].items);
        for (u32 at = u32(thread_in_grid()); at < len; at += u32(threads_in_grid()))
            is_wrong |= own[at] != vectors.sum(round, at);
    }
    vectors.report(report, is_wrong, done);
}

// Items of a tile of a chain or a ring.
constexpr u32 tile = 32;

// Those of a vector that go through this block's channel.
template <class One>
__device__ void for_each(u32 len, One one) {
    for (u32 first = blockIdx.x * tile; first < len; first += gridDim.x * tile)
        for (u32 at = threadIdx.x; at < tile && first + at < len; at += blockDim.x)
            one(first + at);
}

// One of each block, with 4 slots of 16 words.
__device__ ChannelSettings channels_of_blocks() {
    return {rank_words, rank_words + gridDim.x * channel_words, gridDim.x, 4, 16, tile};
}

// Reductions and broadcasts along a chain, to and from changing roots: each block has a channel, and
// tiles of a few items. The second half of the vectors is the output.
extern "C" __global__ void chains(const __grid_constant__ SpanSet<u64> memory, Span<u32> host,
                                  const __grid_constant__ SpanSet<u32> items, Span<u32> report,
                                  const __grid_constant__ Rounds run) {
    __shared__ ChainSettings settings;
    const Vectors vectors{items, run};
    const u32 len = u32(items[run.here].len / 2);
    u32* const input = items[run.here].items;
    u32* const output = input + len;
    const auto add = [](u32 one, u32 other) { return one + other; };
    bool is_wrong = false;
    u32 round = 0;
    for (; round < run.rounds; ++round) {
        const u32 draw = hash(run.seed + round);
        const u32 root = draw / 2 % run.devices, combines = draw % 2;
        const u32 last = combines ? root : (root + run.devices - 1) % run.devices;
        vectors.pause(round);
        for_each(len, [&](u32 at) { input[at] = vectors.item(run.here, round, at); });
        if (threadIdx.x == 0)
            settings = {rank_settings(run, round), channels_of_blocks(), len, last, 0, combines, 0};
        __syncthreads();
        const Ranks ranks = Ranks::of_a_series(memory, host, settings.common);
        Channel<u32, decltype(add)> channel(ranks, settings.channels, add, blockIdx.x);
        if (!Chain<u32, decltype(add)>{settings, input, output, channel}.run()) break;
        __syncthreads();
        if (combines && run.here != root) continue;
        for_each(len, [&](u32 at) {
            const u32 expected =
                combines ? vectors.sum(round, at) : vectors.item(root, round, at);
            is_wrong |= output[at] != expected;
        });
    }
    vectors.report(report, is_wrong, round);
}

// All-reduces and reduce-scatters round a ring, in the same way. Parts are of one length, but the last.
extern "C" __global__ void rings(const __grid_constant__ SpanSet<u64> memory, Span<u32> host,
                                 const __grid_constant__ SpanSet<u32> items, Span<u32> report,
                                 const __grid_constant__ Rounds run) {
    __shared__ RingSettings settings;
    const Vectors vectors{items, run};
    const u32 len = u32(items[run.here].len / 2), share = len / run.devices;
    u32* const input = items[run.here].items;
    u32* const output = input + len;
    const auto add = [](u32 one, u32 other) { return one + other; };
    const auto length = [&](u32 part) {
        return part + 1 == run.devices ? len - part * share : share;
    };
    bool is_wrong = false;
    u32 round = 0;
    for (; round < run.rounds; ++round) {
        const bool gathers = hash(run.seed + round) % 2 == 0;
        const u32 own = run.devices - 1;
        vectors.pause(round);
        for (u32 part = 0; part < run.devices; ++part)
            for_each(length(part), [&](u32 at) {
                input[part * share + at] = vectors.item(run.here, round, part * share + at);
            });
        if (threadIdx.x == 0) {
            settings.common = rank_settings(run, round);
            settings.channels = channels_of_blocks();
            for (u32 part = 0; part < run.devices; ++part)
                settings.parts[part] = {part * share, part * share, length(part)};
            settings.tiles = (length(own) + tile - 1) / tile;
            settings.last = gathers ? 2 * own : own;
            settings.in_place = 0;
        }
        __syncthreads();
        const Ranks ranks = Ranks::of_a_series(memory, host, settings.common);
        Channel<u32, decltype(add)> channel(ranks, settings.channels, add, blockIdx.x);
        if (!Ring<u32, decltype(add)>{settings, input, output, channel}.run()) break;
        __syncthreads();
        for (u32 part = 0; part < run.devices; ++part) {
            if (!gathers && part != run.here) continue;
            for_each(length(part), [&](u32 each) {
                const u32 at = part * share + each;
                is_wrong |= output[at] != vectors.sum(round, at);
            });
        }
    }
    vectors.report(report, is_wrong, round);
}
