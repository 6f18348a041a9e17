// Arcs of a warp's items, spread over its lanes.
#pragma once

#include "lanes.cuh"
#include "span.cuh"

namespace millstream {

// Each lane brings one item: where its arcs are, and a state for whoever visits them.
template <class State>
struct SpreadArcs {
    u64 first;
    State state;
    u32 degree;
    // Arcs of this lane's item and of those before it.
    u32 end;
    // Arcs of all items.
    u32 total;

    __device__ SpreadArcs(u64 first, u64 last, State state)
        : first(first), state(state), degree(u32(last - first)), end(degree) {
        // Often there are none.
        if (__all_sync(~0u, degree == 0)) {
            total = 0;
            return;
        }
        end = prefix_sum(degree);
        total = __shfl_sync(~0u, end, 31);
    }

    // One of all arcs.
    struct Place {
        bool is_arc;
        u64 arc;
        State state;
    };

    // The arc at a place, all lanes together, each with a place of its own.
    __device__ Place operator[](u32 at) const {
        const u32 owner = owner_of(end, at);
        const u32 before = __shfl_sync(~0u, end - degree, owner);
        const u64 from = __shfl_sync(~0u, first, owner);
        return {at < total, from + (at - before), __shfl_sync(~0u, state, owner)};
    }

    // Calls `use(is_arc, arc, state)` for all arcs, all lanes together.
    template <class Use>
    __device__ void for_each(Use use) const {
        for (u32 base = 0; base < total; base += 32) {
            const Place place = (*this)[base + lane()];
            use(place.is_arc, place.arc, place.state);
        }
    }
};

}  // namespace millstream
