// The words of a fused run's memory, and its settings; `fused.rs` of the worklist.
#pragma once

#include "span.cuh"

namespace millstream {

// Words of a device's gang memory. The first three, and the last, are written by the leader,
// the service block of device 0, on every device.
enum GangWord {
    gang_state,
    gang_threshold,
    gang_epoch,
    // Deferred items being brought back: the first entry, how many entries and words of
    // bits are still to be looked at, how many entries there are, and in two words how many
    // entries and words of bits have been taken, and how many there are.
    undefer_first,
    undefer_left,
    undefer_entries,
    undefer_taken,
    undefer_all,
    // Whether the leader has begun.
    gang_led,
    gang_words
};

// Words of a report after the status words: the threshold; then for each outbox its entries, the
// packets sent from it, and those of them that were taken.
enum Standing { standing_threshold, standing_outboxes };
enum OutboxStanding { outbox_entries, outbox_tail, outbox_head, outbox_standings };

enum GangState : u32 { waiting_to_start, running, stopped };

constexpr u64 stalled = 4;
constexpr u64 too_few_blocks = 5;

struct GangSettings {
    u64 patience_ns;  // Time without progress that ends the run.
    u64 falls_after;  // Items processed before the threshold falls back to the first one.
    u32 delta;     // Steps of the threshold; 0 runs everything at once.
    u32 threshold; // The first one.
    u32 slots;     // Packets of a ring, a power of two.
    u32 slot_items;
    u32 previous;  // The device before this one in the ring.
    u32 lanes;     // Rings from one device to another.
    u32 seed;      // Of the random delays.
    u32 least_delay_ns;  // Least and most time that a packet stays in an inbox.
    u32 most_delay_ns;  // 0 for no delay.
    u32 ring_words;  // From one ring of an inbox to the next.
};

}  // namespace millstream
