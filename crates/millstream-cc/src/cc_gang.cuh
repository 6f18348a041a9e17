// Connected components by the kernels of a gang, one a device: all steps in one launch.
// Follows `hooking.cuh`, `rows.cuh` and `merge.cuh`; the host's side is `gang.rs`.

#include "gang_barrier.cuh"

namespace millstream {

struct GangSettings {
    u64 patience;
    u32 here;
    u32 devices;
    u32 hub;
    u32 padding;
    // Vertices whose trees begin here, and those that this device labels.
    Range covered;
    Range own;
    Ranges told;
};

// What all kernels of a gang take.
struct GangMemory {
    Span<u32> parents;
    SpanSet<u32> members;
    SpanSet<u64> pairs;
    SpanSet<u64> words;
    Span<u32> host;
    // A word of the host: whether the gang was stopped.
    Span<u32> stopped;
    GangSettings settings;
};

// Words of `GangBarrier` for leaders; here all blocks use the first one.
// The other is for leaders.
enum CcWord { arrivals, found_before };

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

// A pass that finds fewer than one of so many vertices is the last one.
constexpr u64 least_found = 128;

// The steps of one device. Those that meet say whether the gang goes on.
class GangSteps {
   public:
    __device__ explicit GangSteps(const GangMemory& memory)
        : parents(memory.parents),
          stopped(memory.stopped),
          settings(memory.settings),
          members{memory.members, settings.here, settings.devices},
          told{memory.pairs, settings.here, settings.devices},
          barrier(memory.words, settings.here, settings.devices, memory.host, settings.patience),
          meeting(barrier) {}

    // The trees of the device's own rows, but for the members.
    __device__ bool hook_own_rows(const Rows& rows, const Span<u64>& shared_arcs) {
        plant_all(parents, settings.covered);
        if (!search_from_hub(rows)) return false;
        hook_smallest(parents, members, settings.hub);
        hook_along_rows(rows, parents, settings.covered, outside_hub, settings.hub, members,
                        shared_arcs);
        return meeting.meet();
    }

    // Joins the trees of all devices.
    __device__ bool merge() {
        if (settings.devices == 1) return true;
        tell(told, parents, settings.told);
        if (barrier.meet([](const Totals&) { return u32(go_on); }).phase != go_on) return false;
        const Range covered = settings.covered;
        if (covered.start > 0 || covered.end < parents.len) {
            plant(told, parents, covered);
            if (!meeting.meet()) return false;
        }
        join(told, parents);
        return meeting.meet();
    }

    __device__ void finish(bool is_done) const {
        if (is_done)
            label(members, parents, settings.own, settings.hub);
        else if (threadIdx.x == 0)
            store_relaxed_sys(&stopped[0], 1u);
    }

   private:
    enum Phase : u32 { go_on, enough };

    const Span<u32>& parents;
    const Span<u32>& stopped;
    const GangSettings& settings;
    Members members;
    Told told;
    GangBarrier barrier;
    DeviceMeeting meeting;

    // Pass by pass.
    __device__ bool search_from_hub(const Rows& rows) {
        flood_from_hub(rows, members, settings.hub);
        if (!meeting.meet()) return false;
        tell_of_members(rows, members, settings.hub);
        const Range whole = whole_words(settings.own, parents.len);
        u32 phase = barrier.meet([](const Totals&) { return u32(go_on); }).phase;
        while (phase == go_on) {
            count_found(flood(rows, members, whole));
            phase = barrier.meet([&](const Totals& totals) { return decide(totals); }).phase;
        }
        return phase == enough;
    }

    // The whole block.
    __device__ void count_found(u32 found) const {
        __shared__ u32 sum;
        if (threadIdx.x == 0) sum = 0;
        __syncthreads();
        if (lane() == 0 && found > 0) fetch_add_relaxed_gpu(&sum, found);
        __syncthreads();
        if (threadIdx.x == 0 && sum > 0) barrier.count(GangBarrier::first_count, sum);
    }

    // One thread of each device, after a pass.
    __device__ u32 decide(const Totals& totals) const {
        // A device that is alone has told nobody.
        const u64 count = settings.devices == 1 ? barrier.counted(GangBarrier::first_count)
                                                : totals.counts[0];
        u64& before = barrier.leaders(found_before);
        const u64 found = count - before;
        before = count;
        return found * least_found > parents.len ? go_on : enough;
    }
};

}  // namespace millstream

using namespace millstream;

// All steps of the method `outside_hub`.
extern "C" __global__ __launch_bounds__(512, 2) void components_outside_hub(
    const __grid_constant__ Rows rows, const Span<u64> shared_arcs,
    const __grid_constant__ GangMemory memory) {
    GangSteps steps(memory);
    const bool is_done = steps.hook_own_rows(rows, shared_arcs) && steps.merge();
    steps.finish(is_done);
}

// What is left to do when the rows have been hooked.
extern "C" __global__ __launch_bounds__(512, 4) void components_merged(
    const __grid_constant__ GangMemory memory) {
    GangSteps steps(memory);
    const bool is_done = steps.merge();
    steps.finish(is_done);
}
