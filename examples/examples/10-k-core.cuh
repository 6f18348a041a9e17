// The k-core on the worklist: the callbacks of `10-k-core.rs` in CUDA C++.
#pragma once

#include "owners.cuh"

using namespace millstream;

struct KCore {
    // Nothing goes to the neighbours but that the vertex has gone.
    using State = u32;

    struct Packet {
        u32 vertex;
        u32 count;
    };

    struct Problem {
        Span<const u64> offsets;
        Span<const u32> targets;
        Span<u32> left;
        Span<u32> gone;
        Owners owners;
        u32 k;
    };

    // Takes neighbours from an owned vertex; whether this makes them too few.
    __device__ static bool take(const Problem& problem, u32 vertex, u32 count) {
        const u32 before = fetch_add_relaxed_gpu(&problem.left[vertex], 0 - count);
        return before >= problem.k && before - count < problem.k;
    }

    // Takes the count: it is sent once, and what is added later goes later.
    __device__ static Packet pack(const Problem& problem, const Here&, u32 vertex) {
        return {vertex, fetch_exchange_relaxed_gpu(&problem.gone[vertex], 0u)};
    }

    __device__ static u32 unpack(const Problem&, const Here&, const Packet& packet) {
        return packet.vertex;
    }

    __device__ static Flags on_send(const Problem& problem, const Here& here, u32 vertex) {
        return problem.owners.owns(here, vertex) ? Flags::keep : Flags::pass;
    }

    __device__ static Flags on_receive(const Problem& problem, const Here& here,
                                       const Packet& packet) {
        if (!problem.owners.owns(here, packet.vertex)) {
            fetch_add_relaxed_gpu(&problem.gone[packet.vertex], packet.count);
            return Flags::pass;
        }
        return take(problem, packet.vertex, packet.count) ? Flags::keep : Flags::drop;
    }

    // The order does not matter: every vertex goes once.
    __device__ static u32 priority(const Problem&, u32) { return 0; }

    __device__ static u32 owner(const Problem& problem, u32 vertex) {
        return problem.owners.owner(vertex);
    }

    struct Arc {
        u32 target;
    };

    // `process` in three: what is done once, an arc, and what is done for it.
    __device__ static State begin(const Problem& problem, const Here& here, u32 vertex,
                                  u64* first, u64* last) {
        const u32 row = problem.owners.row(here, vertex);
        *first = problem.offsets[row];
        *last = problem.offsets[row + 1];
        return 0;
    }

    __device__ static Arc arc(const Problem& problem, u64 at) { return {problem.targets[at]}; }

    __device__ static bool visit(const Problem& problem, const Here& here, State,
                                 const Arc& arc, u32*, u32*) {
        if (problem.owners.owns(here, arc.target)) return take(problem, arc.target, 1);
        // What is not sent yet takes this one along.
        return fetch_add_relaxed_gpu(&problem.gone[arc.target], 1u) == 0;
    }
};
