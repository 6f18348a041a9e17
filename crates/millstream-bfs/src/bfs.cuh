// Asynchronous BFS on the worklist (Ben-Nun et al., Groute, ACM TOPC 7(3), art. 18,
// 2020, figure 11); the twin of `program.rs`.
#pragma once

#include "worklist.cuh"

namespace millstream {

// What a vertex holds: its level, perhaps with a predecessor below it, so that
// smaller values have smaller levels.
__device__ __forceinline__ u32 level_of(u32 value) { return value; }
__device__ __forceinline__ u32 level_of(u64 value) { return u32(value >> 32); }
__device__ __forceinline__ void make_value(u32 level, u32, u32* value) { *value = level; }
__device__ __forceinline__ void make_value(u32 level, u32 predecessor, u64* value) {
    *value = u64(level) << 32 | predecessor;
}

// A vertex and its value on the way to another device.
template <class Value>
struct BfsPacket;

template <>
struct BfsPacket<u32> {
    u32 value;
    u32 vertex;
};

template <>
struct BfsPacket<u64> {
    u64 value;
    u32 vertex;
    u32 padding;
};

template <class Value>
struct Bfs {
    using State = Value;
    using Packet = BfsPacket<Value>;

    struct Settings {
        u32 depth_limit;
        u32 halo_filter;
    };

    struct Problem {
        // Row index and targets of the owned vertices.
        Span<const u64> offsets;
        Span<const u32> targets;
        Span<Value> values;
        // First vertex of each device, and the number of vertices at the end.
        Span<const u32> boundaries;
        Settings settings;
    };

    // Lowers a vertex's value; the one before.
    __device__ static Value lower(const Problem& problem, u32 vertex, Value value) {
        Value* const place = &problem.values[vertex];
        // A plain look first: most arcs lead to settled vertices.
        const Value before = load_relaxed_gpu(place);
        return before <= value ? before : fetch_min_relaxed_gpu(place, value);
    }

    __device__ static bool owns(const Problem& problem, const Here& here, u32 vertex) {
        return vertex >= problem.boundaries[here.device] &&
               vertex < problem.boundaries[here.device + 1];
    }

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
        return owns(problem, here, vertex) ? Flags::keep : Flags::pass;
    }

    __device__ static Flags on_receive(const Problem& problem, const Here& here,
                                       const Packet& packet) {
        const Value before = lower(problem, packet.vertex, packet.value);
        const bool improved = level_of(packet.value) < level_of(before);
        if (owns(problem, here, packet.vertex)) return improved ? Flags::keep : Flags::drop;
        // The halo copy says that a better value has gone this way.
        return improved || !problem.settings.halo_filter ? Flags::pass : Flags::drop;
    }

    __device__ static u32 priority(const Problem& problem, u32 vertex) {
        return level_of(load_relaxed_gpu(&problem.values[vertex]));
    }

    __device__ static u32 owner(const Problem& problem, u32 vertex) {
        u32 device = 0;
        // Empty parts have equal boundaries: the last that starts here owns it.
        while (device + 2 < problem.boundaries.len && problem.boundaries[device + 1] <= vertex) {
            ++device;
        }
        return device;
    }

    __device__ static State begin(const Problem& problem, const Here& here, u32 vertex,
                                  u64* first, u64* last) {
        const u32 level = level_of(load_relaxed_gpu(&problem.values[vertex]));
        State value{};
        if (level >= problem.settings.depth_limit) return value;
        const u32 row = vertex - problem.boundaries[here.device];
        *first = problem.offsets[row];
        *last = problem.offsets[row + 1];
        make_value(level + 1, vertex, &value);
        return value;
    }

    __device__ static bool visit(const Problem& problem, const Here& here, State value, u64 arc,
                                 u32* target, u32* filtered_changes) {
        *target = problem.targets[arc];
        const Value before = lower(problem, *target, value);
        if (level_of(value) < level_of(before)) return true;
        if (owns(problem, here, *target)) return false;
        if (!problem.settings.halo_filter) return true;
        *filtered_changes += 1;
        return false;
    }
};

}  // namespace millstream
