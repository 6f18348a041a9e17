// Combining what has arrived with what is there, item by item: the reduction of
// collectives whose packets the host routes.
#pragma once

#include "span.cuh"

namespace millstream {

template <class Element, class Combine>
__device__ void combine_into(Span<const Element> arrived, Span<Element> here, Combine combine) {
    for (u64 at = thread_in_grid(); at < arrived.len; at += threads_in_grid())
        here[at] = combine(here[at], arrived[at]);
}

}  // namespace millstream
