// Predicate-based filtering (Ben-Nun et al., Groute, ACM TOPC 7(3), art. 18, 2020,
// figure 6): items for which `keeps(item)` holds are appended to the output.
#pragma once

#include "grid.cuh"

namespace millstream {

// Appends the kept items of `input` to `output`, in no order, and adds their
// number to `count`, which starts at zero. `output` has room for `items`.
template <class Item, class Predicate>
__device__ void filter(const Item* input, u64 items, Item* output, u32* count,
                       Predicate keeps) {
    const u64 rounds = (items + threads_in_grid() - 1) / threads_in_grid();
    u64 at = thread_in_grid();
    for (u64 round = 0; round < rounds; ++round, at += threads_in_grid()) {
        const bool selected = at < items && keeps(input[at]);
        const u32 place = append_place(count, selected);
        if (selected) output[place] = input[at];
    }
}

}  // namespace millstream
