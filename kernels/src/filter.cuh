// Predicate-based filtering (Ben-Nun et al., Groute, ACM TOPC 7(3), art. 18, 2020,
// figure 6): items for which `keeps(item)` holds are appended to the output.
#pragma once

#include "span.cuh"

namespace millstream {

// For each of `len` places for which `selects(place, item)` holds, appends the item that it has written to
// `output`, in any order; stores the number of items in `count`, a word in the host's memory. `output` has
// room for `len` items. `scratch` has two words in the device's memory that are 0 between kernels.
template <class Item, class Selection>
__device__ void append_selected(u64 len, Span<Item> output, Span<u32> scratch, Span<u32> count,
                                Selection selects) {
    const u64 rounds = (len + threads_in_grid() - 1) / threads_in_grid();
    u64 at = thread_in_grid();
    for (u64 round = 0; round < rounds; ++round, at += threads_in_grid()) {
        Item item;
        const bool selected = at < len && selects(at, item);
        const u32 place = append_place(&scratch[0], selected);
        if (selected) output[place] = item;
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    // The last block to arrive has seen all that the others appended.
    if (fetch_add_acq_rel_gpu(&scratch[1], 1) == gridDim.x - 1) {
        store_release_sys(&count[0], load_relaxed_gpu(&scratch[0]));
        scratch[0] = 0;
        scratch[1] = 0;
    }
}

// Appends the items of `input` that `keeps` holds for, as above.
template <class Item, class Predicate>
__device__ void filter(Span<const Item> input, Span<Item> output, Span<u32> scratch,
                       Span<u32> count, Predicate keeps) {
    append_selected(input.len, output, scratch, count, [&](u64 at, Item& item) {
        item = input[at];
        return keeps(item);
    });
}

}  // namespace millstream
