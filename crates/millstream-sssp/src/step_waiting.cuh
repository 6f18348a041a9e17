// Shortest paths in steps: vertices whose arcs a warp is to visit, put together until there are 32,
// so that all lanes have one.

namespace millstream {

// One vertex in each of a warp's first `count` lanes.
struct StepWaiting {
    u32 arcs;
    u32 vertex;
    StepValue from;
    u32 count;
    u32 more_arcs;
    u32 more_vertex;
    StepValue more_from;

    // Adds the vertices of lanes that have arcs. True if 32 wait.
    __device__ bool add(u32 its_arcs, u32 its_vertex, StepValue its_from) {
        const u32 news = __ballot_sync(~0u, its_arcs > 0);
        // Which of the new ones comes into this lane, behind those that wait.
        const u32 place = (lane() - count) % 32;
        const u32 who = nth_bit(news, place);
        more_arcs = __shfl_sync(~0u, its_arcs, who);
        more_vertex = __shfl_sync(~0u, its_vertex, who);
        more_from = __shfl_sync(~0u, its_from, who);
        if (place >= __popc(news)) more_arcs = 0;
        if (lane() >= count) {
            arcs = more_arcs;
            vertex = more_vertex;
            from = more_from;
        }
        count += __popc(news);
        return count >= 32;
    }

    // Keeps the vertices that have found no lane.
    __device__ void turn() {
        count = count >= 32 ? count - 32 : 0;
        arcs = lane() < count ? more_arcs : 0;
        vertex = more_vertex;
        from = more_from;
    }
};

}  // namespace millstream
