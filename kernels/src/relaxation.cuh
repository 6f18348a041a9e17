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

#include "keyed_values.cuh"
#include "vertex_program.cuh"

namespace millstream {

struct RelaxationSettings {
    u32 limit;
    u32 halo_filter;
    float priority_scale;
};

template <class Rule, class Value>
struct Relaxation : VertexProgram<Relaxation<Rule, Value>, Value> {
    // What goes to the targets of a vertex, without the weight of the arc.
    using State = Value;

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

    __device__ static Value value(const Problem& problem, u32 vertex) {
        return load_relaxed_gpu(&problem.values[vertex]);
    }

    __device__ static bool receive(const Problem& problem, u32 vertex, Value value, bool is_own) {
        const Value before = lower_value(&problem.values[vertex], value);
        // If not, the halo copy shows that a value as good has already gone this way.
        return key_of(value) < key_of(before) || (!is_own && !problem.settings.halo_filter);
    }

    __device__ static u32 priority(const Problem& problem, u32 vertex) {
        return Rule::priority(key_of(load_relaxed_gpu(&problem.values[vertex])),
                              problem.settings);
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
