// Links between kernels that stay on their devices: peer rings, and what their ends do
// where they must wait. The host's side is `DeviceLink` of millstream-flow.
//
//     const DeviceSender<u32> out(link);         // any blocks of the sender's kernel
//     const LinkSlot<u32> slot = out.claim();    // in the receiver's memory
//     if (!slot) return;
//     slot[threadIdx.x] = ...;                   // its threads fill it
//     out.publish(slot, count);
//
//     DeviceReceiver<u32> in(link);              // one block of the receiver's
//     const LinkPacket<u32> packet = in.take();  // in its own memory
//     if (!packet) return;
//     ... = packet[threadIdx.x];                 // its threads read it
//     in.give_back();
//
// `out.send(items, count)` and `in.receive(items, &count)` copy from and to the caller's memory.
// A packet of up to 8 bytes sent this way orders nothing: the block's other stores may be seen after it.
// Larger packets, empty ones, and those published after a claim come after all stores of the block. A link
// has one channel or several, each a ring of its own, so that as many blocks can receive at once, each
// from its channel, as in `in(link, host, blockIdx.x)`.
//
// Given the host's words of a gang, as in `out(link, host)`, both ends stop waiting when the gang is
// stopped. They always stop when their patience ends: that is an error of the link, and of the gang
// whose words they were given.
//
// The whole block makes every call, and all its threads get the same answer.
#pragma once

#include "copy_bytes.cuh"
#include "gang.cuh"
#include "peer_ring.cuh"

namespace millstream {

struct DeviceLinkSettings {
    u64 patience_ns;
    u32 packet_items;  // Items of a packet, at most.
    u32 slot_items;    // Items from one slot to the next: each begins at a multiple of 16 bytes.
    u32 packets;       // Slots of a channel, a power of two.
    u32 channels;
    u32 sends_few;     // As in `PeerRing`.
    u32 unused;
};

// Counts of what was sent on a channel: written by the sender, read by the host.
enum TrafficWord { packets_sent, items_sent, items_of_largest, traffic_words = 16 };

// Both kernels take this by value.
template <class T>
struct DeviceLink {
    Span<u32> sender;   // `SenderWords` of each channel.
    Span<u32> slots;    // `SlotWords`, of each channel's slots.
    Span<u32> taken;    // The receiver's own, of each channel: packets taken.
    Span<T> payloads;   // Of all slots.
    Span<u64> traffic;  // `TrafficWord`s of each channel.
    Span<u32> late;     // In the host's memory: whether an end has waited for too long.
    DeviceLinkSettings settings;

    // Words of a cache line: words that blocks poll have lines of their own.
    static constexpr u32 line_words = 32;

    __device__ __forceinline__ u64 slot_words() const {
        const u64 words = settings.packets * (sizeof(SlotWords) / sizeof(u32));
        return (words + line_words - 1) / line_words * line_words;
    }

    __device__ __forceinline__ PeerRing<T> ring(u32 channel) const {
        u32* const credit = sender.items + u64(channel) * line_words;
        u32* const words = slots.items + u64(channel) * slot_words();
        T* const first = payloads.items + u64(channel) * settings.packets * settings.slot_items;
        return PeerRing<T>{reinterpret_cast<SenderWords*>(credit),
                           reinterpret_cast<SlotWords*>(words), first, settings.packets,
                           settings.slot_items, settings.sends_few};
    }

    __device__ __forceinline__ u32* taken_of(u32 channel) const {
        return taken.items + u64(channel) * line_words;
    }

    // The whole block that has published a packet.
    __device__ __forceinline__ void count(u32 channel, u32 items) const {
        if (threadIdx.x != 0) return;
        u64* const words = traffic.items + u64(channel) * traffic_words;
        // Relaxed: the kernel's end publishes them.
        fetch_add_relaxed_gpu(&words[packets_sent], u64(1));
        fetch_add_relaxed_gpu(&words[items_sent], u64(items));
        fetch_max_relaxed_gpu(&words[items_of_largest], u64(items));
    }
};

// A wait of a block's first thread: it ends when the gang is stopped or patience runs out.
struct DeviceLinkWait {
    // A read of the host's word takes long, and one of the time is not cheap.
    static constexpr u64 between_looks_ns = 1'000'000;
    static constexpr u32 turns_between = 32;

    u64 start = 0, looked = 0;
    u32 turns = 0;

    // Whether it makes sense to wait on.
    template <class T>
    __device__ bool goes_on(const DeviceLink<T>& link, const Span<u32>& host) {
        if (++turns % turns_between != 0) return true;
        const u64 now = nanoseconds();
        // The time is read only here: it takes a while, and most waits end sooner.
        if (start == 0) start = looked = now;
        if (now - start >= link.settings.patience_ns) {
            tell(link.late, host);
            return false;
        }
        if (host.len == 0 || now - looked < between_looks_ns) return true;
        looked = now;
        // Relaxed: the word is all there is to see.
        return load_relaxed_sys(&host[host_stop]) == StopReason::goes_on;
    }

    // One thread: the other end is late.
    __device__ static void tell(const Span<u32>& late, const Span<u32>& host) {
        // Relaxed: the kernel's end publishes it.
        store_relaxed_sys(&late[0], 1u);
        if (host.len != 0) give_up(&host[host_stop], peer_is_late);
    }
};

// A slot that the block has claimed, with room for `len` items. False if there is none.
template <class T>
struct LinkSlot {
    T* items;
    u32 len;
    u32 position;

    __device__ __forceinline__ explicit operator bool() const { return items != nullptr; }
    __device__ __forceinline__ T& operator[](u32 item) const { return items[item]; }
};

// A packet of `len` items that has arrived; `len` may be 0. False if there is no packet.
template <class T>
struct LinkPacket {
    const T* items;
    u32 len;

    __device__ __forceinline__ explicit operator bool() const { return items != nullptr; }
    __device__ __forceinline__ const T& operator[](u32 item) const { return items[item]; }
};

// The block copies items in the widest words that their places allow.
template <class T>
__device__ __forceinline__ void copy_items(const T* from, T* to, u32 count) {
    copy_bytes({threadIdx.x, blockDim.x}, reinterpret_cast<const unsigned char*>(from),
               reinterpret_cast<unsigned char*>(to), u64(count) * sizeof(T));
}

template <class T>
struct DeviceSender {
    DeviceLink<T> link;
    Span<u32> host;
    u32 channel;

    __device__ explicit DeviceSender(const DeviceLink<T>& link, Span<u32> host = {},
                                     u32 channel = 0)
        : link(link), host(host), channel(channel) {}

    // A free slot, if there is one. Until it is published it holds up the channel's later
    // packets, so the block must not wait for anybody meanwhile.
    __device__ LinkSlot<T> try_claim() const {
        return claim_by([&](PeerRing<T>& ring, u32* at) { return ring.try_claim(at); });
    }

    // Waits for a slot. None if none came free in time, or there is no such channel.
    __device__ LinkSlot<T> claim() const {
        return claim_by([&](PeerRing<T>& ring, u32* at) {
            DeviceLinkWait wait;
            while (!ring.try_claim(at))
                if (!wait.goes_on(link, host)) return false;
            return true;
        });
    }

    // Publishes the first `count` items of the slot as its packet. False if `count` exceeds
    // the slot's `len`: then the slot is still claimed.
    __device__ bool publish(const LinkSlot<T>& slot, u32 count) const {
        if (count > slot.len) return false;
        link.ring(channel).publish_slot(slot.position, count);
        link.count(channel, count);
        return true;
    }

    // Sends at most a packet of items. False, and nothing sent, if no slot is free or `count` is larger.
    __device__ bool try_send(const T* items, u32 count) const {
        return count <= link.settings.packet_items && fill(try_claim(), items, count);
    }

    // Waits for a slot. False, and nothing sent, if none came free in time, or if
    // `count` exceeds a packet.
    __device__ bool send(const T* items, u32 count) const {
        return count <= link.settings.packet_items && fill(claim(), items, count);
    }

    __device__ bool fill(const LinkSlot<T>& slot, const T* items, u32 count) const {
        if (!slot) return false;
        link.ring(channel).send_slot(slot.position, items, count, copy_items<T>);
        link.count(channel, count);
        return true;
    }

   private:
    template <class Claim>
    __device__ LinkSlot<T> claim_by(Claim claim) const {
        if (channel >= link.settings.channels) return {nullptr, 0, 0};
        PeerRing<T> ring = link.ring(channel);
        u32 position;
        if (!ring.first_says([&](u32* at) { return claim(ring, at); }, &position))
            return {nullptr, 0, 0};
        return {ring.payload(position), link.settings.packet_items, position};
    }
};

template <class T>
struct DeviceReceiver {
    DeviceLink<T> link;
    Span<u32> host;
    u32 channel;
    u32 next;  // Position of the next packet.

    // Goes on where the channel's previous receiver ended.
    __device__ explicit DeviceReceiver(const DeviceLink<T>& link, Span<u32> host = {},
                                       u32 channel = 0)
        : link(link), host(host), channel(channel),
          next(channel < link.settings.channels ? *link.taken_of(channel) : 0) {}

    // The next packet, if it has arrived. The block may read it until it gives it back.
    __device__ LinkPacket<T> try_take() {
        return take_by([&](PeerRing<T>& ring, u32* count) { return ring.is_ready(next, count); });
    }

    // Waits for the next packet. None if none came in time, or there is no such channel.
    __device__ LinkPacket<T> take() {
        return take_by([&](PeerRing<T>& ring, u32* count) {
            DeviceLinkWait wait;
            while (!ring.is_ready(next, count))
                if (!wait.goes_on(link, host)) return false;
            return true;
        });
    }

    // The block has read all packets taken so far: gives their slots back.
    __device__ void give_back() {
        link.ring(channel).give_back_packets(next);
        // For the next receiver, whose kernel begins after this one.
        if (threadIdx.x == 0) *link.taken_of(channel) = next;
    }

    // Copies the next packet, if it has arrived, to `items`, with room for `packet_items`.
    __device__ bool try_receive(T* items, u32* count) { return empty(try_take(), items, count); }

    // Waits for the next packet. False if none came in time.
    __device__ bool receive(T* items, u32* count) { return empty(take(), items, count); }

    __device__ bool empty(const LinkPacket<T>& packet, T* items, u32* count) {
        if (!packet) return false;
        copy_items(packet.items, items, packet.len);
        *count = packet.len;
        give_back();
        return true;
    }

   private:
    template <class Take>
    __device__ LinkPacket<T> take_by(Take take) {
        if (channel >= link.settings.channels) return {nullptr, 0};
        PeerRing<T> ring = link.ring(channel);
        u32 count;
        if (!ring.first_says([&](u32* arrived) { return take(ring, arrived); }, &count))
            return {nullptr, 0};
        return {ring.payload(next++), count};
    }
};

}  // namespace millstream
