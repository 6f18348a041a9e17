// Full/empty segments: packets that are full or empty, and epochs in which they are.
// The protocol core in Rust, its model and the map between both are in
// crates/millstream-flow/src/full_empty.
//
// Items and words are written while kernels run: never read them through __ldg,
// ld.global.nc or const __restrict__.
#pragma once

#include "copy_bytes.cuh"
#include "gang.cuh"

namespace millstream {

// As Rust writes it.
struct FullEmptySettings {
    u64 patience_ns;
    u64 packet_items;
    u32 packets;
    u32 epoch;    // Never 0: that is the word of an emptied packet.
    u32 writers;  // Blocks that write a packet together.
    u32 segment;  // Its number in the group, for messages.
};

// Reads of one word of the host's memory by many blocks queue up, and delay copies. So
// blocks look at words of their own device, and a few look at the host's for all of them.
enum LocalWord { local_turn, local_ended, local_words };

template <class T>
struct FullEmptySegment {
    Span<T> items;
    Span<u32> words;     // One for each packet: the epoch in which it was filled.
    Span<u32> mirror;    // The same in the host's memory; none if `words` are there.
    Span<u64> arrivals;  // One for each packet: writers that are done, and above that their epoch.
    Span<u64> control;   // In the host's memory: not 0 when waiting has ended.
    // In the memory of the device that waits: `LocalWord`s, and for a segment of the
    // host two words for each packet: the epoch in which a block found it full, and the
    // epoch in which a block took over looking.
    Span<u32> local;
    FullEmptySettings settings;

    __device__ __forceinline__ u32 packets() const { return settings.packets; }

    __device__ __forceinline__ u64 begin(u32 packet) const {
        const u64 at = packet * settings.packet_items;
        return at < items.len ? at : items.len;
    }

    __device__ __forceinline__ u64 end(u32 packet) const { return begin(packet + 1); }

    // One thread. Items are read after this, or after a barrier that follows it.
    __device__ __forceinline__ bool is_full(u32 packet) const {
        // Pairs with `mark_full`, and with the stream that writes the word after a copy.
        return load_acquire_sys(&words[packet]) == settings.epoch;
    }

    __device__ __forceinline__ bool is_empty(u32 packet) const {
        // Pairs with `mark_empty`.
        return load_acquire_sys(&words[packet]) != settings.epoch;
    }

    // The whole block waits until `count` packets are full. False when waiting has
    // ended, for the whole block, which then leaves the kernel.
    __device__ bool wait_full(u32 first, u32 count = 1) const {
        bool is_met = true;
        for (u32 at = threadIdx.x; at < count; at += blockDim.x)
            is_met = is_met && wait_one(first + at, true);
        // The block's loads come after every thread's acquire.
        return __syncthreads_and(is_met);
    }

    // The same until they are empty.
    __device__ bool wait_empty(u32 first, u32 count = 1) const {
        bool is_met = true;
        for (u32 at = threadIdx.x; at < count; at += blockDim.x)
            is_met = is_met && wait_one(first + at, false);
        return __syncthreads_and(is_met);
    }

    // One thread waits until one packet is full: for irregular accesses, at the price of an
    // acquire each. False when waiting has ended.
    __device__ bool thread_wait_full(u32 packet) const { return wait_one(packet, true); }

    // The whole block: its items of the packet are written. True, for the whole
    // block, if it is the last of the packet's writers: it may read what all have
    // written, and must `mark_full` the packet.
    __device__ bool arrive(u32 packet) const {
        bool is_last = true;
        // The block's stores come before the leader's release.
        __syncthreads();
        if (threadIdx.x == 0 && settings.writers > 1) {
            u64* arrived = &arrivals[packet];
            forget_other_epochs(arrived);
            // Each arrival pairs with the later ones: the last comes after all items.
            is_last = u32(fetch_add_acq_rel_sys(arrived, u64(1))) + 1 == settings.writers;
            // `mark_full` publishes it, and nobody arrives again in this epoch.
            if (is_last) store_relaxed_sys(arrived, u64(0));
        }
        return __syncthreads_and(is_last);
    }

    // One thread, after a barrier of those that wrote: the packet is full.
    __device__ __forceinline__ void mark_full(u32 packet) const {
        // Only a packet emptied in this epoch may be filled before its mirror has caught up.
        if (mirror.len != 0 && load_relaxed_sys(&words[packet]) == 0) catch_up(packet, false);
        write(packet, settings.epoch);
    }

    // The whole block: its items of the packet are written; the last of the packet's
    // writers marks it full.
    __device__ void publish(u32 packet) const {
        if (settings.writers == 1) {
            // The block's stores come before the leader's release.
            __syncthreads();
            if (threadIdx.x == 0) mark_full(packet);
        } else if (arrive(packet) && threadIdx.x == 0) {
            mark_full(packet);
        }
    }

    // The whole block: the packet's items are read, and may be replaced.
    __device__ void mark_empty(u32 packet) const {
        // The block's loads come before the leader's release.
        __syncthreads();
        if (threadIdx.x != 0) return;
        // Whoever empties comes after all who waited. Reset what they found, so that nobody takes
        // it for the next fill, and somebody looks for that again.
        if (local.len > local_words) {
            u32* found = &local[local_words + packet];
            store_relaxed_gpu(found, 0u);
            store_relaxed_gpu(found + settings.packets, 0u);
        }
        // Only if it is full: an empty packet's mirror may never become full.
        if (is_full(packet)) catch_up(packet, true);
        write(packet, 0);
    }

    // The whole block: waits for the items of a packet in another segment of the same
    // length, which may be cut into other packets, copies them here, and makes the packet full
    // here, unless it is full already. For items in the host's memory that are read more than
    // once. Only one block at a time may pull a packet. False when waiting has ended.
    __device__ bool pull(const FullEmptySegment& from, u32 packet) const {
        // Others may be reading it. The barrier passes the acquire of any thread that finds it full on
        // to all. If only one thread looked, the branch would take registers.
        if (__syncthreads_or(is_full(packet))) return true;
        const u64 first = begin(packet), bytes = (end(packet) - first) * sizeof(T);
        if (bytes != 0) {
            const u32 there = u32(first / from.settings.packet_items);
            const u32 last = u32((end(packet) - 1) / from.settings.packet_items);
            if (!from.wait_full(there, last - there + 1)) return false;
        }
        copy_bytes({threadIdx.x, blockDim.x},
                   reinterpret_cast<const unsigned char*>(&from.items.items[first]),
                   reinterpret_cast<unsigned char*>(&items.items[first]), bytes);
        publish(packet);
        return true;
    }

private:
    static constexpr u32 looks_between = 32;
    static constexpr u32 ticks_between = 100;
    static constexpr u32 pause_ns = 40;

    // One thread waits until one packet is full, or empty.
    __device__ bool wait_one(u32 packet, bool full) const {
        const bool looks_near = full && local.len > local_words;
        u64 start = 0;
        for (u32 look = 1;; ++look) {
            if (looks_near ? is_full_for_all(packet) : is_full(packet) == full) return true;
            if (look % looks_between == 0 && !goes_on(packet, &start)) return false;
            __nanosleep(pause_ns);
        }
    }

    __device__ __forceinline__ void write(u32 packet, u32 value) const {
        // Pairs with `is_full` and `is_empty`: items come before the epoch, reads
        // before 0.
        store_release_sys(&words[packet], value);
        if (mirror.len != 0) store_release_sys(&mirror[packet], value);
    }

    // Arrivals of an epoch in which not all came count no more.
    __device__ __forceinline__ void forget_other_epochs(u64* arrived) const {
        const u64 none = u64(settings.epoch) << 32;
        // Relaxed: the same word.
        u64 before = load_relaxed_sys(arrived);
        // Any other epoch, not only smaller ones: epochs wrap around. Whoever loses finds this epoch.
        while (before >> 32 != settings.epoch) {
            const u64 now = compare_exchange_relaxed_sys(arrived, before, none);
            before = now == before ? none : now;
        }
    }

    // One thread. A word changes before its mirror, and kernels look at words. Whoever changed it last
    // may not have changed the mirror yet: waits for that store, lest it overwrite the next one.
    __device__ void catch_up(u32 packet, bool full) const {
        u64 start = 0;
        while (mirror.len != 0 && (load_relaxed_sys(&mirror[packet]) == settings.epoch) != full) {
            if (!goes_on(packet, &start)) return;
            __nanosleep(pause_ns);
        }
    }

    // One block looks at the host's word, all others at what it has found.
    __device__ bool is_full_for_all(u32 packet) const {
        u32* found = &local[local_words + packet];
        u32* looking = found + settings.packets;
        // Pairs with the release below.
        if (load_acquire_gpu(found) == settings.epoch) return true;
        const u32 before = load_relaxed_gpu(looking);
        if (before == settings.epoch ||
            compare_exchange_relaxed_gpu(looking, before, settings.epoch) != before)
            return false;
        const bool result = is_full(packet);
        // Passes on what the acquire of the host's word made visible to whoever acquires this.
        if (result) store_release_gpu(found, settings.epoch);
        // Lets the next block that comes look: this one may have to leave.
        else store_relaxed_gpu(looking, before);
        return result;
    }

    // Now and then one of all blocks asks the host whether waiting has ended: reads of the
    // host's word take long and queue up. Reads of the clock do not.
    __device__ bool goes_on(u32 packet, u64* start) const {
        // Relaxed: the words are all there is to see.
        if (load_relaxed_gpu(&local[local_ended]) == settings.epoch) return false;
        const u64 now = nanoseconds();
        if (*start == 0) *start = now;
        const bool is_late = now - *start >= settings.patience_ns;
        // About microseconds, which wrap around.
        const u32 tick = u32(now >> 10), last = load_relaxed_gpu(&local[local_turn]);
        const bool asks = tick - last >= ticks_between &&
            compare_exchange_relaxed_gpu(&local[local_turn], last, tick) == last;
        if (!is_late && !asks) return true;
        const bool has_ended = load_relaxed_sys(&control[0]) != 0;
        if (!is_late && !has_ended) return true;
        store_relaxed_gpu(&local[local_ended], settings.epoch);
        if (!has_ended)
            store_release_sys(&control[0], u64(1) << 63 | u64(settings.segment) << 32 | packet);
        return false;
    }
};

}  // namespace millstream
