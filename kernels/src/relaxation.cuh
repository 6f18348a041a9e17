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
#include "vertex_value.cuh"

namespace millstream {

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
        // Of the owned vertices, or empty.
        Span<const u32> packed;
    };

    // The bit of an item that is ready, or in an outbox, lies in its value.
    static constexpr bool has_queued_bit = true;

    __device__ static u32 unpack(const Problem&, const Here&, const Packet& packet) {
        return packet.vertex;
    }

    __device__ static Packet pack(const Problem& problem, const Here&, u32 vertex) {
        Packet packet{};
        packet.value = load_relaxed_gpu(&problem.values[vertex]) & ~Value(queued);
        packet.vertex = vertex;
        return packet;
    }

    __device__ static Flags on_send(const Problem& problem, const Here& here, u32 vertex) {
        return problem.owners.owns(here, vertex) ? Flags::keep : Flags::pass;
    }

    __device__ static Flags on_receive(const Problem& problem, const Here& here,
                                       const Packet& packet) {
        const Value before = lower(&problem.values[packet.vertex], packet.value);
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

    // Sets an item's bit; false if it was set.
    __device__ static bool mark(const Problem& problem, u32 vertex) {
        // Relaxed: the value is in the same word.
        return !(fetch_or_relaxed_gpu(&problem.values[vertex], Value(queued)) & queued);
    }

    // Clears an item's bit; false if it was clear.
    __device__ static bool claim(const Problem& problem, u32 vertex) {
        return fetch_and_relaxed_gpu(&problem.values[vertex], ~Value(queued)) & queued;
    }

    // The same, and begins: one operation for both.
    __device__ static bool claim(const Problem& problem, const Here& here, u32 vertex,
                                 State* state, u64* first, u64* last) {
        u64 from = 0;
        u64 to = 0;
        if (!is_packed(problem)) row_of(problem, here, vertex, &from, &to);
        const Value word = fetch_and_relaxed_gpu(&problem.values[vertex], ~Value(queued));
        if (!(word & queued)) return false;
        *state = state_of(word, vertex);
        if (goes_on(problem, word)) {
            *first = from;
            *last = to;
        }
        return true;
    }

    __device__ static State begin(const Problem& problem, const Here& here, u32 vertex,
                                  u64* first, u64* last) {
        u64 from = 0;
        u64 to = 0;
        row_of(problem, here, vertex, &from, &to);
        const Value word = load_relaxed_gpu(&problem.values[vertex]);
        if (goes_on(problem, word)) {
            *first = from;
            *last = to;
        }
        return state_of(word, vertex);
    }

    // What goes along the arcs of an item that has been claimed already.
    __device__ static State state(const Problem& problem, u32 vertex) {
        return state_of(load_relaxed_gpu(&problem.values[vertex]), vertex);
    }

    __device__ static bool is_packed(const Problem& problem) { return problem.packed.len != 0; }

    // One arc of a packed row; its target may be `no_vertex` or `long_row`.
    __device__ static Arc packed_arc(const Problem& problem, const Here& here, u32 vertex,
                                     u32 place) {
        const u32* const row = packed_row(problem, here, vertex);
        Arc arc{row[place], {}};
        if constexpr (Rule::has_weights) memcpy(&arc.weight, row + row_arcs + place, 4);
        return arc;
    }

    __device__ static Arc arc(const Problem& problem, u64 at) {
        Arc arc{problem.targets[at], {}};
        if constexpr (Rule::has_weights) arc.weight = problem.weights[at];
        return arc;
    }

    __device__ static bool visit(const Problem& problem, const Here& here, State state,
                                 const Arc& arc, u32* priority, u32* filtered_changes) {
        Value value;
        if (!extend(problem, state, arc, priority, &value)) return false;
        const Value before = lower_unqueued(&problem.values[arc.target], value);
        if (key_of(value) < key_of(before)) return true;
        if (problem.owners.owns(here, arc.target)) return false;
        if (!problem.settings.halo_filter) return true;
        *filtered_changes += 1;
        return false;
    }

    // The same, and sets the target's bit, unless it is to be deferred. False also if
    // it was set: whoever clears it sees this value.
    __device__ static bool visit_and_mark(const Problem& problem, const Here& here, State state,
                                          const Arc& arc, u32 threshold, u32* priority,
                                          u32* filtered_changes) {
        Value value;
        if (!extend(problem, state, arc, priority, &value)) return false;
        Value* const place = &problem.values[arc.target];
        const bool owns = problem.owners.owns(here, arc.target);
        // Graphs with short rows have long chains: every trip counts.
        const bool looks = !is_packed(problem);
        const Value before = owns && *priority > threshold
                                 ? lower(place, value)
                                 : lower_and_queue(place, value, looks);
        if (key_of(value) < key_of(before)) return !(before & queued);
        if (owns) return false;
        if (!problem.settings.halo_filter) return mark(problem, arc.target);
        *filtered_changes += 1;
        return false;
    }

   private:
    __device__ static const u32* packed_row(const Problem& problem, const Here& here,
                                            u32 vertex) {
        constexpr u32 words = Rule::has_weights ? 2 * row_arcs : row_arcs;
        return problem.packed.items + u64(problem.owners.row(here, vertex)) * words;
    }

    __device__ static void row_of(const Problem& problem, const Here& here, u32 vertex,
                                  u64* first, u64* last) {
        const u32 row = problem.owners.row(here, vertex);
        *first = problem.offsets[row];
        *last = problem.offsets[row + 1];
    }

    __device__ static State state_of(Value word, u32 vertex) {
        State state;
        make_value(key_of(word), vertex, &state);
        return state;
    }

    // Whether a vertex has anything for the ends of its arcs.
    __device__ static bool goes_on(const Problem& problem, Value word) {
        // Written so that it cannot overflow.
        return key_of(word) <= problem.settings.limit &&
               problem.settings.limit - key_of(word) >= Rule::least_step;
    }

    // The value at the end of an arc; false if it is left out.
    __device__ static bool extend(const Problem& problem, State state, const Arc& arc,
                                  u32* priority, Value* value) {
        const u32 key = Rule::extended(key_of(state), arc.weight);
        if (key > problem.settings.limit) return false;
        *priority = Rule::priority(key, problem.settings);
        make_value(key, predecessor_of(state), value);
        return true;
    }
};

}  // namespace millstream
