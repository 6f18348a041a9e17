// PageRank by pushing residuals on the worklist (Ben-Nun et al., Groute, ACM TOPC
// 7(3), art. 18, 2020, section 4.6.3); the twin of `push.rs`.
#pragma once

#include "owners.cuh"
#include "vertex_packet.cuh"

namespace millstream {

template <class Real>
struct Bits;

template <>
struct Bits<float> {
    using Word = u32;
    __device__ static float value(u32 word) { return __uint_as_float(word); }
};

template <>
struct Bits<double> {
    using Word = u64;
    __device__ static double value(u64 word) { return __longlong_as_double(word); }
};

// How a push goes; `Settings` of `push.rs`.
struct PushSettings {
    double damping;
    double threshold;
    double top;
    // Of each vertex.
    u64 most_pushes;
};

template <class Real>
struct PushPageRank {
    // What goes along each arc, without its weight.
    using State = Real;
    using Packet = VertexPacket<Real>;
    using Word = typename Bits<Real>::Word;

    struct Arc {
        u32 target;
        Real weight;
    };

    struct Problem {
        // Row index, targets and weights of the owned vertices; no weights if
        // arcs count once each.
        Span<const u64> offsets;
        Span<const u32> targets;
        Span<const Real> weights;
        // 0 for a vertex that no step leaves along an arc.
        Span<const Real> inverse_row_weights;
        // What a push of each vertex of all costs, in arcs; at least 1.
        Span<const Real> costs;
        Span<Word> residuals;
        // Of the owned vertices.
        Span<Word> ranks;
        // How often each has been pushed.
        Span<u32> pushes;
        // What the dangling vertices have given: the bits of a double.
        Span<u64> leaked;
        Owners owners;
        PushSettings settings;
    };

    // Adds to a residual; the one before.
    __device__ static Real add(const Problem& problem, u32 vertex, Real value) {
        return atomicAdd(reinterpret_cast<Real*>(&problem.residuals[vertex]), value);
    }

    // Takes a residual, and leaves 0.
    __device__ static Real take(const Problem& problem, u32 vertex) {
        return Bits<Real>::value(fetch_exchange_relaxed_gpu(&problem.residuals[vertex], Word(0)));
    }

    __device__ static u32 unpack(const Problem&, const Here&, const Packet& packet) {
        return packet.vertex;
    }

    // Whatever has come together for a vertex goes out at once.
    __device__ static Packet pack(const Problem& problem, const Here&, u32 vertex) {
        Packet packet{};
        packet.value = take(problem, vertex);
        packet.vertex = vertex;
        return packet;
    }

    __device__ static Flags on_send(const Problem& problem, const Here& here, u32 vertex) {
        return problem.owners.owns(here, vertex) ? Flags::keep : Flags::pass;
    }

    __device__ static Flags on_receive(const Problem& problem, const Here& here,
                                       const Packet& packet) {
        const Real before = add(problem, packet.vertex, packet.value);
        if (!problem.owners.owns(here, packet.vertex)) return Flags::pass;
        const bool is_worth = crosses(problem, packet.vertex, before, packet.value);
        return is_worth ? Flags::keep : Flags::drop;
    }

    __device__ static Real magnitude(Real value) { return value < 0 ? -value : value; }

    // Of an owned vertex: whether its residual has become worth a push.
    __device__ static bool crosses(const Problem& problem, u32 vertex, Real before,
                                   Real value) {
        const Real unit = Real(problem.settings.threshold);
        // No push costs less: most need no look at theirs.
        if (magnitude(before + value) <= unit) return false;
        const Real threshold = unit * problem.costs[vertex];
        return magnitude(before) <= threshold && magnitude(before + value) > threshold;
    }

    // What brings much for its cost goes first, in so many steps to each halving:
    // small residuals come together meanwhile, and are pushed once. `push.rs` has it.
    static constexpr float steps_of_halving = 4;

    __device__ static u32 priority(const Problem& problem, u32 vertex) {
        const Real residual = Bits<Real>::value(load_relaxed_gpu(&problem.residuals[vertex]));
        return priority_of(problem, vertex, residual);
    }

    __device__ static u32 priority_of(const Problem& problem, u32 vertex, Real residual) {
        residual = magnitude(residual);
        if (!(residual > 0)) return 0;
        // A conversion stays in the range of the type.
        const float top = float(problem.settings.top) * float(problem.costs[vertex]);
        return __float2uint_rz(steps_of_halving * __log2f(top / float(residual)));
    }

    __device__ static u32 owner(const Problem& problem, u32 vertex) {
        return problem.owners.owner(vertex);
    }

    __device__ static State begin(const Problem& problem, const Here& here, u32 vertex,
                                  u64* first, u64* last) {
        const u32 row = problem.owners.row(here, vertex);
        const Real residual = take(problem, vertex);
        if (fetch_add_relaxed_gpu(&problem.pushes[row], 1u) >= problem.settings.most_pushes) {
            add(problem, vertex, residual);
            return 0;
        }
        atomicAdd(reinterpret_cast<Real*>(&problem.ranks[row]), residual);
        const Real share = Real(problem.settings.damping) * residual;
        const Real inverse = problem.inverse_row_weights[row];
        if (inverse == 0) {
            atomicAdd(reinterpret_cast<double*>(&problem.leaked[0]), double(share));
            return 0;
        }
        *first = problem.offsets[row];
        *last = problem.offsets[row + 1];
        return share * inverse;
    }

    __device__ static Arc arc(const Problem& problem, u64 at) {
        return Arc{problem.targets[at], problem.weights.len ? problem.weights[at] : Real(1)};
    }

    __device__ static bool visit(const Problem& problem, const Here& here, State share,
                                 const Arc& arc, u32* priority, u32*) {
        const Real value = share * arc.weight;
        if (value == 0) return false;
        const Real before = add(problem, arc.target, value);
        // Small residuals of one device may be large together: all are sent. One
        // that is not sent yet takes this one along.
        const bool emits = problem.owners.owns(here, arc.target)
                               ? crosses(problem, arc.target, before, value)
                               : before == 0;
        if (emits) *priority = priority_of(problem, arc.target, before + value);
        return emits;
    }
};

}  // namespace millstream
