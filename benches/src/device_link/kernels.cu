// Kernels that stay at the ends of links: they fill packets where the other reads them, send
// each other one to and fro, or pass on what lies in memory. A block for each channel; the
// launch may have more blocks.
#include "device_link.cuh"

using namespace millstream;

// In the report, which the host reads: blocks that gave up, and packets that were wrong,
// where packets are filled or a round begins, and then where they are read.
enum ReportWord { gave_up, wrong, words_of_end };

__device__ __forceinline__ void tell(Span<u32>& report, u32 end, bool late, u32 wrongs) {
    if (threadIdx.x != 0) return;
    if (late) fetch_add_relaxed_sys(&report[end * words_of_end + gave_up], 1u);
    if (wrongs != 0) fetch_add_relaxed_sys(&report[end * words_of_end + wrong], wrongs);
}

// Every packet of a channel is another one.
__device__ __forceinline__ u32 first_word(u32 channel, u32 packet) {
    return (packet * 1024 + channel) * 2654435761u;
}

__device__ __forceinline__ uint4 item(u32 base, u32 at) {
    return {base + 4 * at, base + 4 * at + 1, base + 4 * at + 2, base + 4 * at + 3};
}

__device__ __forceinline__ void fill_slot(const LinkSlot<uint4>& slot, u32 base) {
#pragma unroll 4
    for (u32 at = threadIdx.x; at < slot.len; at += blockDim.x) slot[at] = item(base, at);
}

// The whole block: whether anything is not as it was filled.
__device__ __forceinline__ bool is_wrong(const LinkPacket<uint4>& packet, u32 len, u32 base) {
    bool differs = packet.len != len;
#pragma unroll 4
    for (u32 at = threadIdx.x; at < packet.len; at += blockDim.x) {
        const uint4 found = packet[at], expected = item(base, at);
        differs |= found.x != expected.x || found.y != expected.y || found.z != expected.z ||
                   found.w != expected.w;
    }
    return __syncthreads_or(differs);
}

// Packets of each channel, by their numbers since the link was made.
struct Packets {
    u32 first;
    u32 end;
};

extern "C" __global__ void fill(DeviceLink<uint4> link, Span<u32> host, Span<u32> report,
                                Packets packets) {
    if (blockIdx.x >= link.settings.channels) return;
    const DeviceSender<uint4> out(link, host, blockIdx.x);
    u32 packet = packets.first;
    for (; packet != packets.end; ++packet) {
        const LinkSlot<uint4> slot = out.claim();
        if (!slot) break;
        fill_slot(slot, first_word(blockIdx.x, packet));
        out.publish(slot, slot.len);
    }
    tell(report, 0, packet != packets.end, 0);
}

extern "C" __global__ void check(DeviceLink<uint4> link, Span<u32> host, Span<u32> report,
                                 Packets packets) {
    if (blockIdx.x >= link.settings.channels) return;
    DeviceReceiver<uint4> in(link, host, blockIdx.x);
    u32 wrongs = 0, number = packets.first;
    for (; number != packets.end; ++number) {
        const LinkPacket<uint4> packet = in.take();
        if (!packet) break;
        wrongs += is_wrong(packet, link.settings.packet_items, first_word(blockIdx.x, number));
        in.give_back();
    }
    tell(report, 1, number != packets.end, wrongs);
}

struct Rounds {
    Packets packets;
    u32 begins;  // 1 at the end that sends first.
    u32 unused;
};

// One block at either end.
extern "C" __global__ void echo(DeviceLink<uint4> there, DeviceLink<uint4> back, Span<u32> host,
                                Span<u32> report, Rounds rounds) {
    if (blockIdx.x != 0) return;
    const DeviceSender<uint4> out(there, host);
    DeviceReceiver<uint4> in(back, host);
    u32 wrongs = 0, round = rounds.packets.first;
    for (; round != rounds.packets.end; ++round) {
        for (u32 turn = 0; turn < 2; ++turn) {
            const u32 base = first_word(0, round);
            if (turn != rounds.begins) {
                const LinkSlot<uint4> slot = out.claim();
                if (!slot) return tell(report, 1 - rounds.begins, true, wrongs);
                fill_slot(slot, base);
                out.publish(slot, slot.len);
            } else {
                const LinkPacket<uint4> packet = in.take();
                if (!packet) return tell(report, 1 - rounds.begins, true, wrongs);
                wrongs += is_wrong(packet, back.settings.packet_items, base);
                in.give_back();
            }
        }
    }
    tell(report, 1 - rounds.begins, false, wrongs);
}

struct Relay {
    u32 rounds;
    u32 place;     // In the chain.
    u32 receives;  // Whether there is one before it,
    u32 sends;     // and one after it.
};

// What lies in the memory of the first device of a chain goes to that of all others, packet by
// packet, each round again.
extern "C" __global__ void relay(DeviceLink<uint4> from, DeviceLink<uint4> to, Span<u32> host,
                                 Span<u32> report, Span<uint4> memory, Relay relay) {
    if (blockIdx.x >= from.settings.channels) return;
    const DeviceSender<uint4> out(to, host, blockIdx.x);
    DeviceReceiver<uint4> in(from, host, blockIdx.x);
    const u64 most = from.settings.packet_items, step = most * from.settings.channels;
    u32 wrongs = 0;
    for (u32 round = 0; round < relay.rounds; ++round) {
        for (u64 first = blockIdx.x * most; first < memory.len; first += step) {
            const u32 len = u32(memory.len - first < most ? memory.len - first : most);
            LinkPacket<uint4> source = {memory.items + first, len};
            if (relay.receives) source = in.take();
            if (!source) return tell(report, relay.place, true, wrongs);
            LinkSlot<uint4> slot = {nullptr, 0, 0};
            if (relay.sends) {
                slot = out.claim();
                if (!slot) return tell(report, relay.place, true, wrongs);
            }
            wrongs += source.len != len;
#pragma unroll 4
            for (u32 at = threadIdx.x; at < len; at += blockDim.x) {
                const uint4 item = source[at];
                if (relay.sends) slot[at] = item;
                if (relay.receives) memory[first + at] = item;
            }
            if (relay.sends) out.publish(slot, len);
            if (relay.receives) in.give_back();
        }
    }
    tell(report, relay.place, false, wrongs);
}
