// Who owns which vertices: each device a range of them; the twin of `owners.rs` of
// the traversal crate.
#pragma once

#include "worklist.cuh"

namespace millstream {

struct Owners {
    // First vertex of each device, and the number of vertices at the end.
    Span<const u32> boundaries;

    // The place of an owned vertex among its device's rows.
    __device__ u32 row(const Here& here, u32 vertex) const { return vertex - first(here.device); }

    __device__ bool owns(const Here& here, u32 vertex) const {
        return vertex >= first(here.device) && vertex < first(here.device + 1);
    }

    __device__ u32 owner(u32 vertex) const {
        u32 device = 0;
        // Empty parts have equal boundaries: the last that starts here owns it.
        while (device + 2 < boundaries.len && first(device + 1) <= vertex) ++device;
        return device;
    }

   private:
    // Nobody ever writes them: they stay in the nearest cache.
    __device__ u32 first(u32 device) const { return __ldg(&boundaries[device]); }
};

}  // namespace millstream
