// The words of a fused run's memory, and how it runs; `fused.rs` of the worklist.
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
    // bits have not been looked at, how many of them are entries, and in two words how
    // many have been taken, and of how many.
    undefer_first,
    undefer_left,
    undefer_entries,
    undefer_taken,
    undefer_all,
    // Whether the leader has begun.
    gang_led,
    gang_words
};

// Words of a report behind those of the status: the threshold; then for each outbox its entries,
// and packets sent from it and taken.
enum Standing { standing_threshold, standing_outboxes };
enum OutboxStanding { outbox_entries, outbox_tail, outbox_head, outbox_standings };

enum GangState : u32 { waiting_to_start, running, stopped };

constexpr u64 stalled = 4;
constexpr u64 too_few_blocks = 5;

struct GangSettings {
    u64 patience_ns;  // Without progress, that end the run.
    u64 falls_after;  // Items, after which the threshold falls back to the first one.
    u32 delta;     // Steps of the threshold; 0 runs everything at once.
    u32 threshold; // The first one.
    u32 slots;     // Packets of a ring, a power of two.
    u32 slot_items;
    u32 previous;  // The device before this one in the ring.
    u32 lanes;     // Rings from one device to another.
    u32 seed;      // Of delays.
    u32 least_delay_ns;  // That a packet stays in an inbox.
    u32 most_delay_ns;  // 0 for none.
    u32 ring_words;  // From one ring of an inbox to the next.
};

}  // namespace millstream
