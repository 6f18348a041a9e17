// Gives the targets in rows new ids, then sorts the rows in place. Rows of up to `rows_of_thread` arcs are
// sorted by a thread each, up to `rows_of_warp` by a warp, longer ones by a block each: in shared memory, or,
// beyond `rows_of_block` arcs, in scratch memory. The twins are in `sort_rows.rs`.
#include "lanes.cuh"

namespace millstream {

enum : u32 { rows_of_thread = 4, rows_of_block = 2048 };

struct RowOrder {
    u32 by_weight;  // Not 0: by weight, then by target; else by target, then by weight.
    u32 is_real;    // Weights are bits of reals.
};

// Arcs, as keys whose order is that of the sorted row.
struct RowArcs {
    const Span<const u32>& new_ids;  // Of all vertices, by the ids that the arcs have; empty if these stay.
    const Span<u32>& targets;
    const Span<u32>& weights;  // Empty, or as many as targets.
    const RowOrder& order;

    template <class Key>
    __device__ Key key(u64 arc) const {
        const u32 named = targets[arc];
        const u32 target = new_ids.len == 0 ? named : new_ids[named];
        if constexpr (sizeof(Key) == 4) {
            return target;
        } else {
            const u32 bits = weights[arc];
            const u32 weight = bits ^ (order.is_real ? flipped(bits >> 31) : 0);
            return order.by_weight ? u64(weight) << 32 | target : u64(target) << 32 | weight;
        }
    }

    template <class Key>
    __device__ void store(u64 arc, Key key) const {
        if constexpr (sizeof(Key) == 4) {
            targets[arc] = key;
        } else {
            const u32 high = u32(key >> 32), low = u32(key);
            const u32 weight = order.by_weight ? high : low;
            targets[arc] = order.by_weight ? low : high;
            weights[arc] = weight ^ (order.is_real ? flipped(~weight >> 31) : 0);
        }
    }

   private:
    // The bits of a real to flip so that reals are ordered as integers: all of a negative one, else its sign.
    __device__ static u32 flipped(u32 is_negative) { return is_negative ? ~0u : 1u << 31; }
};

// Sorts up to 32 keys, one for each lane; lanes without a key have the largest value.
template <class Key>
__device__ Key sorted_in_warp(Key key) {
    for (u32 size = 2; size <= 32; size *= 2) {
        for (u32 step = size / 2; step > 0; step /= 2) {
            const Key other = __shfl_xor_sync(~0u, key, step);
            const bool is_low = (lane() & step) == 0, ascends = (lane() & size) == 0;
            key = (other < key) == (is_low == ascends) ? other : key;
        }
    }
    return key;
}

// Sorts keys by digits of eight bits, the lowest first: all `warps` of a block together, or, if that is 1,
// a warp alone. Each warp has a contiguous share of the keys, and keys with the same digit stay in order.
template <class Key, u32 warps>
class DigitSort {
   public:
    struct Shared {
        u32 places[warps][256];  // Of each warp's next key with each digit.
        u32 sums[warps];
        Key differing[warps];
    };

    __device__ DigitSort(Shared& shared, u32 len)
        : shared(shared),
          warp(warps == 1 ? 0 : threadIdx.x / 32),
          begin(min(warp * share(len), len)),
          end(min(begin + share(len), len)) {}

    // Sorts the keys of a row, in memory with room for twice as many.
    __device__ void sort(const RowArcs& arcs, u64 first, Key* keys, u32 len) const {
        const Key one = arcs.key<Key>(first);
        Key differing = 0;
        for (u32 at = begin + lane(); at < end; at += 32) {
            keys[at] = arcs.key<Key>(first + at);
            differing |= keys[at] ^ one;
        }
        differing = any(differing);
        Key* others = keys + len;
        for (u32 shift = 0; shift < 8 * sizeof(Key); shift += 8) {
            if ((differing >> shift & 255) == 0) continue;
            count(keys, shift);
            find_places();
            move(keys, others, shift);
            Key* const moved = others;
            others = keys;
            keys = moved;
        }
        for (u32 at = begin + lane(); at < end; at += 32) arcs.store(first + at, keys[at]);
        meet();
    }

   private:
    Shared& shared;
    const u32 warp;
    const u32 begin;
    const u32 end;

    __device__ static u32 share(u32 len) { return (len + 32 * warps - 1) / (32 * warps) * 32; }

    __device__ static void meet() {
        if constexpr (warps == 1) {
            __syncwarp();
        } else {
            __syncthreads();
        }
    }

    // The bits that any lane of any warp has set.
    __device__ Key any(Key bits) const {
        for (u32 step = 16; step > 0; step /= 2) bits |= __shfl_xor_sync(~0u, bits, step);
        if (lane() == 0) shared.differing[warp] = bits;
        meet();
        for (u32 other = 0; other < warps; ++other) bits |= shared.differing[other];
        return bits;
    }

    // Calls `see(is_key, key, digit, same)` for each of the warp's keys, where `same` are the lanes
    // with the same digit: all lanes together.
    template <class See>
    __device__ void for_each(const Key* keys, u32 shift, const See& see) const {
        for (u32 first = begin; first < end; first += 32) {
            const u32 at = first + lane();
            const bool is_key = at < end;
            const Key key = is_key ? keys[at] : 0;
            const u32 digit = is_key ? u32(key >> shift) & 255 : 256;
            const u32 same = __match_any_sync(~0u, digit);
            see(is_key, key, digit, same);
            __syncwarp();
        }
    }

    // Counts each warp's keys with each digit.
    __device__ void count(const Key* keys, u32 shift) const {
        u32* const counts = shared.places[warp];
        for (u32 digit = lane(); digit < 256; digit += 32) counts[digit] = 0;
        __syncwarp();
        for_each(keys, shift, [&](bool is_key, Key, u32 digit, u32 same) {
            if (is_key && lane() == __ffs(same) - 1) counts[digit] += __popc(same);
        });
        meet();
    }

    // Finds where each warp's first key with each digit belongs.
    __device__ void find_places() const {
        constexpr u32 threads = 32 * warps;
        constexpr u32 digits = threads < 256 ? 256 / threads : 1;
        const u32 first = (warp * 32 + lane()) * digits;
        u32 sum = 0;
        for (u32 digit = first; digit < first + digits && digit < 256; ++digit) {
            for (u32 other = 0; other < warps; ++other) {
                const u32 its = shared.places[other][digit];
                shared.places[other][digit] = sum;
                sum += its;
            }
        }
        u32 before = prefix_sum(sum);
        if (lane() == 31) shared.sums[warp] = before;
        before -= sum;
        meet();
        for (u32 other = 0; other < warp; ++other) before += shared.sums[other];
        for (u32 digit = first; digit < first + digits && digit < 256; ++digit) {
            for (u32 other = 0; other < warps; ++other) shared.places[other][digit] += before;
        }
        meet();
    }

    __device__ void move(const Key* keys, Key* others, u32 shift) const {
        u32* const places = shared.places[warp];
        for_each(keys, shift, [&](bool is_key, Key key, u32 digit, u32 same) {
            const u32 place = is_key ? places[digit] : 0;
            __syncwarp();
            if (!is_key) return;
            if (lane() == __ffs(same) - 1) places[digit] = place + __popc(same);
            others[place + __popc(same & ((1u << lane()) - 1))] = key;
        });
        meet();
    }
};

template <class Key>
__device__ void order(Key& one, Key& other) {
    const Key smaller = one < other ? one : other;
    other = one < other ? other : one;
    one = smaller;
}

// Sorts a row of `rows_of_thread` arcs at most: a thread.
template <class Key>
__device__ void sort_few(const RowArcs& arcs, u64 first, u32 len) {
    static_assert(rows_of_thread == 4, "compared below");
    Key keys[4];
#pragma unroll
    for (u32 at = 0; at < 4; ++at) keys[at] = at < len ? arcs.key<Key>(first + at) : ~Key(0);
    order(keys[0], keys[1]);
    order(keys[2], keys[3]);
    order(keys[0], keys[2]);
    order(keys[1], keys[3]);
    order(keys[1], keys[2]);
#pragma unroll
    for (u32 at = 0; at < 4; ++at)
        if (at < len) arcs.store(first + at, keys[at]);
}

// Sorts rows that a thread or a warp can sort: each warp takes 32 rows, each lane sorts its own if short.
template <class Key>
__device__ void sort_short_rows(const Span<const u64>& offsets, const RowArcs& arcs) {
    constexpr u32 warps = 8;
    using Sort = DigitSort<Key, 1>;
    __shared__ typename Sort::Shared shared[warps];
    __shared__ Key keys[warps][2 * rows_of_warp];
    const u32 warp = threadIdx.x / 32;
    for (u64 row = thread_in_grid(); row - lane() + 1 < offsets.len; row += threads_in_grid()) {
        const bool is_row = row + 1 < offsets.len;
        const u64 begin = is_row ? offsets[row] : 0;
        const u64 arcs_of_row = is_row ? offsets[row + 1] - begin : 0;
        if (arcs_of_row <= rows_of_thread) sort_few<Key>(arcs, begin, u32(arcs_of_row));
        u32 left = __ballot_sync(~0u, arcs_of_row > rows_of_thread && arcs_of_row <= rows_of_warp);
        for (; left != 0; left &= left - 1) {
            const u32 which = __ffs(left) - 1;
            const u64 first = __shfl_sync(~0u, begin, which);
            const u32 len = __shfl_sync(~0u, u32(arcs_of_row), which);
            if (len > 32) {
                Sort(shared[warp], len).sort(arcs, first, keys[warp], len);
                continue;
            }
            const u64 arc = first + lane();
            const Key key = sorted_in_warp(lane() < len ? arcs.key<Key>(arc) : ~Key(0));
            if (lane() < len) arcs.store(arc, key);
        }
    }
}

// Sorts rows that need a block of `warps` warps each.
template <class Key, u32 warps>
__device__ void sort_long_rows(const Span<const LongRow>& rows, u64* scratch, const RowArcs& arcs) {
    using Sort = DigitSort<Key, warps>;
    __shared__ typename Sort::Shared shared;
    // Smaller blocks have rows that are short enough for shared memory.
    constexpr bool is_own = warps < 32;
    __shared__ Key own[is_own ? 2 * rows_of_block : 1];
    for (u64 at = blockIdx.x; at < rows.len; at += gridDim.x) {
        const LongRow row = rows[at];
        Key* const keys = is_own ? own : reinterpret_cast<Key*>(scratch + row.scratch);
        Sort(shared, row.arcs).sort(arcs, row.begin, keys, row.arcs);
    }
}

}  // namespace millstream

using namespace millstream;

#if MILLSTREAM_ROWS_WEIGH
using RowKey = u64;
#else
using RowKey = u32;
#endif

extern "C" __global__ __launch_bounds__(256, 4) void sort_short_rows(
    const __grid_constant__ Span<const u64> offsets, const __grid_constant__ Span<const u32> new_ids,
    const __grid_constant__ Span<u32> targets, const __grid_constant__ Span<u32> weights,
    const __grid_constant__ RowOrder order) {
    sort_short_rows<RowKey>(offsets, RowArcs{new_ids, targets, weights, order});
}

extern "C" __global__ __launch_bounds__(256) void sort_long_rows(
    const __grid_constant__ Span<const LongRow> rows, const __grid_constant__ Span<const u32> new_ids,
    const __grid_constant__ Span<u32> targets, const __grid_constant__ Span<u32> weights,
    const __grid_constant__ RowOrder order) {
    sort_long_rows<RowKey, 8>(rows, nullptr, RowArcs{new_ids, targets, weights, order});
}

extern "C" __global__ __launch_bounds__(1024) void sort_longest_rows(
    const __grid_constant__ Span<const LongRow> rows, const __grid_constant__ Span<u64> scratch,
    const __grid_constant__ Span<const u32> new_ids, const __grid_constant__ Span<u32> targets,
    const __grid_constant__ Span<u32> weights, const __grid_constant__ RowOrder order) {
    sort_long_rows<RowKey, 32>(rows, scratch.items, RowArcs{new_ids, targets, weights, order});
}
