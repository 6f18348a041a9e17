// Level-synchronous BFS from one vertex: its row is expanded before the devices first meet. If it
// has very many arcs it is split, and all devices expand it together, each the arcs to its own
// vertices. See LEVELS.md.

namespace millstream {

class LevelSource : public LevelBottomUp {
   protected:
    using LevelBottomUp::LevelBottomUp;

    __device__ bool begins_with_a_row() const { return hubs.source.vertex != unreached; }

    __device__ bool begins_with_one() const { return settings.source != unreached; }

    // All blocks: claims the targets of the source's row, on the device that has it.
    __device__ void expand_source() {
        const u32 source = settings.source;
        reach_source(source);
        if (!owns(source)) return;
        const Row row = row_of(source);
#pragma unroll 1
        for (u64 base = thread_in_grid() - lane(); base < row.arcs; base += threads_in_grid()) {
            const u64 at = base + lane();
            const bool is_arc = at < row.arcs;
            visit<true>(is_arc, source, is_arc ? out.targets[row.begin + at] : first);
        }
    }

    // All blocks: visits the source's targets on this device, which are reached late.
    __device__ void rush_source() {
        reach_source(hubs.source.vertex);
        const u32* const targets = hubs.targets.items + hubs.source.begin;
        for (u64 base = thread_in_grid() - lane(); base < hubs.source.arcs;
             base += threads_in_grid()) {
            const u64 arc = base + lane();
            count_found(arc < hubs.source.arcs && claim_early(targets[arc]));
        }
    }

   private:
    // All blocks: reaches the source. The host has set its visited bit everywhere.
    __device__ void reach_source(u32 source) {
        if (thread_in_grid() == 0 && owns(source)) {
            reach(source, unreached);
            atomicAdd(&block.found, 1);
        }
        ++level;
    }

    // As `claim`, while other devices may already be storing their words in this device's copy: such
    // a word may have vertices that this device owns, too.
    __device__ bool claim_early(u32 vertex) const {
        if (is_alone() || owned(vertex / 32) == ~0u) return claim(vertex);
        const u32 bit = 1u << vertex % 32;
        return !(fetch_or_relaxed_sys(bits(settings.place.device, copy) + vertex / 32, bit) & bit);
    }
};

}  // namespace millstream
