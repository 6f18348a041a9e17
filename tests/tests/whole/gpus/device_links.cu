// Blocks that share the channels of a link, and a block for each channel that receives.
#include "device_link.cuh"

using namespace millstream;

struct Run {
    u32 packets;   // Of each sending block.
    u32 senders;   // Of a channel.
};

// The first items of a packet say whose it is.
constexpr u32 least_items = 2, most_items = 37, most_senders = 8;

__device__ __forceinline__ u32 items_of(u32 sender, u32 packet) {
    return least_items + (sender * 7 + packet * 13) % (most_items - least_items + 1);
}

__device__ __forceinline__ u32 content(u32 sender, u32 packet, u32 at) {
    if (at < least_items) return at == 0 ? sender : packet;
    return (sender * 31 + packet * 37 + at) * 2654435761u;
}

// In the report: what was wrong at this end, and blocks that gave up.
extern "C" __global__ void fills(DeviceLink<u32> link, Span<u32> host, Span<u32> report, Run run) {
    __shared__ u32 own[most_items + 1];
    const DeviceSender<u32> out(link, host, blockIdx.x / run.senders);
    const u32 sender = blockIdx.x % run.senders;
    const auto fill = [&](u32* to, u32 packet) {
        for (u32 at = threadIdx.x; at < items_of(sender, packet); at += blockDim.x)
            to[at] = content(sender, packet, at);
    };
    bool goes_on = true;
    u32 wrong = 0;
    for (u32 packet = 0; goes_on && packet < run.packets; ++packet) {
        const u32 count = items_of(sender, packet);
        if (packet % 2 == 0) {
            const LinkSlot<u32> slot = out.claim();
            goes_on = bool(slot);
            if (!goes_on) break;
            fill(slot.items, packet);
            // More than it has is refused, and the slot still the block's.
            wrong += slot.len != most_items || out.publish(slot, most_items + 1);
            wrong += !out.publish(slot, count);
        } else {
            __syncthreads();
            fill(own, packet);
            __syncthreads();
            wrong += out.send(own, most_items + 1) || out.try_send(own, most_items + 1);
            goes_on = out.send(own, count);
        }
    }
    const DeviceSender<u32> nowhere(link, host, link.settings.channels);
    wrong += bool(nowhere.claim());
    if (threadIdx.x != 0) return;
    fetch_add_relaxed_sys(&report[0], wrong);
    fetch_add_relaxed_sys(&report[1], u32(!goes_on));
}

// Each sender's packets come in its order.
struct Judge {
    u32* next;
    u32 wrong;

    __device__ void look(const u32* items, u32 count) {
        __syncthreads();
        const u32 sender = items[0];
        const u32 packet = next[sender % most_senders];
        bool is_wrong = count != items_of(sender, packet);
        for (u32 at = threadIdx.x; at < count; at += blockDim.x)
            is_wrong |= items[at] != content(sender, packet, at);
        wrong += __syncthreads_or(is_wrong);
        if (threadIdx.x == 0) next[sender % most_senders] = packet + 1;
        __syncthreads();
    }
};

extern "C" __global__ void reads(DeviceLink<u32> link, Span<u32> host, Span<u32> report, Run run) {
    __shared__ u32 own[most_items];
    __shared__ u32 next[most_senders];
    if (threadIdx.x < most_senders) next[threadIdx.x] = 0;
    Judge judge{next, 0};
    DeviceReceiver<u32> in(link, host, blockIdx.x);
    bool goes_on = true;
    for (u32 turn = 0; goes_on && in.next != run.packets * run.senders; ++turn) {
        if (turn % 3 == 0) {
            u32 count = 0;
            goes_on = in.receive(own, &count);
            __syncthreads();
            if (goes_on) judge.look(own, count);
            continue;
        }
        LinkPacket<u32> packet = in.take();
        goes_on = bool(packet);
        if (goes_on) judge.look(packet.items, packet.len);
        // Two packets may be the block's.
        if (turn % 3 == 2 && goes_on) packet = in.try_take();
        if (turn % 3 == 2 && packet) judge.look(packet.items, packet.len);
        in.give_back();
    }
    if (threadIdx.x != 0) return;
    fetch_add_relaxed_sys(&report[2], judge.wrong);
    fetch_add_relaxed_sys(&report[3], u32(!goes_on));
}
