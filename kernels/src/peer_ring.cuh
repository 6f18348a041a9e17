// The peer ring: fixed-size packet slots in the receiver's memory, filled by peer
// stores. The protocol core in Rust, its model and the map between both are in
// crates/millstream-flow/src/peer_ring. Both sides poll their own memory only;
// nobody makes a remote atomic operation.
//
// Slots and words are written while kernels run: never read them through
// __ldg, ld.global.nc or const __restrict__.
#pragma once

#include "lines.cuh"

namespace millstream {

// In the sender's memory.
struct SenderWords {
    u32 tail;  // Slots claimed. Written by the sender's blocks.
    u32 head;  // Slots given back. Written by the receiver.
};

// In the receiver's memory, written by the block that claimed the slot, both in one store.
struct alignas(16) SlotWords {
    // Below, the epoch: position of the packet in the slot, plus one; 0 at the start. Above,
    // the items in the packet, and whether they are few.
    u64 arrival;
    u64 few;  // Those items, if few.
};
constexpr u32 few_bit = 1u << 31;

// Items that fit into one word together.
template <class Item>
union FewItems {
    static constexpr u32 most = sizeof(Item) <= sizeof(u64) ? sizeof(u64) / sizeof(Item) : 0;
    static constexpr u32 room = most == 0 ? 1 : most;
    u64 word;
    Item items[room];

    __device__ FewItems() : word(0) {}
    __device__ FewItems(u64 word) : word(word) {}

    __device__ __forceinline__ static void copy(const Item* from, Item* to, u32 count) {
#pragma unroll
        for (u32 item = 0; item < most; ++item)
            if (item < count) to[item] = from[item];
    }
};

template <class Item>
struct PeerRing {
    SenderWords* sender;
    SlotWords* slots;
    Item* payloads;     // capacity * slot_items, in the receiver's memory.
    u32 capacity;       // A power of two: slots stay when positions wrap around.
    u32 slot_items;
    // Whether few items come with the slot's words: only where both words are seen at once, in a
    // GPU's memory, and where no packet has to publish what its sender did before.
    u32 sends_few;

    __device__ __forceinline__ u32 slot_of(u32 position) const {
        return position & (capacity - 1);
    }

    // One thread. True if `position` is claimed. Call it when the payload is ready, because
    // a claimed slot holds up all later ones.
    __device__ bool try_claim(u32* position) {
        u32 tail = load_relaxed_gpu(&sender->tail);
        for (;;) {
            // Pairs with give_back: the receiver's reads come before our stores.
            const u32 head = load_acquire_sys(&sender->head);
            // Either word may be stale. A difference below 0 means a stale tail: the exchange fails.
            if (int(tail - head) >= int(capacity)) return false;
            // Orders nothing: the slot's epoch publishes the payload.
            const u32 before = compare_exchange_relaxed_gpu(&sender->tail, tail, tail + 1);
            if (before == tail) {
                *position = tail;
                return true;
            }
            tail = before;
        }
    }

    __device__ __forceinline__ Item* payload(u32 position) const {
        return payloads + u64(slot_of(position)) * slot_items;
    }

    // The whole block. True if the slot of `*position` is claimed, which its threads may
    // fill. A claimed slot holds up all later ones: until it is published the block must not
    // wait for anybody.
    __device__ __forceinline__ bool claim_slot(u32* position) {
        return first_says([&](u32* at) { return try_claim(at); }, position);
    }

    // The whole block: what its first thread answers, and the word that it has found.
    template <class Ask>
    __device__ static __forceinline__ bool first_says(Ask ask, u32* word) {
        __shared__ u32 found;
        __shared__ bool said;
        if (threadIdx.x == 0) said = ask(&found);
        __syncthreads();
        const bool answer = said;
        *word = found;
        // The shared words are free again.
        __syncthreads();
        return answer;
    }

    // The whole block that has filled the slot.
    __device__ __forceinline__ void publish_slot(u32 position, u32 count) {
        // The block's stores come before the leader's release.
        __syncthreads();
        if (threadIdx.x == 0) publish(position, count);
    }

    // The whole block that has claimed the slot: sends items that all its threads see. Few come
    // with the slot's words: nobody waits for a payload to arrive, but the packet may be seen before
    // the block's stores. A packet without items is a signal, which comes after all of these.
    template <class Copy>
    __device__ __forceinline__ void send_slot(u32 position, const Item* items, u32 count,
                                              Copy copy) {
        if (!sends_few || count == 0 || count > FewItems<Item>::most) {
            copy(items, payload(position), count);
            return publish_slot(position, count);
        }
        FewItems<Item> few;
        if (threadIdx.x == 0) few.copy(items, few.items, count);
        // The caller may reuse the items.
        __syncthreads();
        if (threadIdx.x == 0) publish_few(position, count, few.word);
    }

    // The whole block, with `count` <= slot_items items. False, and nothing sent,
    // without credit: the caller keeps the items and goes on receiving.
    __device__ bool try_send(const Item* items, u32 count) {
        u32 position;
        if (!claim_slot(&position)) return false;
        send_slot(position, items, count, [](const Item* from, Item* to, u32 count) {
            for (u32 item = threadIdx.x; item < count; item += blockDim.x) to[item] = from[item];
        });
        return true;
    }

    __device__ __forceinline__ u64* line(u32 position) const {
        return &slots[slot_of(position)].arrival;
    }

    __device__ static __forceinline__ u64 arrival(u32 position, u32 count) {
        return u64(count) << 32 | (position + 1);
    }

    // One thread, after a barrier of those that filled the slot.
    __device__ __forceinline__ void publish(u32 position, u32 count) {
        // Pairs with is_ready: the payload comes before the epoch.
        store_line_release(line(position), arrival(position, count), 0);
    }

    // One thread: a packet whose items are in `few`.
    __device__ __forceinline__ void publish_few(u32 position, u32 count, u64 few) {
        // Relaxed: the line is all there is to see.
        store_line_relaxed(line(position), arrival(position, count | few_bit), few);
    }

    // One thread of the receiver: whether the packet at `next`, its own count of
    // packets taken, is there. Its block needs a barrier before it reads.
    __device__ __forceinline__ bool is_ready(u32 next, u32* count) const {
        FewItems<Item> few;
        u64 arrived;
        // Pairs with publish.
        load_line_acquire(line(next), &arrived, &few.word);
        if (u32(arrived) != next + 1) return false;
        *count = u32(arrived >> 32) & ~few_bit;
        // Into the payload, where all packets are read.
        if (sends_few && arrived >> 63 != 0) few.copy(few.items, payload(next), *count);
        return true;
    }

    // One thread of the receiver, after a barrier of those that read: all packets
    // before position `next` are read.
    __device__ __forceinline__ void give_back(u32 next) {
        // Pairs with try_claim: our reads come before the sender's next stores.
        store_release_sys(&sender->head, next);
    }

    // The whole block of the only receiver: whether the packet at `next` is there, whose
    // `*count` items its threads may read.
    __device__ __forceinline__ bool take_packet(u32 next, u32* count) {
        return first_says([&](u32* arrived) { return is_ready(next, arrived); }, count);
    }

    // The whole block that has read all packets before position `next`.
    __device__ __forceinline__ void give_back_packets(u32 next) {
        // The block's loads come before the leader's release.
        __syncthreads();
        if (threadIdx.x == 0) give_back(next);
    }

    // The same block. Takes the packet at `*next` into `items` if it is there, and gives
    // its slot back. `*next` is the block's own: a register that all its threads hold equal.
    __device__ bool try_receive(u32* next, Item* items, u32* count) {
        if (!take_packet(*next, count)) return false;
        const Item* const slot = payload(*next);
        for (u32 item = threadIdx.x; item < *count; item += blockDim.x) items[item] = slot[item];
        *next += 1;
        give_back_packets(*next);
        return true;
    }
};

}  // namespace millstream
