// One device of a fused run as its blocks see it: the words and rings of the gang.
#pragma once

#include "fused_words.cuh"
#include "gang.cuh"
#include "peer_ring.cuh"
#include "worklist.cuh"

namespace millstream {

template <class Program>
struct FusedDevice {
    using Packet = typename Program::Packet;

    const Common<Program>& common;
    const SpanSet<u64>& statuses;
    const SpanSet<u32>& words;
    const SpanSet<u32>& inboxes;
    const SpanSet<u32>& credits;
    const Span<u32>& host;
    const GangSettings& settings;

    __device__ u32 here() const { return common.here.device; }
    __device__ u32 devices() const { return common.here.devices; }
    __device__ bool is_ring() const { return common.here.next != nobody; }

    // Inboxes of a device, and as many outboxes. A single device has neither.
    __device__ u32 boxes() const { return is_ring() ? 1 : devices() - 1; }

    // Blocks that receive, and as many that send.
    __device__ u32 ends() const { return boxes() * settings.lanes; }

    __device__ u32 word(GangWord word) const { return load_relaxed_sys(&words[here()][word]); }

    // The lanes of a warp together. They branch on it, so all get the word that one has read.
    __device__ u32 threshold() const { return __shfl_sync(~0u, word(gang_threshold), 0); }

    // Acquire: pairs with the leader's release.
    __device__ u32 state() const { return load_acquire_sys(&words[here()][gang_state]); }

    // Device `from` puts packets for `to` here.
    __device__ PeerRing<Packet> ring(u32 from, u32 to, u32 lane) const {
        const u32 inbox = (is_ring() ? 0 : from - (from > to)) * settings.lanes + lane;
        const u32 outbox = (is_ring() ? 0 : to - (to > from)) * settings.lanes + lane;
        const u64 slot_words = u64(settings.slots) * (sizeof(SlotWords) / 4);
        u32* const base = inboxes[to].items + inbox * u64(settings.ring_words);
        PeerRing<Packet> ring;
        ring.sender = reinterpret_cast<SenderWords*>(credits[from].items) + outbox;
        ring.slots = reinterpret_cast<SlotWords*>(base);
        ring.payloads = reinterpret_cast<Packet*>(base + slot_words);
        ring.capacity = settings.slots;
        ring.slot_items = settings.slot_items;
        // A packet must come after what was counted before it: finding the end relies on that.
        ring.sends_few = 0;
        return ring;
    }

    __device__ u32 destination(u32 outbox) const {
        return is_ring() ? common.here.next : outbox + (outbox >= here());
    }

    __device__ u32 source(u32 inbox) const {
        return is_ring() ? settings.previous : inbox + (inbox >= here());
    }

    // How many are taken and, in the upper half, of how many: one word, so that a ticket
    // belongs to its epoch.
    __device__ u64* undefer() const {
        return reinterpret_cast<u64*>(&words[here()][undefer_taken]);
    }
};

}  // namespace millstream
