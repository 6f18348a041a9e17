// Collectives of short vectors: each rank writes its items for another rank into lines of
// that rank's memory. One store carries 8 bytes and the collective's number, so whoever reads
// the number has the bytes. It takes one trip over the link, and leaves nothing to clear or
// give back. The protocol is in crates/millstream-flow/src/collectives/README.md.
//
// A kernel does this with all its threads, or each block of a resident kernel by itself:
// `BlockCollectives`.
#pragma once

#include "collective_ranks.cuh"
#include "lines.cuh"

namespace millstream {

// A range of items in a buffer.
struct LinePiece {
    u64 start;
    u64 len;
};

// What goes where.
struct LinePieces {
    LinePiece sends[most_ranks];     // Of the input, for each rank; our own stays here.
    LinePiece receives[most_ranks];  // Of the output, from each rank.
    u32 in_place;                    // The output is the input, too.
    u32 combines;                    // All that arrives is combined into our own piece.
};

// One collective. The same kernel may do the collectives that follow it.
template <class Element>
struct LineOperation {
    Span<const Element> input;  // Empty if in place.
    Span<Element> output;
    LinePieces pieces;
    u64 units;  // Units of the longest piece of all ranks, at least 1.
    u64 meets;  // Not 0: all blocks meet before it; else each block goes on by itself.
};

constexpr u32 most_line_operations = 8;

template <class Element>
struct LineOperations {
    LineOperation<Element> operations[most_line_operations];
    u64 count;
};

struct LineSettings {
    RankSettings common;  // Its epoch is the number of the first collective.
    u64 capacity;         // Lines from one rank to another, for one collective.
};

__device__ constexpr u32 greatest_divisor(u32 one, u32 other) {
    return other == 0 ? one : greatest_divisor(other, one % other);
}

// The fewest items that fill whole lines exactly.
template <class Element>
union LineUnit {
    static constexpr u32 size = sizeof(Element);
    static constexpr u32 words = size / greatest_divisor(size, 8);
    static constexpr u32 count = words * 8 / size;
    u64 bits[words];
    Element items[count];
    __device__ LineUnit() {}
};

// The lines between ranks.
struct Lines {
    const Ranks& ranks;
    u64 first;     // Where they begin, as a word of every rank's memory.
    u64 capacity;  // From one rank to another, for one collective.
    u64 epoch;     // Number of the collective.

    // Lines of one collective are overwritten by the one after the next.
    __device__ u64* line(u32 to, u32 from, u64 place) const {
        const u64 box = epoch % 2 * ranks.ranks + from;
        return ranks.memory[to].items + first + (box * capacity + place) * 2;
    }
};

// The first of every `told` consecutive units is sent to every rank, even without items, so that all ranks
// hear from each other; if `told` is 0, only the first of all units.
template <class Element, class Combine, u32 told>
struct LineExchange {
    using Unit = LineUnit<Element>;
    // Ranks whose lines a thread waits for together, as registers allow.
    static constexpr u32 together = Unit::words > 2                        ? 1
                                    : Unit::words == 2 || Unit::count > 2 ? 4
                                                                          : most_ranks;
    static constexpr u32 lines_of_all = together * Unit::words, at_once = 4;
    static_assert(lines_of_all <= 32, "a bit for each");

    const Lines& lines;
    const LinePieces& pieces;
    const Element* input;
    Element* output;
    Combine combine;

    __device__ const Ranks& ranks() const { return lines.ranks; }

    static __device__ bool is_sent(const LinePiece& piece, u64 unit) {
        const bool is_first = told == 0 ? unit == 0 : unit % told == 0;
        return is_first || unit * Unit::count < piece.len;
    }

    __device__ void load(const LinePiece& piece, u64 unit, Unit& value) const {
#pragma unroll
        for (u32 word = 0; word < Unit::words; ++word) value.bits[word] = 0;
#pragma unroll
        for (u32 item = 0; item < Unit::count; ++item) {
            const u64 at = unit * Unit::count + item;
            if (at < piece.len) value.items[item] = input[piece.start + at];
        }
    }

    __device__ void store(const LinePiece& piece, u64 unit, const Unit& value) const {
#pragma unroll
        for (u32 item = 0; item < Unit::count; ++item) {
            const u64 at = unit * Unit::count + item;
            if (at < piece.len) output[piece.start + at] = value.items[item];
        }
    }

    __device__ void send(u64 unit) const {
        Unit value;
        // By value, as all pieces here: through a reference the compiler does not see that they are
        // parameters, and fetches them like memory.
        LinePiece loaded{0, 0};
        bool is_loaded = false;
        u32 to = ranks().rank;
        for (u32 step = 1; step < ranks().ranks; ++step) {
            to = to + 1 == ranks().ranks ? 0 : to + 1;
            const LinePiece piece = pieces.sends[to];
            if (!is_sent(piece, unit)) continue;
            if (!is_loaded || loaded.start != piece.start || loaded.len != piece.len)
                load(piece, unit, value);
            loaded = piece;
            is_loaded = true;
#pragma unroll
            for (u32 word = 0; word < Unit::words; ++word)
                store_line_relaxed(lines.line(to, ranks().rank, unit * Unit::words + word),
                                   value.bits[word], lines.epoch);
        }
    }

    // Waits for a unit from each of `together` ranks, from `base` on. Several of the missing lines
    // are loaded at once, not one after the other.
    __device__ bool wait(u32 base, u64 unit, Unit (&values)[together]) const {
        const u64* const first = lines.line(ranks().rank, base, unit * Unit::words);
        const u64 next = lines.capacity * 2;
        u32 missing = 0;
#pragma unroll
        for (u32 each = 0; each < together; ++each) {
            const u32 from = base + each;
            if (ranks().is_peer(from) && is_sent(pieces.receives[from], unit))
                missing |= (~0u >> (32 - Unit::words)) << (each * Unit::words);
        }
        return ranks().wait_until([&] {
#pragma unroll
            for (u32 some = 0; some < lines_of_all; some += at_once) {
                u64 epochs[at_once] = {};
#pragma unroll
                for (u32 at = 0; at < at_once; ++at) {
                    const u32 line = some + at, each = line / Unit::words, word = line % Unit::words;
                    if (line < lines_of_all)
                        load_line_relaxed_if(missing >> line & 1, first + (each * next + word * 2),
                                             &values[each].bits[word], &epochs[at]);
                }
#pragma unroll
                for (u32 at = 0; at < at_once; ++at)
                    if (some + at < lines_of_all && epochs[at] == lines.epoch)
                        missing &= ~(1u << (some + at));
            }
            return missing == 0;
        });
    }

    __device__ bool receive(u64 unit) const {
        const LinePiece own = pieces.receives[ranks().rank];
        const LinePiece kept = pieces.sends[ranks().rank];
        Unit own_value, combined;
        // Loaded before we wait for other ranks, if registers can hold it.
        if (Unit::words <= 2) load(kept, unit, own_value);
        bool is_first = true;
        for (u32 base = 0; base < ranks().ranks; base += together) {
            Unit values[together];
            if (!wait(base, unit, values)) return false;
#pragma unroll
            for (u32 each = 0; each < together; ++each) {
                const u32 from = base + each;
                if (from >= ranks().ranks) continue;
                const bool is_own = from == ranks().rank;
                const LinePiece received = pieces.receives[from];
                if (unit * Unit::count >= (is_own ? kept.len : received.len)) continue;
                Unit& value = values[each];
                if (is_own && Unit::words <= 2) value = own_value;
                if (is_own && Unit::words > 2) load(kept, unit, value);
                if (pieces.combines) {
#pragma unroll
                    for (u32 item = 0; item < Unit::count; ++item)
                        combined.items[item] =
                            is_first ? value.items[item]
                                     : combine(combined.items[item], value.items[item]);
                    is_first = false;
                } else if (!is_own || !pieces.in_place || kept.start != own.start) {
                    store(received, unit, value);
                }
            }
        }
        if (pieces.combines) store(own, unit, combined);
        return true;
    }

    // Units `first`, `first + step`, ... One thread reads and writes the same unit of all pieces,
    // and sends a unit before it writes that of another piece in its place.
    __device__ bool run(u64 first, u64 step, u64 units) const {
        for (u64 unit = first; unit < units; unit += step) {
            send(unit);
            if (!receive(unit)) return false;
        }
        return true;
    }
};

// The kernel's body.
template <class Element, class Combine>
__device__ void collective_lines(const LineOperations<Element>& operations,
                                 const SpanSet<u64>& memory, Span<u32> host,
                                 const LineSettings& settings, Combine combine) {
    const RankSettings& common = settings.common;
    const Ranks ranks = Ranks::of_a_series(memory, host, common);
    const u32 count = u32(operations.count);
    tell_begun(host, common.rank, common.epoch + count - 1);
#pragma unroll 1
    for (u32 at = 0; at < count; ++at) {
        const LineOperation<Element>& operation = operations.operations[at];
        // Orders like the end of a kernel, or like the end of this block. Threads that have given up
        // come here, too: others wait for them.
        if (operation.meets) {
            meet(memory[common.rank].items);
        } else {
            __syncthreads();
        }
        const Lines lines{ranks, rank_words, settings.capacity, common.epoch + at};
        const LinePieces& pieces = operation.pieces;
        Element* output = operation.output.items;
        const Element* input = pieces.in_place ? output : operation.input.items;
        const LineExchange<Element, Combine, rank_threads> exchange{lines, pieces, input, output,
                                                                    combine};
        exchange.run(thread_in_grid(), threads_in_grid(), operation.units);
    }
}

}  // namespace millstream
