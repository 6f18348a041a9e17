// Litmus tests of what the service blocks of the fused worker tell each other: its own functions,
// in kernels that begin and end many times.
#include "fused_service.cuh"
#include "gang_barrier.cuh"

using namespace millstream;

// As Rust writes it.
struct Rounds {
    u32 here;
    u32 devices;
    u32 rounds;
    u32 seed;
};

// Words of each block, on the host: GPUs cannot add to the same ones.
enum Report { wrong, rounds_done, report_words };

// A program without work.
struct Nothing {
    struct Problem {};
    struct Packet {
        u32 word;
    };
    struct Arc {
        u32 target;
    };
    using State = u32;
};

using Service = FusedService<Nothing>;

__device__ __forceinline__ u32 hash(u32 x) {
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

__device__ __forceinline__ void pause(const Rounds& run, u32 round) {
    const u32 draw = hash(run.seed ^ hash(round * 64 + run.here * 8 + blockIdx.x));
    if (draw % 4 == 0) __nanosleep(draw >> 22);
}

constexpr u64 patience = 5000000000;

// Thresholds: round k of the leader raises them from `threshold_of(k - 1)` to `threshold_of(k)`,
// because one device says that its lowest deferred item is of that step. Who follows sees them on
// all devices, and that they have been counted for.

constexpr u32 delta = 16;

__device__ __forceinline__ u32 threshold_of(u32 round) { return (round + 1) * delta - 1; }

// In round `round`, of device `device`: all but one have items of later steps.
__device__ __forceinline__ u64 lowest_of(const Rounds& run, u32 round, u32 device) {
    const u32 step = round % run.devices == device ? round : round + 1 + device;
    return step * delta + hash(run.seed + round * run.devices + device) % delta;
}

struct Thresholds {
    const Service& service;
    const Rounds& run;
    bool is_wrong = false;

    // One thread: what a service block does in each turn, and a look at what it has heard.
    __device__ u32 follow(u32 epoch) {
        // The lowest item of the round after this one is there before the leader counts this as
        // consumed. Relaxed: what comes with the epoch is looked at after `follow`.
        u32* const words = service.words[run.here].items;
        if (load_relaxed_sys(words + gang_epoch) == epoch) return epoch;
        store_relaxed_sys(&service.common.status[lowest_deferred],
                          lowest_of(run, epoch + 2, run.here));
        const u32 now = service.follow(epoch);
        if (now != epoch) {
            for (u32 device = 0; device < run.devices; ++device)
                is_wrong |= load_relaxed_sys(&service.words[device][gang_threshold]) <
                            threshold_of(now);
            is_wrong |=
                load_relaxed_sys(&service.statuses[0][produced]) < u64(now) * run.devices;
            pause(run, now);
        }
        return now;
    }

    __device__ u32 serve() {
        u32 epoch = 0;
        for (u32 turn = 0; !service.must_stop(turn); ++turn) epoch = follow(epoch);
        return epoch;
    }

    // One warp: the leader's turns, until it has raised the threshold often enough.
    __device__ u32 lead() {
        const bool is_device = lane() < run.devices;
        u64* const status = service.statuses[is_device ? lane() : 0].items;
        if (is_device) store_relaxed_sys(status + lowest_deferred, lowest_of(run, 1, lane()));
        u32 epoch = 0;
        u32 threshold = threshold_of(0);
        const u64 start = nanoseconds();
        for (u32 turn = 0;; ++turn) {
            const bool is_late = turn % 1024 == 0 && nanoseconds() - start > 8 * patience;
            if (__any_sync(~0u, lane() == 0 && (is_late || service.must_stop(turn)))) break;
            if (lane() == 0) epoch = follow(epoch);
            const u64 done = Service::sum(is_device ? load_acquire_sys(status + consumed) : 0);
            __syncwarp();
            const u64 made = Service::sum(is_device ? load_acquire_sys(status + produced) : 0);
            if (done != made) continue;
            const u32 round = u32(made / run.devices);
            if (round == run.rounds) break;
            pause(run, round);
            __syncwarp();
            threshold = service.next_step(status, is_device, threshold);
            service.move_threshold(is_device, threshold);
            is_wrong |= threshold != threshold_of(round + 1);
        }
        __syncwarp();
        if (lane() == 0) service.stop_all();
        return epoch;
    }
};

__device__ Common<Nothing> common_of(Span<u64> status, u32* words, const Rounds& run) {
    Common<Nothing> common{};
    // Two queues of 32 items, which stay empty.
    common.queues.control = {words + gang_words, 2 * Queue::control_words};
    common.queues.bits = {common.queues.control.items + 2 * Queue::control_words, 2};
    common.queues.entries = {common.queues.bits.items + 2, 2 * 8};
    common.status = status;
    common.here = {run.here, run.devices, nobody};
    return common;
}

extern "C" __global__ void thresholds(const __grid_constant__ SpanSet<u64> statuses,
                                      const __grid_constant__ Span<u32> host,
                                      const __grid_constant__ SpanSet<u32> words,
                                      Span<u32> report,
                                      const __grid_constant__ Rounds run) {
    const Common<Nothing> common =
        common_of(statuses[run.here], words[run.here].items, run);
    GangSettings settings{};
    settings.patience_ns = patience;
    settings.delta = delta;
    settings.threshold = threshold_of(0);
    const Service service{common, statuses, words, words, words, host, settings};
    service.wait_for_start();
    Thresholds thresholds{service, run};
    if (threadIdx.x >= 32) return;
    u32 rounds = 0;
    if (run.here == 0) {
        rounds = thresholds.lead();
    } else if (threadIdx.x == 0) {
        rounds = thresholds.serve();
    }
    const bool is_wrong = __any_sync(~0u, thresholds.is_wrong);
    if (threadIdx.x != 0) return;
    store_relaxed_sys(&report[run.here * report_words + wrong], u32(is_wrong));
    store_relaxed_sys(&report[run.here * report_words + rounds_done], rounds);
}

// The state: in each round all blocks of all devices wait for the start, one block stops the gang,
// perhaps before others have started, and whoever finds that sees what it did before.

extern "C" __global__ void states(const __grid_constant__ SpanSet<u64> memory,
                                  const __grid_constant__ Span<u32> host,
                                  const __grid_constant__ SpanSet<u32> words, Span<u32> report,
                                  const __grid_constant__ Rounds run) {
    constexpr u32 cell = gang_words;
    const Common<Nothing> common =
        common_of(memory[run.here], words[run.here].items, run);
    const GangSettings settings{};
    const Service service{common, memory, words, words, words, host, settings};
    GangBarrier barrier(memory, run.here, run.devices, host, patience);
    const auto meets = [&] {
        return barrier.meet([](const Totals&) { return 1u; }).phase != GangBarrier::stopped;
    };
    bool is_wrong = false;
    u32 round = 0;
    for (; round < run.rounds; ++round) {
        pause(run, round);
        service.wait_for_start();
        const u32 stopper = hash(run.seed + round) % (run.devices * gridDim.x);
        if (threadIdx.x == 0 && stopper == run.here * gridDim.x + blockIdx.x) {
            for (u32 device = 0; device < run.devices; ++device)
                words[device][cell] = round + 1;
            service.stop_all();
        }
        if (threadIdx.x == 0) {
            GangBarrier::Patience looks;
            while (service.state() != stopped && !barrier.gives_up(looks)) {
            }
            is_wrong |= words[run.here][cell] != round + 1;
        }
        if (!meets()) break;
        if (threadIdx.x == 0 && blockIdx.x == 0)
            store_relaxed_sys(&words[run.here][gang_state], u32(waiting_to_start));
        if (!meets()) break;
    }
    if (threadIdx.x != 0) return;
    u32* const own = &report[(run.here * gridDim.x + blockIdx.x) * report_words];
    store_relaxed_sys(own + wrong, u32(is_wrong));
    store_relaxed_sys(own + rounds_done, round);
}
