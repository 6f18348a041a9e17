// Level-synchronous BFS from one vertex with very many arcs: its row is split, and all devices
// expand it together, each what leads to its own vertices. See LEVELS.md.

namespace millstream {

class LevelSource : public LevelBottomUp {
   protected:
    using LevelBottomUp::LevelBottomUp;

    __device__ bool begins_with_a_row() const { return hubs.source.vertex != unreached; }

    // All blocks: visits the targets here, to be reached late. The source has been visited by the
    // host.
    __device__ void rush_source() {
        if (thread_in_grid() == 0 && owns(hubs.source.vertex)) {
            reach(hubs.source.vertex, unreached);
            atomicAdd(&block.found, 1);
        }
        ++level;
        const u32* const targets = hubs.targets.items + hubs.source.begin;
        for (u64 base = thread_in_grid() - lane(); base < hubs.source.arcs;
             base += threads_in_grid()) {
            const u64 arc = base + lane();
            count_found(arc < hubs.source.arcs && claim_early(targets[arc]));
        }
    }

   private:
    // As `claim`, while other devices may have gone on to store their words in this one's copy,
    // one of which may have owned vertices, too.
    __device__ bool claim_early(u32 vertex) const {
        if (is_alone() || owned(vertex / 32) == ~0u) return claim(vertex);
        const u32 bit = 1u << vertex % 32;
        return !(fetch_or_relaxed_sys(bits(settings.place.device, copy) + vertex / 32, bit) & bit);
    }
};

}  // namespace millstream
