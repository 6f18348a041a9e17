// Level-synchronous BFS from one vertex with very many arcs: its row is split, and all devices
// expand it together, each what leads to its own vertices. See LEVELS.md.

namespace millstream {

class LevelSource : public LevelBottomUp {
   protected:
    using LevelBottomUp::LevelBottomUp;

    __device__ bool begins_with_a_row() const { return hubs.source.vertex != unreached; }

    // All blocks: visits the targets here. The source has been visited by the host; `settle`
    // counts the others.
    __device__ void rush_source() {
        const u32 source = hubs.source.vertex;
        if (thread_in_grid() == 0 && owns(source)) {
            reach(source, unreached);
            block.found = 1;
        }
        ++level;
        const u32* const targets = hubs.targets.items + hubs.source.begin;
        for (u64 arc = thread_in_grid(); arc < hubs.source.arcs; arc += threads_in_grid()) {
            const u32 target = targets[arc];
            u32* const word = bits(settings.device, copy) + target / 32;
            // Relaxed: the barrier publishes them. Who has finished writes words into others'
            // copies, also those that have owned vertices of both.
            if (!is_alone() && owned(target / 32) != ~0u) {
                fetch_or_relaxed_sys(word, 1u << target % 32);
            } else {
                fetch_or_relaxed_gpu(word, 1u << target % 32);
            }
        }
    }

    // All blocks, once all of this device have visited the targets: reaches what is new, in
    // order, and gives the others this device's visited bits.
    __device__ void settle_source() {
        const u32* const now = bits(settings.device, copy);
        const u32* const before = bits(settings.device, copy ^ 1);
        const u32 step = u32(threads_in_grid());
        for (u32 base = first_word() + u32(thread_in_grid()) - lane(); base < end_word();
             base += step) {
            const u32 word = base + lane();
            const bool is_word = word < end_word();
            const u32 visited = is_word ? now[word] & owned(word) : 0;
            const u32 fresh = is_word ? visited & ~before[word] : 0;
            if (!is_alone() && is_word) store_word(copy, word, visited);
            count_stored(is_word);
            count_all_found(fresh);
            for (u32 left = __ballot_sync(~0u, fresh != 0); left != 0; left &= left - 1) {
                const u32 whose = __ffs(left) - 1;
                if (__shfl_sync(~0u, fresh, whose) >> lane() & 1)
                    reach((base + whose) * 32 + lane(), hubs.source.vertex);
            }
        }
    }
};

}  // namespace millstream
