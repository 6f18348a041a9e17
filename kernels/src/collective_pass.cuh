// A collective of long vectors as one kernel on each device, all of which run at once.
// Each kernel does jobs: it reads items of some ranks' buffers, combines them, and writes
// the result straight to all ranks that get it. Nobody else touches a job's items, so nobody
// waits between the start, when all buffers are there, and the end. The protocol is in
// crates/millstream-flow/src/collectives/README.md.
#pragma once

#include "collective_ranks.cuh"

namespace millstream {

// The same items of several ranks' inputs, for several ranks' outputs; a bit for each rank.
struct PassJob {
    u64 len;
    u64 source;   // Where they begin in inputs.
    u64 target;   // In outputs.
    u32 sources;  // If 0, the source is what the previous job left in our own output.
    u32 targets;
};

struct PassSettings {
    RankSettings common;
    PassJob jobs[most_ranks];
    u32 job_count;
    u32 swaps;     // The items of the one source and the one target are swapped.
    u32 in_place;  // Outputs are the inputs, too.
    u32 in_order;  // A job may need the previous job's result.
    u32 blocks;    // Of each rank's kernel, at most `most_pass_blocks`.
    u32 unused;
};

// A job's buffers, for the block.
template <class Element>
struct PassPlaces {
    Element* sources[most_ranks];
    Element* targets[most_ranks];
    u32 source_count;
    u32 target_count;
    u64 differences;  // Bitwise or of all addresses' differences from the first.
};

template <class Element>
struct Pass {
    using Vector = ItemVector<Element>;
    static constexpr u32 width = Vector::width;
    // Sources that are read at once: as registers allow.
    static constexpr u32 at_once = 4;
    // First of the threads that find places: not in the warp that waits for other ranks.
    static constexpr u32 first_finder = 32;
    static_assert(first_finder + most_ranks <= 64, "the least threads of a block");

    const Ranks& ranks;
    const SpanSet<const Element>& inputs;
    const SpanSet<Element>& outputs;
    const PassSettings& settings;
    PassPlaces<Element>* places;  // Of each step's job, in shared memory.

    __device__ u64 epoch() const { return settings.common.epoch; }

    // Written only if the input is the output, too.
    __device__ Element* input(u32 of) const {
        return settings.in_place ? outputs[of].items : const_cast<Element*>(inputs[of].items);
    }

    // The whole kernel: tells all ranks that our buffers are there, and waits for theirs. Meanwhile
    // other threads find the places of all jobs.
    __device__ bool begin() const {
        const u32 other = threadIdx.x;
        const bool is_peer = ranks.is_peer(other);
        // Release: whoever acquires it sees what our stream did before.
        if (is_peer && blockIdx.x == 0)
            store_release_sys(ranks.word(other, begun_word + ranks.rank), epoch());
        const u32 step = threadIdx.x - first_finder;
        if (threadIdx.x >= first_finder && step < settings.job_count) find(job(step), places[step]);
        return __syncthreads_and(!is_peer || hears(begun_word + other));
    }

    // The whole kernel: tells all ranks that we are done with their buffers, and waits
    // until they are done with ours. Each block does so with the block of its number on each other
    // rank: when all blocks have heard, all blocks of all ranks are done.
    __device__ void end() const {
        __syncthreads();
        const u32 other = threadIdx.x;
        if (!ranks.is_peer(other)) return;
        // If a device has fewer blocks than others, each of them speaks for several.
        for (u32 block = blockIdx.x; block < settings.blocks; block += gridDim.x) {
            const u32 place = ended_words + block * most_ranks;
            // Release: whoever acquires it sees what the block did.
            store_release_sys(ranks.word(other, place + ranks.rank), epoch());
        }
        for (u32 block = blockIdx.x; block < settings.blocks; block += gridDim.x)
            if (!hears(ended_words + block * most_ranks + other)) return;
    }

    // One thread: waits for a rank's word in our memory.
    __device__ bool hears(u32 place) const {
        const u64* word = ranks.word(ranks.rank, place);
        const u64 expected = epoch();
        // Acquire: pairs with the releases above.
        return ranks.wait_until([=] { return load_acquire_sys(word) >= expected; });
    }

    // Blocks begin with different jobs, so that all links are in use. Jobs in order map the same
    // items to the same threads, so that each thread reads what it has written itself.
    __device__ const PassJob& job(u32 step) const {
        const u32 first = settings.in_order ? 0 : blockIdx.x;
        return settings.jobs[(step + first) % settings.job_count];
    }

    // One thread: finds where a job's items are.
    __device__ void find(const PassJob& job, PassPlaces<Element>& places) const {
        u32 sources = 0, targets = 0;
        if (job.sources == 0) places.sources[sources++] = outputs[ranks.rank].items + job.source;
        for (u32 rank = 0; rank < ranks.ranks; ++rank) {
            if (job.sources >> rank & 1) places.sources[sources++] = input(rank) + job.source;
            // Each rank begins with the next one, so that not all write to one rank at the same time.
            const u32 other = (ranks.rank + 1 + rank) % ranks.ranks;
            if (job.targets >> other & 1)
                places.targets[targets++] = outputs[other].items + job.target;
        }
        places.source_count = sources;
        places.target_count = targets;
        const u64 first = u64(places.sources[0]);
        u64 differences = 0;
        for (u32 at = 0; at < sources; ++at) differences |= u64(places.sources[at]) - first;
        for (u32 at = 0; at < targets; ++at) differences |= u64(places.targets[at]) - first;
        // Jobs in order take the differences of all buffers that any of them uses, so that all have
        // the same mapping of items to threads.
        for (u32 rank = 0; settings.in_order && rank < ranks.ranks; ++rank) {
            differences |= u64(input(rank) + job.source) - first;
            differences |= u64(outputs[rank].items + job.target) - first;
        }
        places.differences = differences;
    }

    // The kernel: `one(at)` for each item from `first` to `last`.
    template <class One>
    static __device__ __forceinline__ void for_each(u64 first, u64 last, One one) {
        for (u64 at = first + thread_in_grid(); at < last; at += threads_in_grid()) one(at);
    }

    // The kernel: `vector(at)` for vectors of 16 bytes, `item(at)` for items that are
    // in none.
    template <class OneVector, class OneItem>
    static __device__ void split(const PassPlaces<Element>& places, u64 len, OneVector vector,
                                 OneItem item) {
        const u64 bytes_before = (16 - (u64(places.sources[0]) & 15)) % 16;
        // Memory lent by a program may begin at an address that is no multiple of an item's size.
        const bool are_vectors = (places.differences & 15) == 0 && bytes_before % sizeof(Element) == 0;
        if (width == 0 || !are_vectors) return for_each(0, len, item);
        const u64 before = bytes_before / sizeof(Element);
        const u64 head = before < len ? before : len;
        const u64 vectors = (len - head) / (width == 0 ? 1 : width);
        for_each(0, head, item);
        for_each(0, vectors, [&](u64 at) { vector(head, at); });
        for_each(head + vectors * width, len, item);
    }

    // Reads 16 bytes of each source, of several at once, and combines them in the order
    // of the ranks.
    template <class Combine>
    static __device__ __forceinline__ void combine_vector(const PassPlaces<Element>& places,
                                                          u64 head, u64 at, Combine combine) {
        Vector value;
        for (u32 base = 0; base < places.source_count; base += at_once) {
            Vector read[at_once];
#pragma unroll
            for (u32 each = 0; each < at_once; ++each) {
                if (base + each < places.source_count) {
                    const Element* source = places.sources[base + each] + head;
                    read[each].bits = reinterpret_cast<const uint4*>(source)[at];
                }
            }
#pragma unroll
            for (u32 each = 0; each < at_once; ++each) {
                if (base + each >= places.source_count) continue;
#pragma unroll
                for (u32 item = 0; item < width; ++item)
                    value.items[item] = base + each == 0
                                            ? read[each].items[item]
                                            : combine(value.items[item], read[each].items[item]);
            }
        }
        for (u32 target = 0; target < places.target_count; ++target)
            reinterpret_cast<uint4*>(places.targets[target] + head)[at] = value.bits;
    }

    template <class Combine>
    static __device__ __forceinline__ void combine_item(const PassPlaces<Element>& places, u64 at,
                                                        Combine combine) {
        Element value = places.sources[0][at];
        for (u32 source = 1; source < places.source_count; ++source)
            value = combine(value, places.sources[source][at]);
        for (u32 target = 0; target < places.target_count; ++target)
            places.targets[target][at] = value;
    }

    template <class Value>
    static __device__ __forceinline__ void swap(Value* one, Value* other, u64 at) {
        const Value here = one[at], there = other[at];
        one[at] = there;
        other[at] = here;
    }

    template <class Combine>
    __device__ void run(Combine combine) const {
        for (u32 step = 0; step < settings.job_count; ++step) {
            const u64 len = job(step).len;
            // Found in `begin`, while other ranks began.
            const PassPlaces<Element>& found = places[step];
            if (settings.swaps) {
                Element* one = found.sources[0];
                Element* other = found.targets[0];
                split(found, len,
                      [=](u64 head, u64 at) {
                          swap(reinterpret_cast<uint4*>(one + head),
                               reinterpret_cast<uint4*>(other + head), at);
                      },
                      [=](u64 at) { swap(one, other, at); });
            } else {
                split(found, len,
                      [&](u64 head, u64 at) { combine_vector(found, head, at, combine); },
                      [&](u64 at) { combine_item(found, at, combine); });
            }
        }
    }
};

// The kernel's body.
template <class Element, class Combine>
__device__ void collective_pass(const SpanSet<const Element>& inputs,
                                const SpanSet<Element>& outputs, const SpanSet<u64>& memory,
                                Span<u32> host, const PassSettings& settings, Combine combine) {
    __shared__ PassPlaces<Element> places[most_ranks];
    const RankSettings& common = settings.common;
    const Ranks ranks = Ranks::of_a_series(memory, host, common);
    tell_begun(host, common.rank, common.epoch);
    const Pass<Element> pass{ranks, inputs, outputs, settings, places};
    if (!pass.begin()) return;
    pass.run(combine);
    pass.end();
}

}  // namespace millstream
