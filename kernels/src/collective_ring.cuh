// An all-reduce or a reduce-scatter of long vectors as one kernel on each device, all of which run
// at once. The ranks are a ring, and the vector has a part for each rank. Tiles of all parts go round
// at the same time: a tile starts at the rank after its own, is combined with the items of every rank
// on the way to its own, and in an all-reduce is kept by every rank from there on. So links carry
// stores only, in one direction. The protocol is in crates/millstream-flow/src/collectives/README.md.
#pragma once

#include "collective_channel.cuh"

namespace millstream {

// A rank's part of the vector.
struct RingPart {
    u64 source;  // Where it begins in inputs.
    u64 target;  // In outputs.
    u64 len;
};

struct RingSettings {
    RankSettings common;
    ChannelSettings channels;
    RingPart parts[most_ranks];
    u32 tiles;     // Of the longest part.
    u32 last;      // The last step: each rank has its own part then, or the next rank's.
    u32 in_place;  // Outputs are the inputs, too.
    u32 unused;
};

template <class Element, class Combine>
struct Ring {
    // Tiles of each part that are under way together: while one goes to the next rank, another
    // is passed on. Fewer than a channel's slots.
    static constexpr u32 together = 2;

    const RingSettings& settings;
    const Element* input;
    Element* output;
    Channel<Element, Combine>& channel;

    // The step in which a rank has its own part, combined with all other ranks' items.
    __device__ u32 own_step() const { return channel.ranks.ranks - 1; }

    __device__ Passage passage(u32 step) const {
        return {step > 0, step < settings.last};
    }

    // The whole block: handles a tile of the part that the rank has in a step.
    __device__ void pass_on(u32 step, u32 tile) const {
        const u32 ranks = channel.ranks.ranks;
        const RingPart& part = settings.parts[(channel.ranks.rank + 2 * ranks - 1 - step) % ranks];
        const u64 at = u64(tile) * settings.channels.tile;
        if (at >= part.len) return;
        const u64 left = part.len - at;
        const u32 count = left < settings.channels.tile ? u32(left) : settings.channels.tile;
        const Passage passes = passage(step);
        const Element* arrived = passes.receives ? channel.arrived() : nullptr;
        const Element* own = input + part.source + at;
        Element* const kept = step < own_step() ? nullptr : output + part.target + at;
        if (step > own_step()) {
            own = arrived;
            arrived = nullptr;
        }
        // What is not sent is kept.
        Element* const target = passes.sends ? channel.target() : kept;
        channel.write(arrived, own, target, passes.sends ? kept : nullptr, count);
    }

    // The whole block: handles the channel's tiles, `together` of each part at a time. False if
    // the kernel must end.
    __device__ bool run() const {
        const u32 channels = settings.channels.count;
        for (u32 first = channel.channel; first < settings.tiles; first += together * channels) {
            const u32 end = first + together * channels;
            for (u32 step = 0; step <= settings.last; ++step) {
                for (u32 tile = first; tile < end && tile < settings.tiles; tile += channels) {
                    if (!channel.wait(passage(step))) return false;
                    pass_on(step, tile);
                    channel.tell(passage(step));
                }
            }
        }
        channel.end();
        return true;
    }
};

// The kernel's body.
template <class Element, class Combine>
__device__ void collective_ring(const SpanSet<const Element>& inputs,
                                const SpanSet<Element>& outputs, const SpanSet<u64>& memory,
                                Span<u32> host, const RingSettings& settings, Combine combine) {
    const RankSettings& common = settings.common;
    const Ranks ranks = Ranks::of_a_series(memory, host, common);
    Element* output = outputs[common.rank].items;
    const Element* input = settings.in_place ? output : inputs[common.rank].items;
    // A block for each channel; with fewer blocks, each takes several channels in turn.
    for (u32 at = blockIdx.x; at < settings.channels.count; at += gridDim.x) {
        Channel<Element, Combine> channel(ranks, settings.channels, combine, at);
        if (!Ring<Element, Combine>{settings, input, output, channel}.run()) return;
    }
}

}  // namespace millstream
