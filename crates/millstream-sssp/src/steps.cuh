// Shortest paths in steps on a gang of persistent kernels: from phase to phase. The
// protocol is in STEPS.md, the twins are `step_pilot.rs` and `step_twin.rs`.

namespace millstream {

// Words of a report: vertices that have come into lists, steps, whether it was stopped,
// vertices told to each other device, and vertices that others have told.
enum StepReport { report_listed, report_steps, report_stopped, report_told, report_received };

class StepSearch : public StepPull {
   public:
    using StepPull::StepPull;

    __device__ void run() {
        if (threadIdx.x == 0) {
            block.longs = block.filled = block.mark = block.here = 0;
            block.settled = block.received = block.listed = 0;
            block.steps = 1;
            block.nearest = unreached;
            block.begin = 0;
            block.end = settings.first_end;
        }
        if (lane() == 0) block.pending[threadIdx.x / 32] = 0;
        __syncthreads();
        u32 phase = collecting;
        collect();
        for (;;) {
            flush();
            const Verdict verdict =
                barrier.meet([&](const Totals& totals) { return decide(phase, totals); });
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
                case telling:
                    turn_lists(verdict);
                    tell();
                    break;
                case expanding:
                    if (is_alone()) turn_lists(verdict);
                    expand();
                    break;
                default:
                    return report(verdict);
            }
        }
    }

   private:
    // What the devices do until they meet again.
    enum Phase : u32 { collecting, expanding, telling, pulling, pushing, finished };
    // Words that leaders keep: totals of the last round, and the next step.
    enum Kept { kept_places, kept_settled, kept_begin, kept_end };

    // One thread of each device, the same answer on all.
    __device__ u32 decide(u32 phase, const Totals& totals) const {
        if (phase == telling) return expanding;
        const u64 settled = is_alone() ? barrier.counted(settled_count) : totals.counts[settled_count];
        const u64 left = settings.arcs - settled;
        if (phase == pushing) return plan(collecting, block.end, left);
        if (totals.places != keep(kept_places, totals.places))
            return is_alone() ? expanding : telling;
        if (phase != expanding) {
            // Nothing in this step: on to the nearest.
            return totals.most == 0 ? finished : plan(collecting, ~u32(totals.most), left);
        }
        if (left == 0 || block.end == unreached) return finished;
        const u64 now = settled - keep(kept_settled, settled);
        return left < now * settings.pull ? plan(pulling, block.end, left) : pushing;
    }

    // Says where the next step begins and ends. The last one has no end.
    __device__ u32 plan(Phase phase, u32 from, u64 left) const {
        keep(kept_begin, from);
        const u32 to = StepRule::extended(from, StepRule::weight(settings.delta));
        const bool is_last = to <= from || left * settings.rest < settings.arcs;
        keep(kept_end, is_last ? unreached : to);
        return phase;
    }

    __device__ void next_step() {
        // Everybody has read where the step before began.
        __syncthreads();
        if (threadIdx.x == 0) {
            // Relaxed: the verdict has published them.
            block.begin = u32(load_relaxed_gpu(&barrier.leaders(kept_begin)));
            block.end = u32(load_relaxed_gpu(&barrier.leaders(kept_end)));
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
        if (thread_in_grid() != 0) return;
        tell_host(report_listed, block.listed);
        tell_host(report_steps, u64(block.steps));
        tell_host(report_stopped, u64(verdict.phase == GangBarrier::stopped));
        tell_host(report_told, is_alone() ? 0 : block.listed);
        tell_host(report_received, block.received);
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
