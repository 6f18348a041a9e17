// Sweeps of PageRank by the kernels of a gang, one a device, until ranks change little:
// each writes what its vertices give into the memory of every device that asks, and
// all meet after each sweep. Follows `sweep.cuh`; the host's side is `gang_sweeps.rs`.

#include "gang_barrier.cuh"

namespace millstream {

struct GangSweepSettings {
    SweepSettings sweep;
    double tolerance;
    // What every vertex gets from nowhere alone.
    double nowhere;
    // Of all devices.
    double vertices;
    u64 patience_ns;
    u32 here;
    u32 devices;
    u32 most_sweeps;
    u32 padding;
};

// Words for the host, of each device.
enum SweepReport { report_sweeps, report_change, report_words };

template <class Real>
struct WordOf;
template <>
struct WordOf<float> {
    using Type = u32;
};
template <>
struct WordOf<double> {
    using Type = u64;
};

template <class Real>
struct SweepGang {
    using Word = typename WordOf<Real>::Type;

    // For each item, a bit for each device that asks for what the item's rows give; empty if
    // there is only one device.
    Span<const u32> askers;
    // What the vertices of all devices give, on each device: for even sweeps, and for
    // odd ones.
    SpanSet<Word> even;
    SpanSet<Word> odd;

    __device__ Real* shares(u32 sweep, u32 device) const {
        return reinterpret_cast<Real*>((sweep % 2 == 0 ? even : odd)[device].items);
    }
};

// Sums cross devices in fixed point, which adds up to the same in any order: those of
// a sweep are at most 2.
constexpr double fixed_one = double(1ull << 58);
// No block has such a change, unless ranks overflow their type: fixed point cannot hold that,
// nor what is not a number.
constexpr double beyond_change = 4;

// Words that are kept.
enum SweepKept { change_before, dangling_before, dangling_now };
// A word of the device.
enum SweepDeviceWord { next_ticket };
// Where the parts of shared rows begin, behind the barrier's words.
constexpr u32 parts_word = 512;

// One thread of each block, after each sweep; whether it was the last.
__device__ inline u32 judge(Totals& totals, const GangSweepSettings& settings,
                            const Span<u64>& report, u32 sweeps) {
    u64 sums[2];
    for (u32 each = 0; each < 2; ++each) {
        const u64 count = totals.count(each);
        // Counts only grow, and wrap around.
        sums[each] = count - totals.keep(change_before + each, count);
    }
    totals.keep(dangling_now, sums[1]);
    double change = double(sums[0]) / fixed_one;
    // A block has offered this if its change was too large for fixed point.
    const bool is_beyond = totals.most() != 0;
    if (is_beyond) change = __longlong_as_double(0x7ffll << 52);
    const bool is_last =
        is_beyond || change <= settings.tolerance || sweeps == settings.most_sweeps;
    if (is_last && blockIdx.x == 0) {
        store_relaxed_sys(&report[report_change], u64(__double_as_longlong(change)));
        store_release_sys(&report[report_sweeps], u64(sweeps));
    }
    return is_last;
}

template <class Real, u32 loads, bool is_plain>
__device__ void sweep_in_gang(const SweepGraph<Real>& graph, const SweepVertices<Real>& vertices,
                              const SweepGang<Real>& gang, GangBarrier& barrier,
                              u64* parts, const Span<u64>& report, const GangSweepSettings& settings) {
    SweepSettings now = settings.sweep;
    const u32 here = settings.here;
    for (u32 sweep = 0;; ++sweep) {
        const Sweep<Real, loads, is_plain> rows(graph, vertices, now, gang.shares(sweep, here), parts);
        Real* const own = gang.shares(sweep + 1, here);
        const Tickets tickets{&barrier.device_word(next_ticket), sweep * rows.tickets_of_sweep()};
        const auto give = [&](u32 item, u32 row, Real share) {
            const u32 vertex = now.first_vertex + row;
            own[vertex] = share;
            if (gang.askers.len == 0) return;
            for (u32 askers = gang.askers[item]; askers != 0; askers &= askers - 1) {
                gang.shares(sweep + 1, __ffs(askers) - 1)[vertex] = share;
            }
        };
        const SweepSums<double> sums = sum_of_block(rows.rows(tickets, give));
        if (threadIdx.x == 0) {
            // Rounded up: a change never looks like none.
            barrier.count(GangBarrier::first_count, u64(ceil(sums.change * fixed_one)));
            barrier.count(GangBarrier::second_count, u64(sums.dangling * fixed_one));
            // Holds for what is not a number, too: that is less than nothing.
            if (!(sums.change < beyond_change)) barrier.offer(1);
        }
        const auto decide = [&](Totals& totals) {
            return judge(totals, settings, report, sweep + 1);
        };
        if (barrier.meet(decide).phase != 0) return;
        const double dangling = double(barrier.kept(dangling_now)) / fixed_one;
        now.base = settings.nowhere + now.damping * dangling / settings.vertices;
    }
}

// What is compiled: `SweptReal`, the type of ranks, and `is_plain_graph` are defined before.
constexpr bool is_double = sizeof(SweptReal) == 8;
// Short rows want threads; long ones want arcs in flight.
constexpr u32 sweep_loads = is_plain_graph || is_double ? 4 : 8;
constexpr u32 sweep_threads = is_plain_graph && is_double ? 512 : 1024;
// Two blocks of 1024 threads would spill registers before sm_90.
constexpr u32 sweep_blocks = is_plain_graph && (is_double || __CUDA_ARCH__ >= 900) ? 2 : 1;

extern "C" __global__ __launch_bounds__(sweep_threads, sweep_blocks) void sweeps(
    const SweepGraph<SweptReal> graph, const SweepVertices<SweptReal> vertices,
    const SweepGang<SweptReal> gang, const SpanSet<u64> words, const Span<u32> host,
    const Span<u64> report, const GangSweepSettings settings) {
    GangBarrier barrier(words, settings.here, settings.devices, host, settings.patience_ns);
    u64* const parts = &words[settings.here][parts_word];
    sweep_in_gang<SweptReal, sweep_loads, is_plain_graph>(graph, vertices, gang, barrier, parts, report,
                                                          settings);
}

static_assert(GangBarrier::words_of_device <= parts_word, "as Rust allocates");

}  // namespace millstream
