// A device of a gang that searches a graph: which vertices it owns, how its blocks meet
// the others', and what it tells the host.
#pragma once

#include "gang_barrier.cuh"

namespace millstream {

struct GangReports {
    Span<u32> host;    // The host's words.
    Span<u64> report;  // In the host's memory, written at the end.
};

// With this the settings of a search begin.
struct GangPlace {
    u64 patience;  // Nanoseconds.
    u32 device;
    u32 devices;
    u32 vertices;
    u32 first;  // Owned: from here
    u32 end;    // to there.
    u32 boundaries[SpanSet<u32>::most + 1];  // Of all devices.
};
static_assert(sizeof(GangPlace) == 96, "as Rust writes it");

// `Bound` says where a kernel keeps the bounds of its vertices: in registers (`u32`), or with its
// parameters (`const u32&`), if registers are short.
template <typename Bound>
class GangDevice {
   public:
    static constexpr u32 unreached = ~0u;
    // Words of the barrier, behind which a search has its own.
    static constexpr u32 barrier_words = 512;
    static_assert(GangBarrier::words_of_device <= barrier_words, "as Rust allocates");

    __device__ GangDevice(const GangPlace& place, const SpanSet<u64>& words,
                          const GangReports& reports)
        : reports(reports),
          barrier(words, place.device, place.devices, reports.host, place.patience),
          first(place.first), end(place.end), place(place) {}

   protected:
    const GangReports& reports;
    GangBarrier barrier;
    // Owned vertices.
    const Bound first;
    const Bound end;

    __device__ bool is_alone() const { return place.devices == 1; }

    __device__ bool owns(u32 vertex) const { return vertex >= first && vertex < end; }

    // One thread, at the end.
    __device__ void tell_host(u32 word, u64 value) const {
        // Relaxed: the kernel's end publishes it.
        store_relaxed_sys(&reports.report[word], value);
    }

   private:
    const GangPlace& place;
};

}  // namespace millstream
