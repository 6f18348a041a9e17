// Level-synchronous BFS: the log of rows, of which the frontier is a range. Each block puts
// rows into a stage of its own first.

namespace millstream {

class LevelLog : public LevelDevice {
   protected:
    using LevelDevice::LevelDevice;

    static constexpr u32 piece = 128;

    // The whole block, before it meets the others: tells what it has found, and puts
    // its rows into the log.
    __device__ void flush() {
        __syncthreads();
        const u32 rows = block.staged < stage_rows ? block.staged : stage_rows;
        if (threadIdx.x == 0) {
            if (rows > 0) block.place = barrier.take_places(rows);
            if (block.found > 0) barrier.count(visited_count, block.found);
            if (block.sent > 0) barrier.count(sent_count, block.sent);
            if (block.stored > 0)
                fetch_add_relaxed_gpu(&barrier.device_word(published), u64(block.stored));
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            block.staged = block.found = block.sent = block.stored = 0;
        }
        for (u32 row = threadIdx.x; row < rows; row += blockDim.x)
            put(block.place + row, block.stage[row]);
    }

    __device__ void put(u64 place, const Row& row) const {
        reinterpret_cast<Row*>(lists.log.items)[place] = row;
    }

    // A warp: puts rows of found vertices into the log, in pieces; `arcs` is 0 for lanes
    // without a row.
    __device__ void push(const Row& row) {
        const u32 last = prefix_sum((row.arcs + piece - 1) / piece);
        const u32 pieces = __shfl_sync(~0u, last, 31);
        if (pieces == 0) return;
        u32 staged = 0;
        u64 place = 0;
        if (lane() == 0) {
            staged = atomicAdd(&block.staged, pieces);
            // Pieces that the stage has no room for go straight into the log.
            const u32 room = staged < stage_rows ? stage_rows - staged : 0;
            if (pieces > room) place = barrier.take_places(pieces - room) - room;
        }
        staged = __shfl_sync(~0u, staged, 0);
        place = __shfl_sync(~0u, place, 0);
        for (u32 base = 0; base < pieces; base += 32) {
            const u32 at = base + lane();
            const u32 whose = owner_of(last, at);
            const u32 arcs = __shfl_sync(~0u, row.arcs, whose);
            const u32 before = __shfl_sync(~0u, last, whose) - (arcs + piece - 1) / piece;
            const u32 skipped = (at - before) * piece;
            const u64 begin = __shfl_sync(~0u, row.begin, whose) + skipped;
            const u32 vertex = __shfl_sync(~0u, row.vertex, whose);
            if (at >= pieces) continue;
            const Row its{begin, vertex, arcs - skipped < piece ? arcs - skipped : piece};
            if (staged + at < stage_rows) {
                block.stage[staged + at] = its;
            } else {
                put(place + at, its);
            }
        }
    }
};

}  // namespace millstream
