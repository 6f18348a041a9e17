// Connected components by the kernels of a gang, one a device: all steps in one launch.
// Follows `hooking.cuh`, `rows.cuh` and `merge.cuh`; the host's side is `gang.rs`.

#include "gang_barrier.cuh"

namespace millstream {

struct GangSettings {
    u64 patience;
    u32 here;
    u32 devices;
    u32 method;
    u32 hub;
    // Rows in the sample.
    u32 sampled;
    u32 padding;
    // Vertices whose trees begin here, and those that this device labels.
    Range covered;
    Range own;
    Ranges told;
};

// Words of `GangBarrier` for leaders; here all blocks use it.
enum CcWord { arrivals };

// The blocks of one device meet.
class DeviceMeeting {
   public:
    __device__ explicit DeviceMeeting(const GangBarrier& barrier)
        : barrier(barrier), arrived(barrier.leaders(arrivals)) {}

    // The whole block. What all blocks of the device did before is visible to all
    // after. False if the gang is stopped.
    __device__ bool meet() {
        bool is_stopped = false;
        __syncthreads();
        if (threadIdx.x == 0) {
            const u64 all = ++round * gridDim.x;
            // Release: pairs with the acquire below.
            fetch_add_release_gpu(&arrived, u64(1));
            GangBarrier::Patience looks;
            while (load_acquire_gpu(&arrived) < all && !is_stopped)
                is_stopped = barrier.gives_up(looks);
        }
        return __syncthreads_or(is_stopped) == 0;
    }

   private:
    const GangBarrier& barrier;
    u64& arrived;
    u64 round = 0;
};

// Rows of the first stage of the sample, and how much larger all are after each: `stages` in
// `solver.rs`.
constexpr u32 first_stage = 2048;
constexpr u32 stage_factor = 4;

// The trees of a device's own rows. False if the gang is stopped.
__device__ bool hook_own_rows(const Rows& rows, const Span<u32>& parents,
                              const Span<u64>& shared_arcs, const GangSettings& settings,
                              DeviceMeeting& meeting) {
    if (settings.method == towards_smaller) {
        start_tiles_of_trees(rows, parents, settings.covered);
    } else {
        start_trees(rows, parents, settings.covered);
    }
    if (!meeting.meet()) return false;
    for (u64 start = 0, end = first_stage; start < settings.sampled;
         start = end, end *= stage_factor) {
        const u32 limit = end < settings.sampled ? u32(end) : settings.sampled;
        sample_rows(rows, parents, Range{u32(start), limit});
        if (!meeting.meet()) return false;
    }
    hook_along_rows(rows, parents, settings.covered, settings.method, settings.hub, shared_arcs);
    return meeting.meet();
}

// Joins the trees of all devices. False if the gang is stopped.
__device__ bool merge(const Told& told, const Span<u32>& parents, const GangSettings& settings,
                      GangBarrier& barrier, DeviceMeeting& meeting) {
    tell(told, parents, settings.told, settings.hub);
    const auto go_on = [](const Totals&) { return 0u; };
    if (barrier.meet(go_on).phase != 0) return false;
    const Range covered = settings.covered;
    if (covered.start > 0 || covered.end < parents.len) {
        plant(told, parents, covered);
        if (!meeting.meet()) return false;
    }
    join(told, parents, settings.hub);
    return meeting.meet();
}

}  // namespace millstream

using namespace millstream;

extern "C" __global__ __launch_bounds__(512, 2) void components(
    const Span<const u64> offsets, const Span<const u32> targets, const u32 first_vertex,
    const Span<u32> parents, const Span<u64> shared_arcs, const SpanSet<u32> members,
    const SpanSet<u64> pairs, const SpanSet<u64> words, const Span<u32> host,
    const Span<u32> stopped, const __grid_constant__ GangSettings settings) {
    const Rows rows{offsets, targets, first_vertex};
    const Told told{members, pairs, settings.here, settings.devices};
    GangBarrier barrier(words, settings.here, settings.devices, host, settings.patience);
    DeviceMeeting meeting(barrier);
    if (hook_own_rows(rows, parents, shared_arcs, settings, meeting) &&
        (settings.devices == 1 || merge(told, parents, settings, barrier, meeting)))
        label(told, parents, settings.own, settings.hub);
    else if (threadIdx.x == 0)
        store_relaxed_sys(&stopped[0], 1u);
}
