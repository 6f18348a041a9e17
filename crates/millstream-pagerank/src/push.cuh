// PageRank by pushing residuals on the worklist (Ben-Nun et al., Groute, ACM TOPC
// 7(3), art. 18, 2020, section 4.6.3); the twin of `push.rs`.
#pragma once

#include "vertex_program.cuh"

namespace millstream {

// How a push goes; `Settings` of `push.rs`.
struct PushSettings {
    double damping;
    double threshold;
    double top;
    u64 first;
};

// Ranks and residuals are doubles, since many small ones are added up.
template <class Weight>
struct PushPageRank : VertexProgram<PushPageRank<Weight>, double> {
    // What goes along each arc, without its weight.
    using State = double;

    struct Arc {
        u32 target;
        double weight;
    };

    struct Problem {
        // Row index, targets and weights of the owned vertices; no weights if
        // arcs count once each.
        Span<const u64> offsets;
        Span<const u32> targets;
        Span<const Weight> weights;
        // 0 for a vertex that no step leaves along an arc.
        Span<const double> inverse_row_weights;
        // What a push of each owned vertex costs, in arcs; at least 1.
        Span<const float> costs;
        // The bits of doubles, as are ranks.
        Span<u64> residuals;
        // Of the owned vertices.
        Span<u64> ranks;
        // The pushes and arcs that the device may still do.
        Span<u64> allowance;
        Owners owners;
        PushSettings settings;
    };

    // Adds to a word; returns its value before.
    __device__ static double add(u64& word, double value) {
        return atomicAdd(reinterpret_cast<double*>(&word), value);
    }

    // Takes a residual, and leaves 0.
    __device__ static double take(const Problem& problem, u32 vertex) {
        return __longlong_as_double(
            fetch_exchange_relaxed_gpu(&problem.residuals[vertex], u64(0)));
    }

    // All that has come together for a vertex is sent at once.
    __device__ static double value(const Problem& problem, u32 vertex) {
        return take(problem, vertex);
    }

    __device__ static bool receive(const Problem& problem, u32 vertex, double value,
                                   bool is_own) {
        const double before = add(problem.residuals[vertex], value);
        return !is_own || crosses(problem, vertex, before, value);
    }

    // What a push of an owned vertex costs.
    __device__ static float cost(const Problem& problem, u32 vertex) {
        return problem.costs[vertex - problem.settings.first];
    }

    // Whether the residual of an owned vertex has now become worth a push.
    __device__ static bool crosses(const Problem& problem, u32 vertex, double before,
                                   double value) {
        const double unit = problem.settings.threshold;
        // No push costs less than 1: most vertices need no look at their cost.
        if (fabs(before + value) <= unit) return false;
        const double threshold = unit * cost(problem, vertex);
        return fabs(before) <= threshold && fabs(before + value) > threshold;
    }

    // Pushes that bring much for their cost go first, in this many steps for each halving: small
    // residuals come together meanwhile, and are pushed once. `push.rs` has the same.
    static constexpr float steps_of_halving = 4;

    __device__ static u32 priority(const Problem& problem, u32 vertex) {
        const u64 bits = load_relaxed_gpu(&problem.residuals[vertex]);
        return priority_of(problem, vertex, __longlong_as_double(bits));
    }

    // The priority of an owned vertex with this residual.
    __device__ static u32 priority_of(const Problem& problem, u32 vertex, double residual) {
        const float now = float(fabs(residual));
        if (!(now > 0)) return 0;
        // The conversion saturates at the range of the type.
        const float top = float(problem.settings.top) * cost(problem, vertex);
        return __float2uint_rz(steps_of_halving * __log2f(top / now));
    }

    // Whether something was left of the allowance before this push and its arcs. All pushes of a
    // device take from it, so those of a warp that come here together take at once.
    __device__ static bool is_allowed(const Problem& problem, u32 work) {
        const u32 together = __activemask();
        const u32 leader = __ffs(together) - 1;
        // In parts: 32 rows may have more than 2^32 arcs.
        const u64 low = __reduce_add_sync(together, work & 0xffff);
        const u64 high = __reduce_add_sync(together, work >> 16);
        u64 left = 0;
        // Relaxed: only how much is left counts.
        if (lane() == leader)
            left = fetch_add_relaxed_gpu(&problem.allowance[0], 0 - (low + (high << 16)));
        return static_cast<long long>(__shfl_sync(together, left, leader)) > 0;
    }

    __device__ static State begin(const Problem& problem, const Here& here, u32 vertex,
                                  u64* first, u64* last) {
        const u32 row = problem.owners.row(here, vertex);
        const u64 begins = problem.offsets[row];
        const u64 ends = problem.offsets[row + 1];
        if (!is_allowed(problem, u32(ends - begins + 1))) return 0;
        const double residual = take(problem, vertex);
        add(problem.ranks[row], residual);
        const double share = problem.settings.damping * residual;
        const double inverse = problem.inverse_row_weights[row];
        // What dangling vertices give is seen in their ranks.
        if (inverse == 0) return 0;
        *first = begins;
        *last = ends;
        return share * inverse;
    }

    __device__ static Arc arc(const Problem& problem, u64 at) {
        return Arc{problem.targets[at], problem.weights.len ? double(problem.weights[at]) : 1.0};
    }

    __device__ static bool visit(const Problem& problem, const Here& here, State share,
                                 const Arc& arc, u32* priority, u32*) {
        const double value = share * arc.weight;
        if (value == 0) return false;
        const double before = add(problem.residuals[arc.target], value);
        // All residuals of others' vertices are sent, since small ones of several devices may be
        // large together. One that is not sent yet takes this one along.
        if (!problem.owners.owns(here, arc.target)) return before == 0;
        if (!crosses(problem, arc.target, before, value)) return false;
        *priority = priority_of(problem, arc.target, before + value);
        return true;
    }
};

}  // namespace millstream
