// Connected components by the kernels of a gang, one a device: all steps in one launch.
// Follows `hooking.cuh`, `rows.cuh` and `merge.cuh`; the host's side is `gang.rs`.

#include "gang_barrier.cuh"

namespace millstream {

// Threads of a block.
constexpr u32 gang_threads = 512;

struct CcSettings {
    u64 patience_ns;
    u32 here;
    u32 devices;
    u32 hub;
    u32 padding;
    // Vertices whose trees begin on this device, all if there is a search; and those that it labels.
    Range covered;
    Range own;
    Ranges told;
};

// What all kernels of a gang take.
struct CcMemory {
    Span<u32> parents;
    SpanSet<u32> members;
    SpanSet<u64> pairs;
    SpanSet<u64> words;
    Span<u32> host;
    // A word for the host: whether the gang was stopped.
    Span<u64> report;
    Tell tell;
    CcSettings settings;
};

// What blocks have found in a pass, and, in the first pass only, what it has left.
constexpr GangBarrier::Counter found_count = GangBarrier::first_count;
constexpr GangBarrier::Counter left_count = GangBarrier::second_count;
// Words that are kept.
enum CcKept { found_before, left_before };

// The blocks of one device meet among themselves. False if the gang is stopped, here and below.
__device__ bool have_met_here(GangBarrier& barrier) {
    return barrier.meet_here().phase != GangBarrier::stopped;
}

// A pass that finds at most one in `least_found` vertices is the last one of its kind; one that leaves
// at most one in `few_left` is the last of all.
constexpr u64 least_found = 128;
constexpr u64 few_left = 256;

// How a pass looks for members: only at the hub of each vertex, or at its first arcs, too.
enum Phase : u32 { by_hubs, by_arcs, enough };

// One thread of each block, after a pass of the search.
__device__ u32 decide(Totals& totals, const CcMemory& memory, u32 phase, bool is_first) {
    const u64 vertices = memory.parents.len;
    const u64 all = totals.count(found_count);
    const u64 found = all - totals.keep(found_before, all);
    const u64 left = is_first ? totals.count(left_count) : totals.kept(left_before) - found;
    totals.keep(left_before, left);
    const bool are_few = found * least_found <= vertices;
    if (left * few_left <= vertices) return enough;
    if (phase == by_arcs) return are_few ? enough : by_arcs;
    // Devices hear of each other's members when they meet: arcs find what hubs would find later.
    const bool are_most = memory.settings.devices > 1 && all * 2 > vertices;
    return are_few || are_most ? by_arcs : by_hubs;
}

// Counts what the block's warps have found in a pass. The whole block.
__device__ void count_flooded(const GangBarrier& barrier, const Flooded& flooded, bool is_first) {
    __shared__ Flooded sum;
    if (threadIdx.x == 0) sum = Flooded{0, 0};
    __syncthreads();
    if (lane() == 0 && flooded.found > 0) atomicAdd(&sum.found, flooded.found);
    if (lane() == 0 && is_first && flooded.left > 0) atomicAdd(&sum.left, flooded.left);
    __syncthreads();
    if (threadIdx.x > 0) return;
    barrier.count(found_count, sum.found);
    barrier.count(left_count, sum.left);
}

// Searches from the hub, pass by pass; all vertices become trees meanwhile.
__device__ bool search_from_hub(const Rows& rows, const Span<u32>& hubs, const Members& members,
                                u32* list, const CcMemory& memory, GangBarrier& barrier) {
    const CcSettings& settings = memory.settings;
    if (rows.has(settings.hub)) {
        flood_from_hub(rows, members, settings.hub);
        if (!have_met_here(barrier)) return false;
        tell_of_members(members);
    }
    const Range whole = whole_words(settings.own, memory.parents.len);
    const auto start = [](const Totals&) { return u32(by_hubs); };
    u32 phase = barrier.meet(start).phase;
    // Nobody reads trees before the search is over: they are written beside its first pass.
    plant_all(memory.parents);
    for (bool is_first = true; phase == by_hubs || phase == by_arcs; is_first = false) {
        const Flooded flooded = phase == by_hubs
                                    ? flood<false>(rows, hubs, members, whole, list)
                                    : flood<true>(rows, hubs, members, whole, list);
        count_flooded(barrier, flooded, is_first);
        const auto judge = [&](Totals& totals) { return decide(totals, memory, phase, is_first); };
        phase = barrier.meet(judge).phase;
    }
    return phase == enough;
}

// Hooks the trees of a device's own rows, except members' rows, and tells of each hook as it makes it.
__device__ bool hook_own_rows(const Rows& rows, const Span<u32>& hubs, const Members& members,
                              const Span<u64>& shared_arcs, const Told& told,
                              const CcMemory& memory, GangBarrier& barrier) {
    const CcSettings& settings = memory.settings;
    __shared__ u32 lists[OpenVertices::most * gang_threads / 32];
    u32* const list = &lists[threadIdx.x / 32 * OpenVertices::most];
    if (!search_from_hub(rows, hubs, members, list, memory, barrier)) return false;
    hook_smallest(memory.parents, members, settings.hub);
    const ToldParents parents(memory.parents, told);
    RowHooks<ToldParents> hooks(rows, parents, outside_hub, settings.hub, members, shared_arcs);
    hook_along_open_rows(rows, hubs, members, list, hooks);
    return true;
}

// Joins the trees of all devices, when each has told of its own.
__device__ bool merge(const Told& told, const CcMemory& memory, GangBarrier& barrier) {
    const CcSettings& settings = memory.settings;
    if (settings.devices == 1) return have_met_here(barrier);
    const auto done = [](const Totals&) { return u32(enough); };
    if (barrier.meet(done).phase != enough) return false;
    const Range covered = settings.covered;
    if (covered.start > 0 || covered.end < memory.parents.len) {
        plant(told, memory.parents, covered);
        if (!have_met_here(barrier)) return false;
    }
    join(told, memory.parents);
    return have_met_here(barrier);
}

}  // namespace millstream

using namespace millstream;

// All steps of the method `outside_hub`.
extern "C" __global__ __launch_bounds__(gang_threads, 2) void components_outside_hub(
    const __grid_constant__ Rows rows, const Span<u32> hubs, const Span<u64> shared_arcs,
    const __grid_constant__ CcMemory memory) {
    const CcSettings& settings = memory.settings;
    const Members members{memory.members, settings.here, settings.devices};
    GangBarrier barrier(memory.words, settings.here, settings.devices, memory.host,
                        settings.patience_ns);
    const Told told{memory.pairs, settings.here, settings.devices};
    if (hook_own_rows(rows, hubs, members, shared_arcs, told, memory, barrier) &&
        merge(told, memory, barrier))
        label(members, memory.parents, settings.own, settings.hub);
    else if (threadIdx.x == 0)
        store_relaxed_sys(&memory.report[0], u64(1));
    barrier.end(memory.tell);
}

// What is left to do when the rows have been hooked.
extern "C" __global__ __launch_bounds__(gang_threads, 2) void components_merged(
    const __grid_constant__ CcMemory memory) {
    const CcSettings& settings = memory.settings;
    const Members members{memory.members, settings.here, settings.devices};
    GangBarrier barrier(memory.words, settings.here, settings.devices, memory.host,
                        settings.patience_ns);
    const Told told{memory.pairs, settings.here, settings.devices};
    if (settings.devices > 1) tell(told, memory.parents, settings.told);
    if (settings.devices == 1 || merge(told, memory, barrier))
        label(members, memory.parents, settings.own, settings.hub);
    else if (threadIdx.x == 0)
        store_relaxed_sys(&memory.report[0], u64(1));
    barrier.end(memory.tell);
}
