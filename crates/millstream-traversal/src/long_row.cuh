// Rows that are too long for a warp to sort. The Rust side is in `sort_rows.rs`.
#include "span.cuh"

namespace millstream {

// Arcs of a row that a warp sorts, at most.
enum : u32 { rows_of_warp = 256 };

// A row that is sorted by a block.
struct LongRow {
    u64 begin;    // Its first arc.
    u64 scratch;  // Its first word of scratch memory, where twice its keys have room.
    u32 arcs;
    u32 unused;
};

}  // namespace millstream
