// The seven benchmarks: what one tile of each reads, and what it writes. Whether it has
// to wait for that, or to say so, is the source's and the sink's affair.
#include "full_empty.cuh"
using namespace millstream;

struct Parameters {
    u32 items;  // Of the output, before tiles.
    u32 tile;   // Of those, in one tile.
    u32 tiles;
    u32 width;  // Of a matrix or a grid; vertices of a graph.
};

// All of the inputs are there.
struct Present {
    Span<const u32> one, two, three;
    __device__ bool begin() const { return true; }
    __device__ bool wait(u32, u64, u64) const { return true; }
    __device__ const u32* input(u32 at) const {
        return at == 0 ? one.items : at == 1 ? two.items : three.items;
    }
};

// Inputs come packet by packet.
struct Coming {
    FullEmptySegment<u32> one, two, three;
    __device__ bool begin() const { return true; }
    __device__ const FullEmptySegment<u32>& segment(u32 at) const {
        return at == 0 ? one : at == 1 ? two : three;
    }
    __device__ bool wait(u32 at, u64 begin, u64 end) const {
        const FullEmptySegment<u32>& segment = this->segment(at);
        const u32 first = u32(begin / segment.settings.packet_items);
        const u32 last = u32((end - 1) / segment.settings.packet_items);
        return segment.wait_full(first, last - first + 1);
    }
    __device__ const u32* input(u32 at) const { return segment(at).items.items; }
};

// Inputs come packet by packet in the host's memory, from where blocks fetch them for
// each other.
struct Pulled {
    Coming from, to;
    __device__ bool begin() const {
        // Each packet has a block, if there are as many.
        const u32 most = max(max(to.one.packets(), to.two.packets()), to.three.packets());
        for (u32 turn = blockIdx.x; turn < 3 * most; turn += gridDim.x) {
            const FullEmptySegment<u32>& segment = to.segment(turn / most);
            const u32 packet = turn % most;
            if (segment.begin(packet) == segment.end(packet)) continue;
            if (!segment.pull(from.segment(turn / most), packet)) return false;
        }
        return true;
    }
    __device__ bool wait(u32 at, u64 begin, u64 end) const { return to.wait(at, begin, end); }
    __device__ const u32* input(u32 at) const { return to.input(at); }
};

// The host copies the output when the kernel has ended.
struct AtEnd {
    Span<u32> items;
    Span<u32> counts;  // The last word counts tiles, where they are added up.
    __device__ u32* output() const { return items.items; }
    __device__ void publish(u32) const {}
    __device__ bool arrive(u32 tiles) const {
        bool is_last = true;
        __syncthreads();
        if (threadIdx.x == 0) {
            u32* arrived = &counts[counts.len - 1];
            is_last = fetch_add_acq_rel_gpu(arrived, 1u) + 1 == tiles;
            if (is_last) store_relaxed_gpu(arrived, 0u);
        }
        return __syncthreads_and(is_last);
    }
    __device__ void mark_full() const {}
};

// Tiles of the output leave when they are done.
struct Leaving {
    FullEmptySegment<u32> segment;
    __device__ u32* output() const { return segment.items.items; }
    __device__ void publish(u32 tile) const { segment.publish(tile); }
    __device__ bool arrive(u32) const { return segment.arrive(0); }
    __device__ void mark_full() const {
        __syncthreads();
        if (threadIdx.x == 0) segment.mark_full(0);
    }
};

__device__ __forceinline__ float number(const u32* items, u64 at) {
    return __uint_as_float(items[at]);
}

template <class Source, class Sink>
__device__ bool vectorAdd(const Source& from, const Sink& to, Span<u32>, Parameters p, u32 tile) {
    const u64 begin = u64(tile) * p.tile, end = min(begin + p.tile, u64(p.items));
    if (!from.wait(0, begin, end) || !from.wait(1, begin, end)) return false;
    const u32 *a = from.input(0), *b = from.input(1);
    u32* out = to.output();
    for (u64 at = begin + threadIdx.x; at < end; at += blockDim.x)
        out[at] = __float_as_uint(number(a, at) + number(b, at));
    to.publish(tile);
    return true;
}

// Matrices are up to MOST_WIDE wide, a tile is up to TILE_ROWS rows of the product, and
// the rows of B are waited for some at a time: products of those that are there are
// added up while others come.
constexpr u32 MOST_WIDE = 1024, TILE_ROWS = 8, THREADS = 256, ROWS_AT_A_TIME = 96;

// The tile, with its rows of A in the block's own memory, column by column.
template <u32 COLUMNS, class Source>
__device__ bool product(const Source& from, u32* out, Parameters p, u64 begin, u64 end,
                        const float (*rows)[TILE_ROWS]) {
    const u32* b = from.input(1);
    u32 column[COLUMNS];
    for (u32 turn = 0; turn < COLUMNS; ++turn) column[turn] = threadIdx.x + turn * THREADS;
    float sum[TILE_ROWS][COLUMNS] = {};
    for (u32 first = 0; first < p.width; first += ROWS_AT_A_TIME) {
        const u32 last = min(first + ROWS_AT_A_TIME, p.width);
        if (!from.wait(1, u64(first) * p.width, u64(last) * p.width)) return false;
#pragma unroll 8
        for (u32 k = first; k < last; ++k) {
            float row[TILE_ROWS];
#pragma unroll
            for (u32 at = 0; at < TILE_ROWS; ++at) row[at] = rows[k][at];
#pragma unroll
            for (u32 turn = 0; turn < COLUMNS; ++turn) {
                const float item = number(b, k * p.width + min(column[turn], p.width - 1));
#pragma unroll
                for (u32 at = 0; at < TILE_ROWS; ++at) sum[at][turn] += row[at] * item;
            }
        }
    }
#pragma unroll
    for (u32 at = 0; at < TILE_ROWS; ++at)
#pragma unroll
        for (u32 turn = 0; turn < COLUMNS; ++turn) {
            const u64 item = begin + u64(at) * p.width + column[turn];
            if (column[turn] < p.width && item < end) out[item] = __float_as_uint(sum[at][turn]);
        }
    return true;
}

template <class Source, class Sink>
__device__ bool matrixMul(const Source& from, const Sink& to, Span<u32>, Parameters p, u32 tile) {
    const u64 begin = u64(tile) * p.tile, end = min(begin + p.tile, u64(p.items));
    if (!from.wait(0, begin, end)) return false;
    const u32* a = from.input(0);
    __shared__ alignas(16) float rows[MOST_WIDE][TILE_ROWS];
    // The block's tile before has been multiplied.
    __syncthreads();
    for (u32 at = threadIdx.x; at < TILE_ROWS * p.width; at += THREADS)
        rows[at % p.width][at / p.width] = begin + at < end ? number(a, begin + at) : 0;
    __syncthreads();
    u32* out = to.output();
    bool is_there = false;
    switch ((p.width + THREADS - 1) / THREADS) {
        case 1: is_there = product<1>(from, out, p, begin, end, rows); break;
        case 2: is_there = product<2>(from, out, p, begin, end, rows); break;
        case 3: is_there = product<3>(from, out, p, begin, end, rows); break;
        case 4: is_there = product<4>(from, out, p, begin, end, rows); break;
    }
    if (!is_there) return false;
    to.publish(tile);
    return true;
}

// A tile is some words of four bytes each; the output is 64 counts.
template <class Source, class Sink>
__device__ bool histogram64(const Source& from, const Sink& to, Span<u32> counts, Parameters p,
                            u32 tile) {
    __shared__ u32 bins[64];
    const u64 begin = u64(tile) * p.tile, end = min(begin + p.tile, u64(p.items));
    if (!from.wait(0, begin, end)) return false;
    const u32* input = from.input(0);
    if (threadIdx.x < 64) bins[threadIdx.x] = 0;
    __syncthreads();
    for (u64 at = begin + threadIdx.x; at < end; at += blockDim.x) {
        const u32 word = input[at];
        for (u32 shift = 2; shift < 32; shift += 8) atomicAdd(&bins[(word >> shift) & 63], 1u);
    }
    __syncthreads();
    if (threadIdx.x < 64 && bins[threadIdx.x] != 0)
        fetch_add_relaxed_gpu(&counts[threadIdx.x], bins[threadIdx.x]);
    if (!to.arrive(p.tiles)) return true;
    if (threadIdx.x < 64)
        to.output()[threadIdx.x] = fetch_exchange_relaxed_gpu(&counts[threadIdx.x], 0u);
    to.mark_full();
    return true;
}

__device__ __forceinline__ float cumulative(float d) {
    const float k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
    const float tail = 0.39894228f * expf(-0.5f * d * d) *
        (k * (0.31938153f + k * (-0.356563782f +
            k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f)))));
    return d > 0 ? 1.0f - tail : tail;
}

// Call and put of each option, side by side.
template <class Source, class Sink>
__device__ bool BlackScholes(const Source& from, const Sink& to, Span<u32>, Parameters p,
                             u32 tile) {
    const u64 begin = u64(tile) * p.tile, end = min(begin + p.tile, u64(p.items));
    for (u32 input = 0; input < 3; ++input)
        if (!from.wait(input, begin, end)) return false;
    const u32 *prices = from.input(0), *strikes = from.input(1), *years = from.input(2);
    uint2* out = reinterpret_cast<uint2*>(to.output());
    for (u64 at = begin + threadIdx.x; at < end; at += blockDim.x) {
        const float price = number(prices, at), strike = number(strikes, at);
        const float time = number(years, at), root = sqrtf(time), rate = 0.02f, spread = 0.3f;
        const float d1 =
            (logf(price / strike) + (rate + 0.5f * spread * spread) * time) / (spread * root);
        const float n1 = cumulative(d1), n2 = cumulative(d1 - spread * root);
        const float later = strike * expf(-rate * time);
        out[at] = make_uint2(__float_as_uint(price * n1 - later * n2),
                             __float_as_uint(later * (1 - n2) - price * (1 - n1)));
    }
    to.publish(tile);
    return true;
}

// Levels from vertex 0, level by level, in one block. The first needs the arcs of the
// source, the next ones all.
template <class Source, class Sink>
__device__ bool BFS(const Source& from, const Sink& to, Span<u32> levels, Parameters p, u32) {
    for (u32 at = threadIdx.x; at < p.width; at += blockDim.x) levels[at] = at == 0 ? 0 : ~0u;
    if (!from.wait(0, 0, p.width + 1)) return false;
    const u32 *offsets = from.input(0), *targets = from.input(1);
    bool goes_on = true;
    for (u32 level = 0; goes_on; ++level) {
        if (level <= 1 && !from.wait(1, 0, offsets[level == 0 ? 1 : p.width])) return false;
        // All levels are there before any is written again.
        if (level == 0) __syncthreads();
        bool found = false;
        for (u32 vertex = threadIdx.x; vertex < p.width; vertex += blockDim.x) {
            if (levels[vertex] != level) continue;
            for (u32 arc = offsets[vertex]; arc < offsets[vertex + 1]; ++arc)
                if (levels[targets[arc]] == ~0u) {
                    levels[targets[arc]] = level + 1;
                    found = true;
                }
        }
        goes_on = __syncthreads_or(found);
    }
    for (u32 at = threadIdx.x; at < p.width; at += blockDim.x) to.output()[at] = levels[at];
    to.publish(0);
    return true;
}

// One step of a thermal stencil: a tile is some rows, and needs those beside them.
template <class Source, class Sink>
__device__ bool HotSpot(const Source& from, const Sink& to, Span<u32>, Parameters p, u32 tile) {
    const u64 begin = u64(tile) * p.tile, end = min(begin + p.tile, u64(p.items)), width = p.width;
    const u64 above = begin < width ? 0 : begin - width, below = min(end + width, u64(p.items));
    if (!from.wait(0, above, below) || !from.wait(1, begin, end)) return false;
    const u32 *heat = from.input(0), *power = from.input(1);
    u32* out = to.output();
    for (u64 at = begin + threadIdx.x; at < end; at += blockDim.x) {
        const u64 column = at % width;
        const float here = number(heat, at);
        const float north = at < width ? here : number(heat, at - width);
        const float south = at + width >= p.items ? here : number(heat, at + width);
        const float west = column == 0 ? here : number(heat, at - 1);
        const float east = column + 1 == width ? here : number(heat, at + 1);
        const float change = number(power, at) + 0.1f * (north + south - 2 * here) +
            0.1f * (east + west - 2 * here) + 0.05f * (80.0f - here);
        out[at] = __float_as_uint(here + 0.5f * change);
    }
    to.publish(tile);
    return true;
}

// Longest prefix of 24 bits, then of 32, in a table that stays on the device: 2^16
// entries by the upper half, of which one in four points to 256 more.
template <class Source, class Sink>
__device__ bool FIBLookup(const Source& from, const Sink& to, Span<u32> table, Parameters p,
                          u32 tile) {
    const u64 begin = u64(tile) * p.tile, end = min(begin + p.tile, u64(p.items));
    if (!from.wait(0, begin, end)) return false;
    const u32* addresses = from.input(0);
    u32* out = to.output();
    for (u64 at = begin + threadIdx.x; at < end; at += blockDim.x) {
        const u32 address = addresses[at];
        u32 hop = table[address >> 16];
        if (hop >> 31) hop = table[65536 + (hop & 0xffff) * 256 + (address >> 8 & 255)];
        out[at] = hop;
    }
    to.publish(tile);
    return true;
}

#define TILES(name)                                                                        \
    if (!from.begin()) return;                                                             \
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x)                         \
        if (!name(from, to, table, p, tile)) return;

// The output is copied when the kernel has ended.
#define AT_END(name, mode, Source)                                                         \
    extern "C" __global__ void name##_##mode(Source from, Span<u32> output,                \
                                             Span<u32> table, Parameters p) {              \
        const AtEnd to{output, table};                                                     \
        TILES(name)                                                                        \
    }

// Tiles of the output leave when they are done.
#define LEAVING(name, mode, Source)                                                        \
    extern "C" __global__ void name##_##mode(Source from, FullEmptySegment<u32> output,    \
                                             Span<u32> table, Parameters p) {              \
        const Leaving to{output};                                                          \
        TILES(name)                                                                        \
    }

// Called with the inputs, the output, a table or room for results, and the parameters.
#define WORKLOAD(name)                                                                     \
    AT_END(name, plain, Present)                                                           \
    LEAVING(name, return, Present)                                                         \
    AT_END(name, early, Coming)                                                            \
    LEAVING(name, full, Coming)                                                            \
    AT_END(name, early_pulled, Pulled)                                                     \
    LEAVING(name, full_pulled, Pulled)
