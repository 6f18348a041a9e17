// Level-synchronous, direction-optimizing BFS on a gang of persistent kernels: from
// phase to phase. The protocol is in LEVELS.md, the twin is `level_twin.rs`.

namespace millstream {

class LevelSearch : public LevelSource {
   public:
    using LevelSource::LevelSource;

    __device__ void run() {
        if (threadIdx.x == 0) block.staged = block.found = block.stored = block.sent = 0;
        if (threadIdx.x < SpanSet<u64>::most) block.seen[threadIdx.x] = 0;
        __syncthreads();
        u32 phase = seed;
        if (begins_with_a_row()) {
            rush_source();
            phase = publish;
            if (!is_alone()) {
                if (barrier.meet_here().phase == GangBarrier::stopped) return report(true);
                publish_words(false);
            }
        } else if (begins_with_one()) {
            expand_source();
            phase = expand;
        } else {
            claim_sources();
        }
        for (;;) {
            flush();
            const Verdict verdict =
                barrier.meet([&](Totals& totals) { return decide(phase, totals); });
            const u32 last = phase;
            phase = verdict.phase;
            switch (phase) {
                case expand:
                case rush: {
                    const u32 from = mark;
                    mark = verdict.places;
                    ++level;
                    if (phase == rush) {
                        expand_frontier<false>(from, mark);
                    } else {
                        expand_frontier<true>(from, mark);
                    }
                    break;
                }
                case absorb:
                case absorb_rush:
                    take_all(phase == absorb);
                    break;
                case merge:
                case publish:
                    publish_words(phase == merge);
                    break;
                case sweep:
                    mark = verdict.places;
                    ++level;
                    // After a publish the other copy may lack what peers know.
                    sweep_words(last == publish || last == merge, leaves_late(last));
                    copy ^= 1;
                    break;
                case gather:
                    mark = verdict.places;
                    gather_frontier();
                    break;
                default:
                    return report(phase == GangBarrier::stopped);
            }
        }
    }

   private:
    // How likely a frontier with many arcs is to be followed by a sweep: see `decide`.
    static constexpr u32 eagerness = 4;
    // Rushes not followed at once by a sweep, after which frontiers are taken to grow slowly.
    static constexpr u32 most_in_vain = 2;

    // A word of the report: words published.
    static constexpr u32 report_published = own_reports;

    // What the devices do until they meet again.
    enum Phase : u32 {
        seed,
        expand,
        absorb,
        rush,
        absorb_rush,
        merge,
        publish,
        sweep,
        gather,
        finished
    };

    // One thread of each block, the same answer in all.
    __device__ u32 decide(u32 phase, Totals& totals) const {
        if (phase == publish) return sweep;
        const u64 visited = totals.count(visited_count);
        const u64 left = settings.connected - visited;
        if (phase == gather) {
            // A rush has counted vertices, not rows in the log: some vertices may have many.
            return new_rows(totals) * settings.alpha > left ? to_sweep() : expand;
        }
        if (phase == sweep) {
            const u64 found = visited - totals.keep(kept_visited, visited);
            if (found == 0 || level == settings.depth_limit) return finished;
            return found * settings.beta < left ? gather : sweep;
        }
        if (phase == rush && !is_alone() && reaches_late()) return merge;
        if ((phase == expand || phase == rush) && !is_alone()) {
            const u64 sent = totals.count(sent_count);
            if (totals.keep(kept_sent, sent) != sent) return phase == expand ? absorb : absorb_rush;
        }
        const bool is_listed = phase != rush && phase != absorb_rush && phase != merge;
        const u64 rows = is_listed ? new_rows(totals) : visited - totals.kept(kept_visited);
        if (rows == 0 || level == settings.depth_limit) return finished;
        // If it does not grow, as in a mesh, few of the vertices left have a visited neighbour.
        const bool grows = rows * 8 >= totals.keep(kept_rows, rows) * 9;
        const u64 arcs = phase == seed ? totals.most() : rows * settings.degree;
        const bool is_rich = arcs * settings.alpha * eagerness > settings.connected && grows &&
                             totals.kept(kept_in_vain) < most_in_vain;
        // So few rows that it does not matter how many vertices are left.
        if (is_listed && !is_rich && rows * settings.alpha * 64 < settings.connected) return expand;
        totals.keep(kept_visited, visited);
        if (grows && rows * settings.alpha * (is_listed ? 1 : eagerness) > left)
            return phase == merge ? sweep : to_sweep();
        if (!is_listed) {
            totals.keep(kept_in_vain, totals.kept(kept_in_vain) + 1);
            return gather;
        }
        // What is found at the limit must be reached at once.
        return is_rich && level + 1 < settings.depth_limit ? rush : expand;
    }

    // Whether the phase before a sweep has visited vertices that it has not reached.
    __device__ bool leaves_late(u32 last) const {
        return (reaches_late() && last == (is_alone() ? rush : merge)) ||
               (begins_with_a_row() && level == 2);
    }

    // Rows that came into the logs since the last frontier.
    __device__ u64 new_rows(Totals& totals) const {
        return totals.places() - (is_alone() ? mark : totals.keep(kept_places, totals.places()));
    }

    __device__ static u32 to_sweep() { return is_alone() ? sweep : publish; }

    // The whole grid, at the end.
    __device__ void report(bool is_stopped) const {
        if (thread_in_grid() == 0) {
            tell_end(is_stopped, barrier.counted(visited_count), level);
            tell_items(load_relaxed_gpu(&barrier.device_word(kept_items)));
            tell_host(report_published, load_relaxed_gpu(&barrier.device_word(published)));
        }
        end_kernel();
    }
};

}  // namespace millstream

extern "C" __global__ __launch_bounds__(1024, 1) void levels(
    const __grid_constant__ millstream::LevelRows out,
    const __grid_constant__ millstream::LevelRows in,
    const __grid_constant__ millstream::LevelValues values,
    const __grid_constant__ millstream::LevelLists lists,
    const __grid_constant__ millstream::LevelExchange exchange,
    const __grid_constant__ millstream::SpanSet<millstream::u64> words,
    const __grid_constant__ millstream::GangReports reports,
    const __grid_constant__ millstream::LevelSettings settings,
    const __grid_constant__ millstream::LevelHubs hubs) {
    __shared__ millstream::LevelSearch::Block block;
    millstream::LevelSearch(out, in, values, lists, exchange, words, reports, settings, block,
                            hubs)
        .run();
}
