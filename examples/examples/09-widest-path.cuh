// Widest paths on the worklist: the callbacks of `09-widest-path.rs` in CUDA C++.
#pragma once

#include "owners.cuh"

using namespace millstream;

struct WidestPath {
    // What goes to all targets of a vertex: its width.
    using State = u32;

    struct Packet {
        u32 vertex;
        u32 width;
    };

    struct Problem {
        Span<const u64> offsets;
        Span<const u32> targets;
        Span<const u32> capacities;
        Span<u32> widths;
        Owners owners;
    };

    __device__ static u32 widen(const Problem& problem, u32 vertex, u32 width) {
        return fetch_max_relaxed_gpu(&problem.widths[vertex], width);
    }

    __device__ static Packet pack(const Problem& problem, const Here&, u32 vertex) {
        return {vertex, load_relaxed_gpu(&problem.widths[vertex])};
    }

    __device__ static u32 unpack(const Problem&, const Here&, const Packet& packet) {
        return packet.vertex;
    }

    __device__ static Flags on_send(const Problem& problem, const Here& here, u32 vertex) {
        return problem.owners.owns(here, vertex) ? Flags::keep : Flags::pass;
    }

    __device__ static Flags on_receive(const Problem& problem, const Here& here,
                                       const Packet& packet) {
        if (widen(problem, packet.vertex, packet.width) >= packet.width) return Flags::drop;
        return problem.owners.owns(here, packet.vertex) ? Flags::keep : Flags::pass;
    }

    __device__ static u32 priority(const Problem& problem, u32 vertex) {
        return ~load_relaxed_gpu(&problem.widths[vertex]);
    }

    __device__ static u32 owner(const Problem& problem, u32 vertex) {
        return problem.owners.owner(vertex);
    }

    struct Arc {
        u32 target;
        u32 capacity;
    };

    // `process` in three: what is read once, an arc, and what is done for it.
    __device__ static State begin(const Problem& problem, const Here& here, u32 vertex,
                                  u64* first, u64* last) {
        const u32 row = problem.owners.row(here, vertex);
        *first = problem.offsets[row];
        *last = problem.offsets[row + 1];
        return load_relaxed_gpu(&problem.widths[vertex]);
    }

    __device__ static Arc arc(const Problem& problem, u64 at) {
        return {problem.targets[at], problem.capacities[at]};
    }

    __device__ static bool visit(const Problem& problem, const Here& here, State width,
                                 const Arc& arc, u32* priority, u32* filtered) {
        const u32 through = width < arc.capacity ? width : arc.capacity;
        *priority = ~through;
        if (widen(problem, arc.target, through) < through) return true;
        *filtered += !problem.owners.owns(here, arc.target);
        return false;
    }
};
