// A collective operation as one kernel on each device, all of which run at once:
// each pushes pieces of its input into peer rings in the others' memory, and places
// or combines what arrives in its own. Nobody writes another's output, so the
// kernels need no order among themselves beyond the rings'. The protocol is in
// crates/millstream-flow/src/collectives/README.md.
//
// A piece is cut into tiles, one for each slot of a ring; block b of every device
// does tiles b, b + blocks, ... with block b of the others, by a ring of their own.
#pragma once

#include "peer_ring.cuh"
#include "span.cuh"

namespace millstream {

constexpr u32 exchange_threads = 512;
constexpr u32 everyone = ~0u;

// Words in the host's memory.
enum ExchangeWord { exchange_stop, exchange_fault };
enum ExchangeFault : u32 { no_fault, peer_is_late };

// Items of a buffer.
struct Piece {
    u64 start;
    u64 len;
};

struct ExchangeSettings {
    static constexpr u32 most = SpanSet<u32>::most;
    Piece sends[most];     // Of the input, for each rank; our own stays here.
    Piece receives[most];  // Of the output, from each rank.
    Piece gathers[most];   // Of the output: what each rank has combined.
    u64 patience;          // Nanoseconds without progress that end the kernel.
    u32 rank;
    u32 ranks;
    u32 slots;        // Of each ring, a power of two.
    u32 slot_bytes;   // A multiple of 16.
    u32 in_place;     // The output is the input, too.
    u32 combines;     // All that arrives is combined into our own piece.
    u32 is_gathered;  // Combined pieces go to `gatherer`, or to everyone.
    u32 gatherer;
};
static_assert(sizeof(ExchangeSettings) == 808, "as Rust writes it");

// Items that a thread holds at once where they are no vectors: as registers allow.
template <class Element>
constexpr u32 at_once = sizeof(Element) > 16 ? 1 : 4;

// Items of one tile, by the whole block.
template <class Element>
__device__ __forceinline__ void copy_tile(Element* to, const Element* from, u32 count) {
    u32 done = 0;
    if constexpr (16 % sizeof(Element) == 0) {
        if (((u64(to) | u64(from)) & 15) == 0) {
            constexpr u32 items = 16 / sizeof(Element);
            const u32 vectors = count / items;
#pragma unroll 4
            for (u32 at = threadIdx.x; at < vectors; at += exchange_threads)
                reinterpret_cast<uint4*>(to)[at] = reinterpret_cast<const uint4*>(from)[at];
            done = vectors * items;
        }
    }
#pragma unroll at_once<Element>
    for (u32 at = done + threadIdx.x; at < count; at += exchange_threads) to[at] = from[at];
}

template <class Element, class Combine>
struct Exchange {
    static constexpr u32 most = ExchangeSettings::most;

    // Of the block, in shared memory: positions in its rings, and where the parts of
    // the tile at hand lie.
    struct Block {
        u32 sent[most];
        u32 taken[most];
        const Element* parts[most];
        Element* targets[most];
        u32 part_count;
        u32 target_count;
    };

    const Element* input;
    Element* output;
    const SpanSet<u32>& memory;
    u32* host;
    const ExchangeSettings& settings;
    Combine combine;
    Block& block;

    __device__ u32 here() const { return settings.rank; }
    __device__ u32 slot_items() const { return settings.slot_bytes / u32(sizeof(Element)); }
    __device__ bool is_peer(u32 rank) const { return rank < settings.ranks && rank != here(); }

    // The ring of this block from one rank to another, and how much the receiver has
    // taken. A device's memory: words of its outgoing rings, what it has taken of the
    // incoming ones, words of their slots, payloads.
    __device__ PeerRing<Element> ring(u32 from, u32 to) const {
        const u32 rings = settings.ranks * gridDim.x, slots = settings.slots;
        const u32 outgoing = to * gridDim.x + blockIdx.x;
        const u32 incoming = from * gridDim.x + blockIdx.x;
        u32* senders = memory[from].items;
        u32* words = memory[to].items + rings * 3;
        const u32 before_payloads = (rings * (3 + 2 * slots) + 3) & ~3u;
        char* payloads = reinterpret_cast<char*>(memory[to].items + before_payloads);
        return {reinterpret_cast<SenderWords*>(senders) + outgoing,
                reinterpret_cast<SlotWords*>(words) + u64(incoming) * slots,
                reinterpret_cast<Element*>(payloads + u64(incoming) * slots * settings.slot_bytes),
                slots, 0};
    }
    __device__ u32* taken_word(u32 from) const {
        const u32 rings = settings.ranks * gridDim.x;
        return memory[here()].items + rings * 2 + from * gridDim.x + blockIdx.x;
    }
    __device__ Element* payload(const PeerRing<Element>& ring, u32 position) const {
        char* payloads = reinterpret_cast<char*>(ring.payloads);
        const u64 offset = u64(position & (settings.slots - 1)) * settings.slot_bytes;
        return reinterpret_cast<Element*>(payloads + offset);
    }

    // Items of a tile of the piece; 0 beyond its end.
    __device__ u32 count(const Piece& piece, u64 tile) const {
        const u64 start = tile * slot_items();
        if (start >= piece.len) return 0;
        const u64 rest = piece.len - start;
        return rest < slot_items() ? u32(rest) : slot_items();
    }
    __device__ u64 start(const Piece& piece, u64 tile) const {
        return piece.start + tile * slot_items();
    }
    __device__ u64 tiles(const Piece& piece) const {
        return (piece.len + slot_items() - 1) / slot_items();
    }

    // What we gather from a rank, or a rank from us.
    __device__ bool gathers(u32 rank) const {
        return settings.is_gathered &&
               (settings.gatherer == everyone || settings.gatherer == rank);
    }

    static __device__ u64 now() {
        u64 now;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
        return now;
    }

    // One thread: waits until `is_there()`. False if the kernel must end instead.
    template <class Condition>
    __device__ bool wait_until(Condition is_there) const {
        if (is_there()) return true;
        const u64 since = now();
        for (u32 turn = 1;; ++turn) {
            if (is_there()) return true;
            if (turn % 256 != 0) continue;
            // Acquire: pairs with whoever stops; nothing else comes with it.
            if (load_acquire_sys(host + exchange_stop) != 0) return false;
            if (now() - since < settings.patience) continue;
            store_relaxed_sys(host + exchange_fault, u32(peer_is_late));
            // Release: the fault comes before the stop.
            store_release_sys(host + exchange_stop, 1u);
            return false;
        }
    }

    // The whole block: waits for credit on each outgoing ring that `needs` it.
    template <class Needs>
    __device__ bool wait_for_credit(Needs needs) const {
        bool is_there = true;
        const u32 to = threadIdx.x;
        if (is_peer(to) && needs(to)) {
            const u32* head = &ring(here(), to).sender->head;
            const u32 sent = block.sent[to], slots = settings.slots;
            // Pairs with give_back: the receiver's reads come before our stores.
            is_there = wait_until([=] { return sent - load_acquire_sys(head) < slots; });
        }
        return __syncthreads_and(is_there);
    }

    // The whole block: waits for the next packet of each incoming ring that `needs` it.
    template <class Needs>
    __device__ bool wait_for_packets(Needs needs) const {
        bool is_there = true;
        const u32 from = threadIdx.x;
        if (is_peer(from) && needs(from)) {
            const PeerRing<Element> incoming = ring(from, here());
            const u32 next = block.taken[from];
            u32 items;
            is_there = wait_until([&] { return incoming.is_ready(next, &items); });
        }
        return __syncthreads_and(is_there);
    }

    // After a barrier of those that filled the slots: each thread its own rank's.
    template <class Needs>
    __device__ void publish(Needs needs, u32 items) const {
        const u32 to = threadIdx.x;
        if (is_peer(to) && needs(to)) ring(here(), to).publish(block.sent[to]++, items);
    }
    template <class Needs>
    __device__ void give_back(Needs needs) const {
        const u32 from = threadIdx.x;
        if (is_peer(from) && needs(from)) ring(from, here()).give_back(++block.taken[from]);
    }

    __device__ bool scatter(u64 tile) const {
        const auto needs = [&](u32 to) { return count(settings.sends[to], tile) != 0; };
        if (!wait_for_credit(needs)) return false;
        for (u32 step = 1; step < settings.ranks; ++step) {
            const u32 to = (here() + step) % settings.ranks;
            const Piece& piece = settings.sends[to];
            if (!needs(to)) continue;
            copy_tile(payload(ring(here(), to), block.sent[to]), input + start(piece, tile),
                      count(piece, tile));
        }
        __syncthreads();
        const u32 to = threadIdx.x;
        publish(needs, is_peer(to) ? count(settings.sends[to], tile) : 0);
        return true;
    }

    __device__ bool place(u64 tile) const {
        const auto needs = [&](u32 from) { return count(settings.receives[from], tile) != 0; };
        const Piece& from_here = settings.sends[here()];
        const Piece& to_here = settings.receives[here()];
        if (!settings.in_place || from_here.start != to_here.start)
            copy_tile(output + start(to_here, tile), input + start(from_here, tile),
                      count(to_here, tile));
        return take(needs, settings.receives, tile);
    }

    __device__ bool gather(u64 tile) const {
        if (!gathers(here())) return true;
        const auto needs = [&](u32 from) { return count(settings.gathers[from], tile) != 0; };
        return take(needs, settings.gathers, tile);
    }

    // Moves a tile of each piece from its ring to its place.
    template <class Needs>
    __device__ bool take(Needs needs, const Piece* pieces, u64 tile) const {
        if (!wait_for_packets(needs)) return false;
        for (u32 step = 1; step < settings.ranks; ++step) {
            const u32 from = (here() + step) % settings.ranks;
            if (!needs(from)) continue;
            copy_tile(output + start(pieces[from], tile),
                      payload(ring(from, here()), block.taken[from]), count(pieces[from], tile));
        }
        __syncthreads();
        give_back(needs);
        return true;
    }

    // Combines a tile of all ranks, in their order, into our own piece, and sends the
    // result to those that gather it.
    __device__ bool reduce(u64 tile) const {
        const auto needs = [&](u32 from) { return count(settings.receives[from], tile) != 0; };
        const Piece& own = settings.receives[here()];
        const u32 items = count(own, tile);
        const auto goes = [&](u32 to) { return items != 0 && gathers(to); };
        if (!wait_for_packets(needs) || !wait_for_credit(goes)) return false;
        if (threadIdx.x == 0) collect_parts(tile, needs, goes);
        __syncthreads();
        combine_parts(items);
        __syncthreads();
        publish(goes, items);
        give_back(needs);
        return true;
    }

    template <class Needs, class Goes>
    __device__ void collect_parts(u64 tile, Needs needs, Goes goes) const {
        u32 parts = 0, targets = 0;
        for (u32 rank = 0; rank < settings.ranks; ++rank) {
            if (rank == here()) {
                const Piece& piece = settings.sends[rank];
                if (count(piece, tile) != 0) block.parts[parts++] = input + start(piece, tile);
                // What one rank gathers is nobody else's to keep.
                if (!settings.is_gathered || gathers(rank))
                    block.targets[targets++] = output + start(settings.receives[rank], tile);
                continue;
            }
            if (needs(rank))
                block.parts[parts++] = payload(ring(rank, here()), block.taken[rank]);
            if (goes(rank))
                block.targets[targets++] = payload(ring(here(), rank), block.sent[rank]);
        }
        block.part_count = parts;
        block.target_count = targets;
    }

    __device__ void combine_parts(u32 items) const {
        u32 done = 0;
        if constexpr (16 % sizeof(Element) == 0) {
            constexpr u32 width = 16 / sizeof(Element);
            u64 bits = 0;
            for (u32 part = 0; part < block.part_count; ++part) bits |= u64(block.parts[part]);
            for (u32 at = 0; at < block.target_count; ++at) bits |= u64(block.targets[at]);
            if ((bits & 15) == 0) {
                combine_vectors(items / width);
                done = items / width * width;
            }
        }
#pragma unroll at_once<Element>
        for (u32 at = done + threadIdx.x; at < items; at += exchange_threads) {
            Element value = block.parts[0][at];
#pragma unroll at_once<Element>
            for (u32 part = 1; part < block.part_count; ++part)
                value = combine(value, block.parts[part][at]);
            for (u32 to = 0; to < block.target_count; ++to) block.targets[to][at] = value;
        }
    }

    __device__ void combine_vectors(u32 vectors) const {
        constexpr u32 width = 16 / sizeof(Element);
        union Vector {
            uint4 bits;
            Element items[width];
        };
        for (u32 at = threadIdx.x; at < vectors; at += exchange_threads) {
            Vector value;
            value.bits = reinterpret_cast<const uint4*>(block.parts[0])[at];
#pragma unroll 4
            for (u32 part = 1; part < block.part_count; ++part) {
                Vector other;
                other.bits = reinterpret_cast<const uint4*>(block.parts[part])[at];
                for (u32 item = 0; item < width; ++item)
                    value.items[item] = combine(value.items[item], other.items[item]);
            }
            for (u32 to = 0; to < block.target_count; ++to)
                reinterpret_cast<uint4*>(block.targets[to])[at] = value.bits;
        }
    }

    // Tiles of the longest piece that passes here.
    __device__ u64 most_tiles() const {
        u64 most_here = 0;
        for (u32 rank = 0; rank < settings.ranks; ++rank) {
            const Piece* pieces[] = {&settings.sends[rank], &settings.receives[rank],
                                     &settings.gathers[rank]};
            for (const Piece* piece : pieces)
                most_here = tiles(*piece) > most_here ? tiles(*piece) : most_here;
        }
        return most_here;
    }

    // Sends tile t, then receives tile t - 1, then gathers tile t - 2: each waits only
    // for what a peer at the same or an earlier round has sent.
    __device__ void run() const {
        const u64 step = gridDim.x, last = most_tiles();
        for (u64 tile = blockIdx.x; tile < last + 2 * step; tile += step) {
            if (tile < last && !scatter(tile)) return;
            const bool arrives = tile >= step && tile - step < last;
            if (arrives && !(settings.combines ? reduce(tile - step) : place(tile - step))) return;
            const bool is_gathered = settings.is_gathered && tile >= 2 * step;
            if (is_gathered && !gather(tile - 2 * step)) return;
        }
    }
};

// The kernel's body.
template <class Element, class Combine>
__device__ void exchange(Span<const Element> input, Span<Element> output,
                         const SpanSet<u32>& memory, Span<u32> host,
                         const ExchangeSettings& settings, Combine combine) {
    using Here = Exchange<Element, Combine>;
    __shared__ typename Here::Block block;
    const Element* source = settings.in_place ? output.items : input.items;
    const Here here{source, output.items, memory, host.items, settings, combine, block};
    // Blocks without a tile have nothing to do, and their rings stay as they are.
    if (blockIdx.x >= here.most_tiles()) return;
    const u32 rank = threadIdx.x;
    if (here.is_peer(rank)) {
        block.sent[rank] = here.ring(here.here(), rank).sender->tail;
        block.taken[rank] = *here.taken_word(rank);
    }
    __syncthreads();
    here.run();
    // Each thread changed its own rank's. After a stop nobody uses them any more.
    if (here.is_peer(rank)) {
        here.ring(here.here(), rank).sender->tail = block.sent[rank];
        *here.taken_word(rank) = block.taken[rank];
    }
}

}  // namespace millstream
