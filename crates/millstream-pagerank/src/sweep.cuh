// One sweep of PageRank by pulling: every vertex adds up what its predecessors give;
// the twin of `sweep.rs`. Rows of the transposed graph lie as `slices.rs` says.
#pragma once

#include "span.cuh"

namespace millstream {

// In the place of a source where there is none.
constexpr u32 no_source = ~0u;

template <class Real>
struct SweepGraph {
    // Where the arcs of each long row and then of each slice begin, and the end.
    Span<const u64> offsets;
    Span<const u32> sources;
    // Empty if arcs count once each.
    Span<const Real> weights;
};

// Of the owned vertices.
template <class Real>
struct SweepVertices {
    // The total weight of the arcs that leave; 0 for a vertex that no step leaves.
    Span<const Real> row_weights;
    // What each gets from nowhere; empty if it is the same for all: then `base` has it.
    Span<const Real> teleport;
};

struct SweepSettings {
    double damping;
    // What every vertex gets from nowhere and from the dangling ones.
    double base;
    u32 first_vertex;
    // Rows that all blocks share come first, then rows for a block each, rows for a warp each, and
    // slices. Each of these counts includes the ones before it.
    u32 shared_rows;
    u32 block_rows;
    u32 long_rows;
    // Slices with so many columns that a ticket is for one only; they come before all others.
    u32 wide_slices;
    u32 padding;
};

template <class Real>
struct SweepSums {
    Real change;
    Real dangling;
};

// What is read once in a sweep leaves the cache first.
__device__ __forceinline__ u32 load_once(const u32* place) { return __ldcs(place); }
__device__ __forceinline__ float load_once(const float* place) { return __ldcs(place); }
__device__ __forceinline__ double load_once(const double* place) { return __ldcs(place); }

__device__ __forceinline__ float quotient(float of, float by) { return __fdividef(of, by); }
__device__ __forceinline__ double quotient(double of, double by) { return of / by; }

// Work that warps take one after the other, the longest first. The counter only grows:
// in each sweep every warp takes one ticket too many, by which it learns that none is left.
struct Tickets {
    u64* counter;
    // Tickets of earlier sweeps.
    u64 taken;

    // One warp.
    __device__ __forceinline__ u64 take() const {
        u64 ticket = 0;
        // Relaxed: tickets order nothing.
        if (lane() == 0) ticket = fetch_add_relaxed_gpu(counter, u64(1)) - taken;
        return __shfl_sync(~0u, ticket, 0);
    }
};

// `loads`: arcs that a thread has in flight. `is_plain`: there are no long rows, no
// weights, and what comes from nowhere is the same for all; rows need no tickets then.
template <class Real, u32 loads, bool is_plain>
struct Sweep {
    // Slices of a ticket, unless they are wide.
    static constexpr u32 slices = 4;
    // Arcs of a row that a block adds up at a time, if all share it.
    static constexpr u32 piece = 1 << 15;

    // `given`: what the vertices of all devices give. `parts`: for each row that blocks share, the bits of
    // its sum, and how many pieces are in it; 0 between sweeps.
    __device__ Sweep(const SweepGraph<Real>& graph, const SweepVertices<Real>& vertices,
                     const SweepSettings& settings, const Real* given, u64* parts)
        : graph(graph), vertices(vertices), settings(settings), given(given), parts(parts),
          damping(Real(settings.damping)), base(Real(settings.base)) {}

    // Tickets that all warps take in a sweep.
    __device__ u64 tickets_of_sweep() const { return tickets() + threads_in_grid() / 32; }

    // `give(item, row, share)` tells what a row gives from now on, in groups of threads
    // with the same item.
    template <class Give>
    __device__ __forceinline__ SweepSums<Real> rows(const Tickets& tickets,
                                                    const Give& give) const {
        SweepSums<Real> sums{0, 0};
        if (is_plain) {
            slices_in_turn(give, sums);
            return sums;
        }
        rows_of_blocks(shared_rows(give, sums), give, sums);
        const u64 count = this->tickets();
        const u32 long_rows = settings.long_rows - settings.block_rows;
        for (u64 ticket = tickets.take(), next; ticket < count; ticket = next) {
            // On its way during the work.
            next = tickets.take();
            if (ticket < long_rows) {
                const u32 row = settings.block_rows + u32(ticket);
                const double sum = sum_of_warp(sum_of_arcs(row));
                if (lane() == 0) settle(row, row, before(row), sum, give, sums);
                continue;
            }
            const u32 at = u32(ticket) - long_rows, wide = settings.wide_slices;
            const u32 first = at < wide ? at : wide + (at - wide) * slices;
            const u32 last = first + (at < wide ? 1 : slices);
            for (u32 item = settings.long_rows + first;
                 item < settings.long_rows + last && item < items(); ++item)
                slice(item, [&] { return sum_of_arcs(item); }, give, sums);
        }
        return sums;
    }

   private:
    const SweepGraph<Real>& graph;
    const SweepVertices<Real>& vertices;
    const SweepSettings& settings;
    const Real* given;
    u64* const parts;
    // Converted once.
    Real damping;
    Real base;

    struct Before {
        Real share;
        Real row_weight;
    };

    __device__ __forceinline__ u32 items() const { return u32(graph.offsets.len) - 1; }

    // For rows of warps and for slices.
    __device__ __forceinline__ u64 tickets() const {
        const u32 narrow = items() - settings.long_rows - settings.wide_slices;
        return settings.long_rows - settings.block_rows + settings.wide_slices +
               (narrow + slices - 1) / slices;
    }

    template <class Give>
    __device__ __forceinline__ void slices_in_turn(const Give& give,
                                                   SweepSums<Real>& sums) const {
        const u32 warps = u32(threads_in_grid() / 32), last = items();
        u32 item = u32(thread_in_grid() / 32);
        if (item >= last) return;
        u32 begin = column(item), end = column(item + 1);
        for (u32 next; item < last; item = next) {
            next = item + warps;
            u32 next_begin = 0, next_end = 0;
            // On their way during the work.
            if (next < last) {
                next_begin = column(next);
                next_end = column(next + 1);
            }
            const auto sum = [&] { return sum_of_columns(begin, end); };
            slice(item, sum, give, sums);
            begin = next_begin;
            end = next_end;
        }
    }

    // Where a slice begins if there are no long rows, in columns of 32 arcs.
    __device__ __forceinline__ u32 column(u32 slice) const {
        return u32(graph.offsets[slice] / 32);
    }

    template <class Sum, class Give>
    __device__ __forceinline__ void slice(u32 item, const Sum& sum_of_arcs, const Give& give,
                                          SweepSums<Real>& sums) const {
        const u32 long_rows = is_plain ? 0 : settings.long_rows;
        const u32 row = long_rows + (item - long_rows) * 32 + lane();
        const bool exists = row < vertices.row_weights.len;
        // On its way while the arcs are.
        const Before known = exists ? before(row) : Before{0, 0};
        const double sum = sum_of_arcs();
        if (exists) settle(item, row, known, sum, give, sums);
    }

    // Pieces go to one block after the other. Returns the block whose turn is next.
    template <class Give>
    __device__ __forceinline__ u32 shared_rows(const Give& give, SweepSums<Real>& sums) const {
        u32 next = 0;
        for (u32 row = 0; row < settings.shared_rows; ++row) {
            const u64 begin = graph.offsets[row], arcs = graph.offsets[row + 1] - begin;
            const u32 pieces = u32((arcs + piece - 1) / piece);
            for (u32 at = behind(next); at < pieces; at += gridDim.x) {
                const u64 first = begin + u64(at) * piece;
                const u64 last = at + 1 < pieces ? first + piece : begin + arcs;
                const double sum = sum_of_block_arcs(first, last);
                if (threadIdx.x == 0) add_piece(row, sum, pieces, give, sums);
            }
            next = (next + pieces) % gridDim.x;
        }
        return next;
    }

    // How many blocks' turns after another's this block's turn comes, cyclically.
    __device__ __forceinline__ u32 behind(u32 other) const {
        return blockIdx.x >= other ? blockIdx.x - other : blockIdx.x + gridDim.x - other;
    }

    // One thread of a block. The last piece of a row settles it.
    template <class Give>
    __device__ __forceinline__ void add_piece(u32 row, double sum, u32 pieces, const Give& give,
                                              SweepSums<Real>& sums) const {
        u64* const its = parts + 2 * row;
        atomicAdd(reinterpret_cast<double*>(&its[0]), sum);
        // The last one sees all that others have added.
        if (fetch_add_acq_rel_gpu(&its[1], u64(1)) + 1 < pieces) return;
        const double all = __longlong_as_double(load_relaxed_gpu(&its[0]));
        // Cleared for the next sweep, which nobody begins before this one ends.
        store_relaxed_gpu(&its[0], u64(0));
        store_relaxed_gpu(&its[1], u64(0));
        settle(row, row, before(row), all, give, sums);
    }

    template <class Give>
    __device__ __forceinline__ void rows_of_blocks(u32 first, const Give& give,
                                                   SweepSums<Real>& sums) const {
        for (u32 row = settings.shared_rows + behind(first); row < settings.block_rows;
             row += gridDim.x) {
            const double sum = sum_of_block_arcs(graph.offsets[row], graph.offsets[row + 1]);
            if (threadIdx.x == 0) settle(row, row, before(row), sum, give, sums);
        }
    }

    // The whole block: the sum of some arcs, in its first thread.
    __device__ __forceinline__ double sum_of_block_arcs(u64 begin, u64 end) const {
        __shared__ double of_warps[32];
        const double part = sum_of_warp(sum_of_arcs(begin, end, threadIdx.x, blockDim.x));
        if (lane() == 0) of_warps[threadIdx.x / 32] = part;
        __syncthreads();
        double sum = 0;
        if (threadIdx.x < 32)
            sum = sum_of_warp(lane() < blockDim.x / 32 ? of_warps[lane()] : 0.0);
        __syncthreads();
        return sum;
    }

    __device__ __forceinline__ Before before(u32 row) const {
        return Before{given[settings.first_vertex + row], load_once(&vertices.row_weights[row])};
    }

    __device__ __forceinline__ Real share(u32 source) const {
        return source == no_source ? Real(0) : given[source];
    }

    // The sum of this thread's row in a slice whose arcs count once each.
    __device__ __forceinline__ double sum_of_columns(u32 column, u32 end) const {
        double sum = 0;
        for (; column < end; column += loads) {
            const u32* const at = graph.sources.items + u64(column) * 32 + lane();
            u32 sources[loads];
            Real shares[loads];
#pragma unroll
            for (u32 each = 0; each < loads; ++each)
                sources[each] = each < end - column ? load_once(at + each * 32) : no_source;
#pragma unroll
            for (u32 each = 0; each < loads; ++each) shares[each] = share(sources[each]);
            sum += sum_of(shares);
        }
        return sum;
    }

    // A lane's part of what its warp adds up of an item.
    __device__ __forceinline__ double sum_of_arcs(u32 item) const {
        return sum_of_arcs(graph.offsets[item], graph.offsets[item + 1], lane(), 32);
    }

    // The sum of every `step`th of some arcs: in long rows, of thousands.
    __device__ __forceinline__ double sum_of_arcs(u64 begin, u64 last, u32 first, u32 step) const {
        double sum = 0;
        for (u64 at = begin + first; at < last; at += u64(loads) * step) {
            u32 sources[loads];
#pragma unroll
            for (u32 each = 0; each < loads; ++each) {
                const u64 arc = at + u64(each) * step;
                sources[each] = arc < last ? load_once(&graph.sources[arc]) : no_source;
            }
            Real shares[loads];
#pragma unroll
            for (u32 each = 0; each < loads; ++each) shares[each] = share(sources[each]);
            if (!is_plain && graph.weights.len != 0) {
#pragma unroll
                for (u32 each = 0; each < loads; ++each) {
                    if (sources[each] == no_source) continue;
                    shares[each] *= load_once(&graph.weights[at + u64(each) * step]);
                }
            }
            sum += sum_of(shares);
        }
        return sum;
    }

    // Added in pairs, which rounds less than one after the other.
    __device__ __forceinline__ static Real sum_of(Real (&shares)[loads]) {
#pragma unroll
        for (u32 half = loads / 2; half > 0; half /= 2) {
#pragma unroll
            for (u32 each = 0; each < half; ++each) shares[each] += shares[each + half];
        }
        return shares[0];
    }

    __device__ __forceinline__ static double sum_of_warp(double sum) {
        for (u32 step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
        return sum;
    }

    // Nobody asks what a dangling vertex gives: its rank is kept in that place. What a few arcs
    // bring is added up in the type of the ranks, and then in f64: without that, ranks of a star of 130 vertices
    // never came to rest.
    template <class Give>
    __device__ __forceinline__ void settle(u32 item, u32 row, Before known, double sum,
                                           const Give& give, SweepSums<Real>& sums) const {
        Real rank = damping * Real(sum) + base;
        if (!is_plain && vertices.teleport.len != 0) rank += vertices.teleport[row];
        const bool dangles = known.row_weight == 0;
        const Real old = dangles ? known.share : known.share * known.row_weight;
        sums.change += rank < old ? old - rank : rank - old;
        if (dangles) sums.dangling += rank;
        // `quotient` is exact to two units, except for divisors that are far from any count of arcs.
        const Real share = is_plain ? quotient(rank, known.row_weight) : rank / known.row_weight;
        give(item, row, dangles ? rank : share);
    }
};

// The sums of a block, in its first thread.
template <class Real>
__device__ SweepSums<double> sum_of_block(const SweepSums<Real>& sums) {
    __shared__ SweepSums<double> parts[32];
    const auto of_warp = [](SweepSums<double> sums) {
        for (u32 step = 16; step > 0; step /= 2) {
            sums.change += __shfl_xor_sync(~0u, sums.change, step);
            sums.dangling += __shfl_xor_sync(~0u, sums.dangling, step);
        }
        return sums;
    };
    const SweepSums<double> part = of_warp({double(sums.change), double(sums.dangling)});
    if (lane() == 0) parts[threadIdx.x / 32] = part;
    __syncthreads();
    if (threadIdx.x >= 32) return part;
    return of_warp(lane() < blockDim.x / 32 ? parts[lane()] : SweepSums<double>{0, 0});
}

}  // namespace millstream
