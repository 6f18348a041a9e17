// What worklist programs share whose items are vertices with values, each vertex owned by a
// device; the twin of `vertex_program.rs` of the traversal crate.
//
// A program derives from `VertexProgram<Program, Value>`. Its Problem has `owners`, and the
// `offsets` of the owned vertices' rows. It has a type Arc, `arc` and `visit`, as `worklist.cuh`
// says, and
//   Value value(problem, vertex)                   what goes to the owner of a vertex
//   bool receive(problem, vertex, value, is_own)   applies it; true if it is news
// and may have
//   u32 priority(problem, vertex)                  as there; by default all are 0
//   State along(problem, vertex)                   what goes along all arcs; by default 0
// or a `begin` of its own instead.
#pragma once

#include "owners.cuh"
#include "vertex_packet.cuh"

namespace millstream {

template <class Program, class Value>
struct VertexProgram {
    using Packet = VertexPacket<Value>;
    using State = Value;

    template <class Problem>
    __device__ static u32 unpack(const Problem&, const Here&, const Packet& packet) {
        return packet.vertex;
    }

    template <class Problem>
    __device__ static Packet pack(const Problem& problem, const Here&, u32 vertex) {
        Packet packet{};
        packet.value = Program::value(problem, vertex);
        packet.vertex = vertex;
        return packet;
    }

    template <class Problem>
    __device__ static Flags on_send(const Problem& problem, const Here& here, u32 vertex) {
        return problem.owners.owns(here, vertex) ? Flags::keep : Flags::pass;
    }

    template <class Problem>
    __device__ static Flags on_receive(const Problem& problem, const Here& here,
                                       const Packet& packet) {
        const bool is_own = problem.owners.owns(here, packet.vertex);
        if (!Program::receive(problem, packet.vertex, packet.value, is_own)) return Flags::drop;
        return is_own ? Flags::keep : Flags::pass;
    }

    template <class Problem>
    __device__ static u32 owner(const Problem& problem, u32 vertex) {
        return problem.owners.owner(vertex);
    }

    template <class Problem>
    __device__ static u32 priority(const Problem&, u32) {
        return 0;
    }

    template <class Problem>
    __device__ static Value along(const Problem&, u32) {
        return 0;
    }

    template <class Problem>
    __device__ static State begin(const Problem& problem, const Here& here, u32 vertex,
                                  u64* first, u64* last) {
        const u32 row = problem.owners.row(here, vertex);
        *first = problem.offsets[row];
        *last = problem.offsets[row + 1];
        return Program::along(problem, vertex);
    }
};

}  // namespace millstream
