// Shortest paths in steps on a gang of persistent kernels: from phase to phase. The
// protocol is in STEPS.md, the twins are `step_pilot.rs` and `step_twin.rs`.

namespace millstream {

class StepSearch : public StepPull {
   public:
    using StepPull::StepPull;

    __device__ void run() {
        if (threadIdx.x == 0) {
            block.longs = block.filled = block.mark = block.here = 0;
            block.settled = block.received = block.sent = block.listed = block.unlisted = 0;
            block.steps = 1;
            block.nearest = unreached;
            block.begin = 0;
            block.end = settings.first_end;
        }
        if (threadIdx.x < SpanSet<u64>::most) block.seen[threadIdx.x] = 0;
        if (lane() == 0) block.pending[threadIdx.x / 32] = 0;
        __syncthreads();
        u32 phase = collecting;
        collect();
        for (;;) {
            flush();
            const Verdict verdict = meet(phase);
            const u32 last = phase;
            phase = verdict.phase;
            switch (phase) {
                case collecting:
                    next_step();
                    collect();
                    break;
                case pulling: {
                    const u32 from = block.begin;
                    next_step();
                    pull(from);
                    break;
                }
                case pushing:
                    push_beyond();
                    break;
                case expanding:
                    expand(last == expanding);
                    break;
                case telling:
                    tell(false);
                    break;
                case reviewing:
                    review();
                    break;
                default:
                    return report(verdict);
            }
        }
    }

   private:
    // What the devices do until they meet again.
    enum Phase : u32 { collecting, expanding, telling, pulling, pushing, reviewing, finished };
    // Words that are kept: totals of the last round, the next step, and vertices that are
    // reviewed.
    enum Kept { kept_places, kept_settled, kept_begin, kept_end, kept_reviewed };
    // Vertices are reviewed again if more than one in this many has come nearer.
    static constexpr u32 few = 64;

    // Decides what comes next, and turns the lists for it: the list that was filled is read. Lists
    // that all devices expand are told before.
    __device__ Verdict meet(u32 phase) {
        const bool tells = !is_alone() && (phase == collecting || phase == expanding ||
                                           (phase == pulling && !is_last_step()));
        if (tells) {
            const Verdict here = barrier.meet_here();
            if (here.phase == GangBarrier::stopped) return here;
            turn_lists(here);
            tell(phase == expanding);
        }
        const Verdict verdict =
            barrier.meet([&](Totals& totals) { return decide(phase, totals); });
        if (tells && verdict.phase != expanding && verdict.phase != GangBarrier::stopped) take_told();
        if (tells || phase == telling) return verdict;
        if (phase == reviewing && verdict.phase == reviewing) {
            // The same list again.
            if (threadIdx.x == 0) block.mark = verdict.places;
            __syncthreads();
        } else {
            turn_lists(verdict);
        }
        return verdict;
    }

    __device__ bool is_last_step() const { return block.end == unreached; }

    // One thread of each block, the same answer in all.
    __device__ u32 decide(u32 phase, Totals& totals) const {
        if (phase == telling) return expanding;
        const u64 settled = totals.count(settled_count);
        const u64 left = settings.arcs - settled;
        if (phase == pushing) return plan(totals, collecting, block.end, left);
        const u64 listed = totals.places() - totals.keep(kept_places, totals.places());
        if (listed > 0) {
            if (phase == reviewing) {
                if (listed * few > totals.kept(kept_reviewed))
                    return reviewing;
                return is_alone() ? expanding : telling;
            }
            if (phase == pulling && is_last_step()) {
                totals.keep(kept_reviewed, listed);
                return reviewing;
            }
            if (is_alone() || totals.most() >= leads) return expanding;
        } else if (phase == collecting || phase == pulling) {
            // Nothing in this step: on to the nearest.
            return totals.most() == 0 ? finished : plan(totals, collecting, ~u32(totals.most()), left);
        }
        // The step is settled.
        if (left == 0 || is_last_step()) return finished;
        const u64 now = settled - totals.keep(kept_settled, settled);
        return left < now * settings.pull ? plan(totals, pulling, block.end, left) : pushing;
    }

    // Says where the next step begins and ends. The last one has no end.
    __device__ u32 plan(Totals& totals, Phase phase, u32 from, u64 left) const {
        totals.keep(kept_begin, from);
        const u32 to = StepRule::extended(from, StepRule::weight(settings.delta));
        const bool is_last = to <= from || left * settings.rest < settings.arcs;
        totals.keep(kept_end, is_last ? unreached : to);
        return phase;
    }

    __device__ void next_step() {
        // Everybody has read where the step before began.
        __syncthreads();
        if (threadIdx.x == 0) {
            block.begin = u32(barrier.kept(kept_begin));
            block.end = u32(barrier.kept(kept_end));
            ++block.steps;
        }
        __syncthreads();
    }

    // The list that was filled is read.
    __device__ void turn_lists(const Verdict& verdict) {
        if (threadIdx.x == 0) {
            block.here = verdict.places - block.mark;
            block.listed += block.here;
            block.mark = verdict.places;
            block.filled ^= 1;
        }
        __syncthreads();
    }

    // The whole grid, at the end.
    __device__ void report(const Verdict& verdict) const {
        if (thread_in_grid() == 0) {
            const u64 visited = block.listed + load_relaxed_gpu(&unlisted());
            tell_end(verdict.phase == GangBarrier::stopped, visited, block.steps);
            // All that is told is news.
            tell_host(report_received, block.received);
            tell_host(report_kept, block.received);
            for (u32 other = 0; other < settings.place.devices; ++other)
                if (other != settings.place.device) tell_host(report_sent + other, block.sent);
        }
        end_kernel();
    }
};

}  // namespace millstream

extern "C" __global__ __launch_bounds__(millstream::StepDevice::threads, 1) void steps(
    const __grid_constant__ millstream::StepRows out,
    const __grid_constant__ millstream::StepRows in,
    const __grid_constant__ millstream::Span<millstream::StepValue> values,
    const __grid_constant__ millstream::StepLists lists,
    const __grid_constant__ millstream::StepExchange exchange,
    const __grid_constant__ millstream::SpanSet<millstream::u64> words,
    const __grid_constant__ millstream::GangReports reports,
    const __grid_constant__ millstream::StepSettings settings) {
    __shared__ millstream::StepSearch::Block block;
    millstream::StepSearch(out, in, values, lists, exchange, words, reports, settings, block)
        .run();
}
