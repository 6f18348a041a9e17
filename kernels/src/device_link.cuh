// Links between kernels that stay on their devices: a peer ring, and what its ends do
// where they must wait. What the host makes of it is `DeviceLink` of millstream-flow.
//
//     const DeviceSender<u32> out(link);         // any blocks of the sender's kernel
//     if (!out.send(items, count)) return;
//
//     DeviceReceiver<u32> in(link);              // one block of the receiver's
//     while (in.receive(items, &count)) ...
//
// With the host's words of a gang, as in `out(link, host)`, they wait no longer when the
// gang is stopped; else until their patience ends. That is an error of the link, and of the gang
// whose words these are.
//
// Every call is the whole block's, with the same answer for all its threads.
#pragma once

#include "gang.cuh"
#include "peer_ring.cuh"

namespace millstream {

struct DeviceLinkSettings {
    u64 patience_ns;
    u32 packet_items;
    u32 unused;
};
static_assert(sizeof(DeviceLinkSettings) == 16, "as Rust writes it");

// Both kernels take this by value.
template <class T>
struct DeviceLink {
    Span<u32> sender;   // `SenderWords`, in the sender's memory.
    Span<u32> slots;    // `SlotWords`, in the receiver's memory.
    Span<u32> taken;    // There, too, and the receiver's own: packets taken.
    Span<T> payloads;   // There, too.
    Span<u32> late;     // In the host's memory: whether an end has waited for too long.
    DeviceLinkSettings settings;

    __device__ __forceinline__ PeerRing<T> ring() const {
        return PeerRing<T>{reinterpret_cast<SenderWords*>(sender.items),
                           reinterpret_cast<SlotWords*>(slots.items), payloads.items,
                           u32(slots.len / 2), settings.packet_items};
    }

};

// How long a block has waited, which ends when the gang is stopped.
struct DeviceLinkWait {
    // The host's word is far away.
    static constexpr u64 between_looks_ns = 1'000'000;

    u64 start, looked;

    __device__ DeviceLinkWait() : start(nanoseconds()), looked(start) {}

    // The whole block: whether it makes sense to wait on.
    template <class T>
    __device__ bool goes_on(const DeviceLink<T>& link, const Span<u32>& host) {
        bool ends = false;
        if (threadIdx.x == 0) {
            const u64 now = nanoseconds();
            ends = now - start >= link.settings.patience_ns;
            if (ends) {
                tell(link.late, host);
            } else if (host.len != 0 && now - looked >= between_looks_ns) {
                looked = now;
                // Relaxed: the word is all there is to see.
                ends = load_relaxed_sys(&host[host_stop]) != StopReason::goes_on;
            }
        }
        return !__syncthreads_or(ends);
    }

    // One thread: the other end is late.
    __device__ static void tell(const Span<u32>& late, const Span<u32>& host) {
        // Relaxed: the kernel's end publishes it.
        store_relaxed_sys(&late[0], 1u);
        if (host.len != 0 && load_relaxed_sys(&host[host_stop]) == StopReason::goes_on)
            store_relaxed_sys(&host[host_stop], u32(peer_is_late));
    }
};

template <class T>
struct DeviceSender {
    DeviceLink<T> link;
    Span<u32> host;

    __device__ explicit DeviceSender(const DeviceLink<T>& link, Span<u32> host = {})
        : link(link), host(host) {}

    // At most a packet of items. False, and nothing sent, without a free slot.
    __device__ bool try_send(const T* items, u32 count) const {
        return link.ring().try_send(items, count);
    }

    // Waits for a slot. False, and nothing sent, if none came free in time.
    __device__ bool send(const T* items, u32 count) const {
        DeviceLinkWait wait;
        while (!try_send(items, count))
            if (!wait.goes_on(link, host)) return false;
        return true;
    }
};

template <class T>
struct DeviceReceiver {
    DeviceLink<T> link;
    Span<u32> host;
    u32 next;

    // Goes on where the last receiver of the link was.
    __device__ explicit DeviceReceiver(const DeviceLink<T>& link, Span<u32> host = {})
        : link(link), host(host), next(link.taken[0]) {}

    // Takes the next packet, if it is there, into room for `packet_items`.
    __device__ bool try_receive(T* items, u32* count) {
        if (!link.ring().try_receive(&next, items, count)) return false;
        // For the next receiver, whose kernel begins after this one.
        if (threadIdx.x == 0) link.taken[0] = next;
        return true;
    }

    // Waits for the next packet. False if none came in time.
    __device__ bool receive(T* items, u32* count) {
        DeviceLinkWait wait;
        while (!try_receive(items, count))
            if (!wait.goes_on(link, host)) return false;
        return true;
    }
};

}  // namespace millstream
