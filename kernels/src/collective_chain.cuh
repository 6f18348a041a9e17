// A reduction or a broadcast of long vectors as one kernel on each device, all of which run at
// once. The ranks form a chain; the root is the last rank of a reduction, the first of a broadcast.
// Each rank takes tiles from the previous rank, combines them with its own items or keeps them, and
// writes them into the next rank's memory. So each link carries the vector once, by stores.
// The protocol is in crates/millstream-flow/src/collectives/README.md.
#pragma once

#include "collective_channel.cuh"

namespace millstream {

struct ChainSettings {
    RankSettings common;
    ChannelSettings channels;
    u64 len;
    u32 last;      // Last rank of the chain; the first is the one after it, cyclically.
    u32 in_place;  // The output is the input, too.
    u32 combines;  // The last rank gets all inputs combined; else every rank gets the first one's.
    u32 unused;
};

template <class Element, class Combine>
struct Chain {
    const ChainSettings& settings;
    const Element* input;
    Element* output;
    Channel<Element, Combine>& channel;

    __device__ bool is_first() const { return channel.before() == settings.last; }
    __device__ bool is_last() const { return channel.ranks.rank == settings.last; }

    // The whole block: handles the tile that begins at item `at`.
    __device__ void pass_on(u64 at, u32 count) const {
        const Element* arrived = is_first() ? nullptr : channel.arrived();
        const Element* own = input + at;
        Element* const target = is_last() ? output + at : channel.target();
        Element* copy = nullptr;
        if (!settings.combines) {
            if (!is_last() && !(is_first() && settings.in_place)) copy = output + at;
            if (!is_first()) own = arrived;
            arrived = nullptr;
        }
        channel.write(arrived, own, target, copy, count);
    }

    // The whole block: handles all tiles of the channel. False if the kernel must end.
    __device__ bool run() const {
        const ChannelSettings& channels = settings.channels;
        const Passage passage{!is_first(), !is_last()};
        const u64 step = u64(channels.count) * channels.tile;
        for (u64 at = u64(channel.channel) * channels.tile; at < settings.len; at += step) {
            if (!channel.wait(passage)) return false;
            const u64 left = settings.len - at;
            pass_on(at, left < channels.tile ? u32(left) : channels.tile);
            channel.tell(passage);
        }
        channel.end();
        return true;
    }
};

// The kernel's body.
template <class Element, class Combine>
__device__ void collective_chain(const SpanSet<const Element>& inputs,
                                 const SpanSet<Element>& outputs, const SpanSet<u64>& memory,
                                 Span<u32> host, const ChainSettings& settings,
                                 Combine combine) {
    const RankSettings& common = settings.common;
    const Ranks ranks = Ranks::of_a_series(memory, host, common);
    Element* output = outputs[common.rank].items;
    const Element* input = settings.in_place ? output : inputs[common.rank].items;
    // A block for each channel; with fewer blocks, each takes several channels in turn.
    for (u32 at = blockIdx.x; at < settings.channels.count; at += gridDim.x) {
        Channel<Element, Combine> channel(ranks, settings.channels, combine, at);
        if (!Chain<Element, Combine>{settings, input, output, channel}.run()) return;
    }
}

}  // namespace millstream
