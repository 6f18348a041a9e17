// Arcs that enter a device's vertices, in rows of the vertices that they leave. The twins are in
// `divided_rows.rs`.
#include "row_index.cuh"

namespace millstream {

// Arcs that enter the vertices from some on.
struct Entering {
    Span<const u64> offsets;
    Span<const u32> sources;
    Span<const u32> weights;
    u32 first_vertex;
    u32 unused;
};

// Rows of all vertices, and how many arcs each of these has that are not in their place.
struct Leaving {
    Span<u32> counts;
    Span<const u64> offsets;
    Span<u32> targets;
    Span<u32> weights;
};

}  // namespace millstream

using namespace millstream;

// How many arcs leave each vertex.
extern "C" __global__ void count_leaving(const __grid_constant__ Span<const u32> sources,
                                         const __grid_constant__ Span<u32> counts) {
    for (u64 arc = thread_in_grid(); arc < sources.len; arc += threads_in_grid()) {
        fetch_add_relaxed_gpu(&counts[sources[arc]], 1u);
    }
}

// Puts arcs into the rows of their sources, the last place first.
extern "C" __global__ void place_leaving(const __grid_constant__ Entering entering,
                                         const __grid_constant__ Leaving leaving) {
    for_each_arc(entering.offsets, entering.sources.len, [&](u64 arc, u64 row) {
        const u32 source = entering.sources[arc];
        const u32 before = fetch_add_relaxed_gpu(&leaving.counts[source], ~0u) - 1;
        const u64 place = leaving.offsets[source] + before;
        leaving.targets[place] = entering.first_vertex + u32(row);
        leaving.weights[place] = entering.weights[arc];
    });
}
