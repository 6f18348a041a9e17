// The k-core on the worklist: the callbacks of `k_core.rs` in CUDA C++.
#pragma once

#include "vertex_program.cuh"

using namespace millstream;

struct KCore : VertexProgram<KCore, u32> {
    struct Problem {
        Span<const u64> offsets;
        Span<const u32> targets;
        Span<u32> left;
        Span<u32> gone;
        Owners owners;
        u32 k;
    };

    // Takes the count: it is sent once, and what is added later goes later.
    __device__ static u32 value(const Problem& problem, u32 vertex) {
        return fetch_exchange_relaxed_gpu(&problem.gone[vertex], 0u);
    }

    __device__ static bool receive(const Problem& problem, u32 vertex, u32 count, bool is_own) {
        // A count that is not sent yet takes this one along.
        if (!is_own) return fetch_add_relaxed_gpu(&problem.gone[vertex], count) == 0;
        const u32 before = fetch_add_relaxed_gpu(&problem.left[vertex], 0 - count);
        return before >= problem.k && before - count < problem.k;
    }

    struct Arc {
        u32 target;
    };

    // `process` in two parts: an arc, and what is done for it. Nothing goes along all arcs.
    __device__ static Arc arc(const Problem& problem, u64 at) { return {problem.targets[at]}; }

    __device__ static bool visit(const Problem& problem, const Here& here, u32,
                                 const Arc& arc, u32*, u32*) {
        return receive(problem, arc.target, 1, problem.owners.owns(here, arc.target));
    }
};
