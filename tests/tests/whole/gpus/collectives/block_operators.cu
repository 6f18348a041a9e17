// Collectives of resident kernels with other items than u32 and other operators than sums,
// checked against the same operator applied in the order of the ranks.
#include "block_collectives.cuh"

using namespace millstream;

struct Run {
    u32 rounds;
    u32 most;  // Items of a vector.
    u32 seed;
    u32 unused;
};

// Words of each block, on the host: the bits of the kinds that were wrong, and rounds.
enum Report { wrong, rounds_done, report_words };

// A program's own items: the first of two events, three bytes, items of more than a line.
struct Event {
    u32 time, number;
};

struct Bytes {
    unsigned char bytes[3];
};

struct Words {
    u64 words[9];
};

__device__ __forceinline__ u32 hash(u32 x) {
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

__device__ void make(u32 draw, u64& item) { item = u64(draw) << 32 | hash(draw); }
// By a power of two: a product that is rounded may be joined with a sum, or not.
__device__ void make(u32 draw, float& item) { item = float(int(draw)) * 0.25f; }
__device__ void make(u32 draw, Event& item) { item = {draw % 16, hash(draw)}; }
__device__ void make(u32 draw, Bytes& item) {
    for (u32 at = 0; at < 3; ++at) item.bytes[at] = (unsigned char)(draw >> 8 * at);
}
__device__ void make(u32 draw, Words& item) {
    for (u32 at = 0; at < 9; ++at) item.words[at] = u64(draw) << at;
}

template <class Element>
__device__ bool differs(const Element& one, const Element& other) {
    const auto* left = reinterpret_cast<const unsigned char*>(&one);
    const auto* right = reinterpret_cast<const unsigned char*>(&other);
    bool differs = false;
    for (u32 at = 0; at < sizeof(Element); ++at) differs |= left[at] != right[at];
    return differs;
}

struct Case {
    BlockCollectives& collectives;
    const BlockCollectiveSettings& settings;
    const Run& run;
    u64* area;  // Of this block.
    u32 round = 0;

    __device__ u32 draw(u32 what) const {
        return hash(run.seed + hash(round * 8 + what) + blockIdx.x * 0x9e3779b9u);
    }

    template <class Element>
    __device__ Element item(u32 rank, u32 at) const {
        Element item;
        make(hash(draw(7) + rank * 0x10001u + at), item);
        return item;
    }

    // In the order of the ranks: sums of floats are the same then.
    template <class Element, class Combine>
    __device__ Element combined(u32 at, Combine combine) const {
        Element all = item<Element>(0, at);
        for (u32 rank = 1; rank < settings.ranks; ++rank)
            all = combine(all, item<Element>(rank, at));
        return all;
    }

    template <class Element>
    __device__ Element* fill(u32 len) const {
        Element* const input = reinterpret_cast<Element*>(area);
        for (u32 at = threadIdx.x; at < len; at += blockDim.x)
            input[at] = item<Element>(settings.rank, at);
        return input;
    }

    // Items from `first` on of what all ranks' are together.
    template <class Element, class Combine>
    __device__ bool is_wrong(const Element* items, u32 first, u32 len, Combine combine) const {
        bool wrong = false;
        for (u32 at = threadIdx.x; at < len; at += blockDim.x)
            wrong |= differs(items[at], combined<Element>(first + at, combine));
        return wrong;
    }

    // False if the kernel must end, as below.
    template <class Element, class Combine>
    __device__ bool all_reduce(bool& wrong, Combine combine) {
        const u32 len = draw(1) % (run.most + 1);
        Element* const input = fill<Element>(len);
        Element* const output = draw(3) % 2 ? input : input + run.most;
        if (!collectives.all_reduce(input, output, len, combine)) return false;
        wrong = is_wrong(output, 0, len, combine);
        return true;
    }

    template <class Element, class Combine>
    __device__ bool reduce(bool& wrong, Combine combine) {
        const u32 len = draw(1) % (run.most + 1), root = draw(2) % settings.ranks;
        Element* const input = fill<Element>(len);
        Element* const output = draw(3) % 2 ? input : input + run.most;
        if (!collectives.reduce(root, input, output, len, combine)) return false;
        wrong = settings.rank == root && is_wrong(output, 0, len, combine);
        return true;
    }

    template <class Element, class Combine>
    __device__ bool reduce_scatter(bool& wrong, Combine combine) {
        const u32 len = draw(1) % (run.most + 1), rank = settings.rank;
        Element* const input = fill<Element>(len);
        Element* const output = input + run.most;
        if (!collectives.reduce_scatter(input, output, len, combine)) return false;
        const u32 share = len / settings.ranks, more = len % settings.ranks;
        const u32 first = rank * share + (rank < more ? rank : more);
        wrong = is_wrong(output, first, share + (rank < more), combine);
        return true;
    }

    template <class Number>
    __device__ bool numbers(u32 which, bool& wrong) {
        const auto sum = [](Number one, Number other) { return one + other; };
        const auto min = [](Number one, Number other) { return other < one ? other : one; };
        const auto max = [](Number one, Number other) { return one < other ? other : one; };
        switch (which) {
            case 0: return all_reduce<Number>(wrong, sum);
            case 1: return all_reduce<Number>(wrong, min);
            default: return all_reduce<Number>(wrong, max);
        }
    }

    __device__ bool turn(u32 kind, bool& wrong) {
        const auto earlier = [](Event one, Event other) {
            const bool is_earlier =
                other.time != one.time ? other.time < one.time : other.number < one.number;
            return is_earlier ? other : one;
        };
        const auto sums = [](Bytes one, Bytes other) {
            for (u32 at = 0; at < 3; ++at) one.bytes[at] += other.bytes[at];
            return one;
        };
        const auto differences = [](Words one, Words other) {
            for (u32 at = 0; at < 9; ++at) one.words[at] ^= other.words[at];
            return one;
        };
        switch (kind) {
            case 0: case 1: case 2: return numbers<float>(kind, wrong);
            case 3: case 4: case 5: return numbers<u64>(kind - 3, wrong);
            case 6: return all_reduce<Event>(wrong, earlier);
            case 7: return reduce<Event>(wrong, earlier);
            case 8: return reduce_scatter<Event>(wrong, earlier);
            case 9: return all_reduce<Bytes>(wrong, sums);
            default: return all_reduce<Words>(wrong, differences);
        }
    }
};

constexpr u32 kinds = 11;

extern "C" __global__ void block_operators(
    const __grid_constant__ ResidentCollectives resident, Span<u64> area, Span<u32> report,
    const __grid_constant__ Run run) {
    const BlockCollectiveSettings& settings = resident.settings;
    BlockCollectives collectives(resident);
    Case here{collectives, settings, run, area.items + area.len / gridDim.x * blockIdx.x};
    u32 found = 0;
    for (; here.round < run.rounds; ++here.round) {
        const u32 kind = here.round % kinds;
        bool is_wrong = false;
        if (!here.turn(kind, is_wrong)) break;
        if (__syncthreads_or(is_wrong)) found |= 1u << kind;
    }
    collectives.leave();
    if (threadIdx.x != 0) return;
    u32* const own = &report[(settings.rank * gridDim.x + blockIdx.x) * report_words];
    store_relaxed_sys(own + wrong, found);
    store_relaxed_sys(own + rounds_done, here.round);
}
