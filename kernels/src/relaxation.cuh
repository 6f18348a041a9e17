// Relaxation on the worklist (Ben-Nun et al., Groute, ACM TOPC 7(3), art. 18, 2020,
// figure 11), which breadth-first search and shortest paths are cases of; the twin
// of `relaxation.rs` of the traversal crate.
//
// A rule is a class with a type Weight and
//   least_step                                     every arc adds this at least
//   has_weights                                    whether arcs have any
//   u32 extended(key, weight)                      the key at the end of an arc
//   u32 priority(key, settings)                    lower ones run first
#pragma once

#include "owners.cuh"
#include "vertex_packet.cuh"

namespace millstream {

// What a vertex holds: its key, perhaps with the predecessor that gave it.
__device__ __forceinline__ u32 key_of(u32 value) { return value; }
__device__ __forceinline__ u32 key_of(u64 value) { return u32(value >> 32); }
__device__ __forceinline__ void make_value(u32 key, u32, u32* value) { *value = key; }
__device__ __forceinline__ void make_value(u32 key, u32 predecessor, u64* value) {
    *value = u64(key) << 32 | predecessor;
}

// Puts a value in place of one with a larger key; the one before.
__device__ __forceinline__ u32 lower_value(u32* place, u32 value) {
    // A plain look first: most arcs lead to settled vertices.
    const u32 before = load_relaxed_gpu(place);
    return before <= value ? before : fetch_min_relaxed_gpu(place, value);
}

// A predecessor stays with the same key: paths of weight 0 make no cycle.
__device__ __forceinline__ u64 lower_value(u64* place, u64 value) {
    u64 before = load_relaxed_gpu(place);
    while (key_of(value) < key_of(before)) {
        const u64 now = compare_exchange_relaxed_gpu(place, before, value);
        if (now == before) break;
        before = now;
    }
    return before;
}

struct RelaxationSettings {
    u32 limit;
    u32 halo_filter;
    float priority_scale;
};

template <class Rule, class Value>
struct Relaxation {
    // What goes to the targets of a vertex, without the weight of the arc.
    using State = Value;
    using Packet = VertexPacket<Value>;

    struct Arc {
        u32 target;
        typename Rule::Weight weight;
    };

    struct Problem {
        // Row index, targets and weights of the owned vertices.
        Span<const u64> offsets;
        Span<const u32> targets;
        Span<const typename Rule::Weight> weights;
        Span<Value> values;
        Owners owners;
        RelaxationSettings settings;
    };

    __device__ static u32 unpack(const Problem&, const Here&, const Packet& packet) {
        return packet.vertex;
    }

    __device__ static Packet pack(const Problem& problem, const Here&, u32 vertex) {
        Packet packet{};
        packet.value = load_relaxed_gpu(&problem.values[vertex]);
        packet.vertex = vertex;
        return packet;
    }

    __device__ static Flags on_send(const Problem& problem, const Here& here, u32 vertex) {
        return problem.owners.owns(here, vertex) ? Flags::keep : Flags::pass;
    }

    __device__ static Flags on_receive(const Problem& problem, const Here& here,
                                       const Packet& packet) {
        const Value before = lower_value(&problem.values[packet.vertex], packet.value);
        const bool improved = key_of(packet.value) < key_of(before);
        if (problem.owners.owns(here, packet.vertex)) return improved ? Flags::keep : Flags::drop;
        // The halo copy says that a better value has gone this way.
        return improved || !problem.settings.halo_filter ? Flags::pass : Flags::drop;
    }

    __device__ static u32 priority(const Problem& problem, u32 vertex) {
        return Rule::priority(key_of(load_relaxed_gpu(&problem.values[vertex])),
                              problem.settings);
    }

    __device__ static u32 owner(const Problem& problem, u32 vertex) {
        return problem.owners.owner(vertex);
    }

    __device__ static State begin(const Problem& problem, const Here& here, u32 vertex,
                                  u64* first, u64* last) {
        const u32 row = problem.owners.row(here, vertex);
        // All three loads under way at once.
        const u64 from = problem.offsets[row];
        const u64 to = problem.offsets[row + 1];
        const u32 key = key_of(load_relaxed_gpu(&problem.values[vertex]));
        State state{};
        // Written so that it cannot overflow.
        if (key > problem.settings.limit || problem.settings.limit - key < Rule::least_step) {
            return state;
        }
        *first = from;
        *last = to;
        make_value(key, vertex, &state);
        return state;
    }

    __device__ static Arc arc(const Problem& problem, u64 at) {
        Arc arc{problem.targets[at], {}};
        if constexpr (Rule::has_weights) arc.weight = problem.weights[at];
        return arc;
    }

    __device__ static bool visit(const Problem& problem, const Here& here, State state,
                                 const Arc& arc, u32* priority, u32* filtered_changes) {
        const u32 key = Rule::extended(key_of(state), arc.weight);
        if (key > problem.settings.limit) return false;
        *priority = Rule::priority(key, problem.settings);
        Value value;
        make_value(key, u32(state), &value);
        const Value before = lower_value(&problem.values[arc.target], value);
        if (key < key_of(before)) return true;
        if (problem.owners.owns(here, arc.target)) return false;
        if (!problem.settings.halo_filter) return true;
        *filtered_changes += 1;
        return false;
    }
};

}  // namespace millstream
