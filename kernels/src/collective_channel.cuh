// Channels, through which ranks pass tiles on to the next one: words and slots in the memory of
// each, filled by stores of the rank before. Nobody uses buffers of another rank. The protocol is in
// crates/millstream-flow/src/collectives/README.md.
#pragma once

#include "collective_ranks.cuh"

namespace millstream {

// Words of a channel, in each rank's memory. Every rank divides a vector among the
// same channels, however many blocks it has for them. Tiles are counted over all collectives.
// The words of each end have a cache line of their own.
enum ChannelWord {
    arrived_word,     // Tiles in our slots: written by the rank before.
    received_word,    // Those that we have taken: our own, for our next kernel.
    taken_word = 16,  // Those that the next rank has taken: written by it.
    sent_word,        // Those that we have sent: our own.
    channel_words = 32
};

struct ChannelSettings {
    u64 first;       // Where the words of all channels begin, as a word of each rank's memory.
    u64 first_slot;  // Likewise, where their slots begin.
    u32 count;       // Channels that the vector goes through.
    u32 slots;       // Slots of a channel, a power of two: they stay when positions wrap around.
    u32 slot_words;  // A multiple of 16 bytes.
    u32 tile;        // Items, which fit in a slot.
};

// What a rank does with a tile: which of its ends in the channel it uses.
struct Passage {
    bool receives;
    bool sends;
};

// A block's channel.
template <class Element, class Combine>
struct Channel {
    using Vector = ItemVector<Element>;
    // Vectors of a thread that are read at once: as registers allow.
    static constexpr u32 at_once = 4;
    // Threads that wait and tell, of two warps.
    static constexpr u32 receiver = 0, sender = 32;

    const Ranks& ranks;
    const ChannelSettings& settings;
    Combine combine;
    u32 channel;
    // Tiles so far.
    u64 received, sent;

    __device__ Channel(const Ranks& ranks, const ChannelSettings& settings, Combine combine,
                       u32 channel)
        : ranks(ranks), settings(settings), combine(combine), channel(channel),
          received(*word(ranks.rank, received_word)), sent(*word(ranks.rank, sent_word)) {}

    __device__ u32 before() const { return (ranks.rank + ranks.ranks - 1) % ranks.ranks; }
    __device__ u32 next() const { return (ranks.rank + 1) % ranks.ranks; }

    // In some rank's memory.
    __device__ u64* word(u32 of, ChannelWord place) const {
        return ranks.word(of, settings.first + u64(channel) * channel_words + place);
    }

    __device__ Element* slot(u32 of, u64 position) const {
        const u64 slot = u64(channel) * settings.slots + (position & (settings.slots - 1));
        u64* first = ranks.word(of, settings.first_slot + slot * settings.slot_words);
        return reinterpret_cast<Element*>(first);
    }

    // Where the arrived tile is, and where the tile to send goes.
    __device__ const Element* arrived() const { return slot(ranks.rank, received); }
    __device__ Element* target() const { return slot(next(), sent); }

    // One thread: waits until a word in our memory is at least `least`.
    __device__ bool hears(ChannelWord place, u64 least) const {
        const u64* own = word(ranks.rank, place);
        // Relaxed while it waits: an acquire drops what the multiprocessor has cached.
        if (!ranks.wait_until([=] { return load_relaxed_sys(own) >= least; })) return false;
        // Acquire: pairs with the release in `tell`.
        return load_acquire_sys(own) >= least;
    }

    // The block: waits for a tile, and for room where it goes. False if the kernel must end.
    __device__ bool wait(Passage passage) const {
        bool goes_on = true;
        if (threadIdx.x == receiver && passage.receives)
            goes_on = hears(arrived_word, received + 1);
        if (threadIdx.x == sender && passage.sends && sent >= settings.slots)
            goes_on = hears(taken_word, sent + 1 - settings.slots);
        return __syncthreads_and(goes_on);
    }

    // The block: a tile has been read, and written where it goes.
    __device__ void tell(Passage passage) {
        __syncthreads();
        if (threadIdx.x == receiver) {
            // Release, of what the whole block has read and written, for both words.
            fence_acq_rel_sys();
            if (passage.sends) store_relaxed_sys(word(next(), arrived_word), sent + 1);
            if (passage.receives) store_relaxed_sys(word(before(), taken_word), received + 1);
        }
        // Counted here, where it takes fewer registers.
        received += passage.receives;
        sent += passage.sends;
    }

    // The block: no more tiles in this kernel.
    __device__ void end() const {
        // All threads have read the words.
        __syncthreads();
        if (threadIdx.x != receiver) return;
        // The kernel's end publishes them to our next one.
        *word(ranks.rank, received_word) = received;
        *word(ranks.rank, sent_word) = sent;
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
};

}  // namespace millstream
