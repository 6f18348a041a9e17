// What a worklist's kernels take, and the words of its memory; `common.rs`,
// `status.rs` and `statistics.rs` of the worklist.
#pragma once

#include "span.cuh"
#include "tell.cuh"

namespace millstream {

enum class Flags : u32 { keep, pass, both, drop };

constexpr u32 nobody = ~0u;

// Where a kernel runs.
struct Here {
    u32 device;
    u32 devices;
    // The next device of the ring, or `nobody`.
    u32 next;
};

// Words of a device's status.
enum Status {
    produced,
    consumed,
    deferred_in,
    deferred_out,
    work_items,
    sent,
    received,
    kept,
    passed,
    dropped,
    filtered,
    counters,
    lowest_deferred = counters,
    fault,
    packed,
    ready_entries,
    deferred_entries,
    ready_news,
    outbox_news,
};

constexpr u64 passed_alone = 1;
constexpr u64 passed_to_nobody = 2;
constexpr u64 queue_full = 3;

// Words of a task's scratch memory, 0 between kernels: what a kernel consumes, blocks that have ended,
// places given to packets, and items that have begun, with those of them that share their arcs counted in
// the upper half. A worker's memory has the shared arcs after these words.
enum Scratch { snapshot, ticket, places, begun, scratch_words };

enum Queues { ready_queue, deferred_queue, outbox_queues };

struct QueueSpans {
    Span<u32> bits;
    Span<u32> entries;
    Span<u32> control;
    u32 most;  // Items that one queue may hold at once.
};

// What every kernel takes.
template <class Program>
struct Common {
    typename Program::Problem problem;
    QueueSpans queues;
    Span<u64> status;
    Span<u64> scratch;
    Span<u64> report;
    Here here;
    Tell tell;
};

}  // namespace millstream
