// A reduction or a broadcast of long vectors as one kernel on each device, all of which run at
// once. The ranks are a chain whose last one is the root, or whose first one is: each takes tiles
// from the one before, combines them with its own items or keeps them, and writes them on into
// memory of the next one. So each link carries the vector once, by stores, and nobody uses buffers
// of another rank. The protocol is in crates/millstream-flow/src/collectives/README.md.
#pragma once

#include "collective_ranks.cuh"

namespace millstream {

// Words of a channel, in each rank's memory. Every rank cuts a vector up for the same
// channels, whatever blocks it has for them. Tiles are counted over all collectives. The
// words of either end have a cache line.
enum ChannelWord {
    arrived_word,     // Tiles in our slots: written by the rank before.
    received_word,    // Those that we have taken: our own, for our next kernel.
    taken_word = 16,  // Those that the next rank has taken: written by it.
    sent_word,        // Those that we have sent: our own.
    channel_words = 32
};

struct ChainSettings {
    RankSettings common;
    u64 len;
    u64 channels;    // The word of each rank's memory that those of all channels begin at.
    u64 first_slot;  // And that their slots begin at.
    u32 count;       // Of channels that the vector goes through.
    u32 slots;       // Of a channel, a power of two: slots stay when positions wrap around.
    u32 slot_words;  // A multiple of 16 bytes.
    u32 tile;        // Items, which fit in a slot.
    u32 last;        // Rank; the first one is next to it.
    u32 in_place;    // The output is the input, too.
    u32 combines;    // The last one gets all inputs combined; otherwise all get the first one's.
    u32 unused;
};

template <class Element, class Combine>
struct Chain {
    using Vector = ItemVector<Element>;
    // Vectors of a thread that are read at once: as registers allow.
    static constexpr u32 at_once = 4;
    // Threads that wait and tell, of two warps.
    static constexpr u32 receiver = 0, sender = 32;

    const Ranks& ranks;
    const ChainSettings& settings;
    const Element* input;
    Element* output;
    Combine combine;
    u32 channel;

    __device__ u32 before() const { return (ranks.rank + ranks.ranks - 1) % ranks.ranks; }
    __device__ u32 next() const { return (ranks.rank + 1) % ranks.ranks; }
    __device__ bool is_first() const { return before() == settings.last; }
    __device__ bool is_last() const { return ranks.rank == settings.last; }

    // In some rank's memory.
    __device__ u64* word(u32 of, ChannelWord place) const {
        return ranks.word(of, settings.channels + u64(channel) * channel_words + place);
    }

    __device__ Element* slot(u32 of, u64 position) const {
        const u64 slot = u64(channel) * settings.slots + (position & (settings.slots - 1));
        u64* first = ranks.word(of, settings.first_slot + slot * settings.slot_words);
        return reinterpret_cast<Element*>(first);
    }

    // One thread: waits until a word in our memory is as great.
    __device__ bool hears(ChannelWord place, u64 least) const {
        const u64* own = word(ranks.rank, place);
        // Relaxed while it waits: to acquire drops what the multiprocessor has cached.
        if (!ranks.wait_until([=] { return load_relaxed_sys(own) >= least; })) return false;
        // Acquire: pairs with the release in `tell`.
        return load_acquire_sys(own) >= least;
    }

    // The block: waits for a tile, and for room where it goes.
    __device__ bool wait(u64 received, u64 sent) const {
        bool goes_on = true;
        if (threadIdx.x == receiver && !is_first()) goes_on = hears(arrived_word, received + 1);
        if (threadIdx.x == sender && !is_last() && sent >= settings.slots)
            goes_on = hears(taken_word, sent + 1 - settings.slots);
        return __syncthreads_and(goes_on);
    }

    // The block: a tile has been read, and written where it goes.
    __device__ void tell(u64 received, u64 sent) const {
        __syncthreads();
        if (threadIdx.x != receiver) return;
        // Release, of what the whole block has read and written, for both words.
        fence_acq_rel_sys();
        if (!is_last()) store_relaxed_sys(word(next(), arrived_word), sent + 1);
        if (!is_first()) store_relaxed_sys(word(before(), taken_word), received + 1);
    }

    // The block: writes items, combined with those that have arrived if any are, to one place
    // or to two.
    __device__ void write(const Element* arrived, const Element* own, Element* target,
                          Element* copy, u32 count) const {
        constexpr u32 width = Vector::width;
        // Slots are aligned.
        const bool is_aligned = ((u64(own) | u64(target) | u64(copy)) & 15) == 0;
        const u32 vectors = width > 0 && is_aligned ? count / (width == 0 ? 1 : width) : 0;
        for (u32 base = threadIdx.x; base < vectors; base += at_once * blockDim.x) {
            Vector ours[at_once], theirs[at_once];
#pragma unroll
            for (u32 each = 0; each < at_once; ++each) {
                const u32 at = base + each * blockDim.x;
                if (at >= vectors) continue;
                ours[each].bits = reinterpret_cast<const uint4*>(own)[at];
                if (arrived != nullptr)
                    theirs[each].bits = reinterpret_cast<const uint4*>(arrived)[at];
            }
#pragma unroll
            for (u32 each = 0; each < at_once; ++each) {
                const u32 at = base + each * blockDim.x;
                if (at >= vectors) continue;
#pragma unroll
                for (u32 item = 0; item < width; ++item)
                    if (arrived != nullptr)
                        ours[each].items[item] =
                            combine(theirs[each].items[item], ours[each].items[item]);
                reinterpret_cast<uint4*>(target)[at] = ours[each].bits;
                if (copy != nullptr) reinterpret_cast<uint4*>(copy)[at] = ours[each].bits;
            }
        }
        for (u32 at = vectors * width + threadIdx.x; at < count; at += blockDim.x) {
            const Element item = arrived == nullptr ? own[at] : combine(arrived[at], own[at]);
            target[at] = item;
            if (copy != nullptr) copy[at] = item;
        }
    }

    // The block: what a rank does with a tile that begins at an item.
    __device__ void pass_on(u64 received, u64 sent, u64 at, u32 count) const {
        const Element* arrived = is_first() ? nullptr : slot(ranks.rank, received);
        const Element* own = input + at;
        Element* const target = is_last() ? output + at : slot(next(), sent);
        Element* copy = nullptr;
        if (!settings.combines) {
            if (!is_last() && !(is_first() && settings.in_place)) copy = output + at;
            if (!is_first()) own = arrived;
            arrived = nullptr;
        }
        write(arrived, own, target, copy, count);
    }

    // The block: the channel's tiles.
    __device__ bool run() const {
        u64 received = *word(ranks.rank, received_word), sent = *word(ranks.rank, sent_word);
        const u64 step = u64(settings.count) * settings.tile;
        for (u64 at = u64(channel) * settings.tile; at < settings.len; at += step) {
            if (!wait(received, sent)) return false;
            const u64 left = settings.len - at;
            pass_on(received, sent, at, left < settings.tile ? u32(left) : settings.tile);
            tell(received, sent);
            received += !is_first();
            sent += !is_last();
        }
        // All threads have read them.
        __syncthreads();
        if (threadIdx.x == receiver) {
            // The kernel's end publishes them to our next one.
            *word(ranks.rank, received_word) = received;
            *word(ranks.rank, sent_word) = sent;
        }
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
    // A block of each; several, one after the other, where fewer run at once.
    for (u32 channel = blockIdx.x; channel < settings.count; channel += gridDim.x) {
        const Chain<Element, Combine> chain{ranks, settings, input, output, combine, channel};
        if (!chain.run()) return;
    }
}

}  // namespace millstream
