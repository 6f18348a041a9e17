// Level-synchronous BFS from one vertex with very many arcs: its row is split, and all devices
// expand it together, each what leads to its own vertices. See LEVELS.md.

namespace millstream {

class LevelSource : public LevelBottomUp {
   protected:
    using LevelBottomUp::LevelBottomUp;

    __device__ bool begins_with_a_row() const { return hubs.source.vertex != unreached; }

    // All blocks: visits the targets here. The source has been visited by the host, in both
    // copies, and the first sweep reaches the others.
    __device__ void rush_source() {
        if (thread_in_grid() == 0 && owns(hubs.source.vertex)) {
            reach(hubs.source.vertex, unreached);
            block.found = 1;
        }
        ++level;
        const u32* const targets = hubs.targets.items + hubs.source.begin;
        for (u64 arc = thread_in_grid(); arc < hubs.source.arcs; arc += threads_in_grid()) {
            const u32 target = targets[arc];
            u32* const word = bits(settings.device, copy) + target / 32;
            // Relaxed: the barrier publishes them. Whoever has finished writes its words into
            // others' copies, also those that have owned vertices of both.
            if (!is_alone() && owned(target / 32) != ~0u) {
                fetch_or_relaxed_sys(word, 1u << target % 32);
            } else {
                fetch_or_relaxed_gpu(word, 1u << target % 32);
            }
        }
    }
};

}  // namespace millstream
