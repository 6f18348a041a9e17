// Widest paths on the worklist: the callbacks of `widest_path.rs` in CUDA C++.
#pragma once

#include "vertex_program.cuh"

using namespace millstream;

struct WidestPath : VertexProgram<WidestPath, u32> {
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

    __device__ static u32 value(const Problem& problem, u32 vertex) {
        return load_relaxed_gpu(&problem.widths[vertex]);
    }

    __device__ static bool receive(const Problem& problem, u32 vertex, u32 width, bool) {
        return widen(problem, vertex, width) < width;
    }

    __device__ static u32 priority(const Problem& problem, u32 vertex) {
        return ~load_relaxed_gpu(&problem.widths[vertex]);
    }

    struct Arc {
        u32 target;
        u32 capacity;
    };

    // `process` in three parts: what goes along all arcs, an arc, and what is done for it.
    __device__ static u32 along(const Problem& problem, u32 vertex) {
        return value(problem, vertex);
    }

    __device__ static Arc arc(const Problem& problem, u64 at) {
        return {problem.targets[at], problem.capacities[at]};
    }

    __device__ static bool visit(const Problem& problem, const Here& here, u32 width,
                                 const Arc& arc, u32* priority, u32* filtered) {
        const u32 through = width < arc.capacity ? width : arc.capacity;
        *priority = ~through;
        if (widen(problem, arc.target, through) < through) return true;
        *filtered += !problem.owners.owns(here, arc.target);
        return false;
    }
};
