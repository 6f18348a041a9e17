// A device of a gang that searches a graph: which vertices it owns, how its blocks meet
// the others', and what it tells the host.
#pragma once

#include "gang_barrier.cuh"

namespace millstream {

struct GangReports {
    Span<u32> host;    // The host's words.
    Span<u64> report;  // In the host's memory, written at the end.
    Tell tell;
};

// Part of the settings of each search.
struct GangPlace {
    u64 patience_ns;
    u32 device;
    u32 devices;
    u32 vertices;
    u32 first;  // Owned: from here
    u32 end;    // to there.
    u32 boundaries[SpanSet<u32>::most + 1];  // Of all devices.
};

// `Bound` says where a kernel keeps the bounds of its vertices: in registers (`u32`), or with its
// parameters (`const u32&`), if registers are short.
template <typename Bound>
class GangDevice {
   public:
    static constexpr u32 unreached = ~0u;
    // Words of the barrier, behind which a search has its own.
    static constexpr u32 barrier_words = 512;
    static_assert(GangBarrier::words_of_device <= barrier_words, "as Rust allocates");

    // Words of a report, which a search's own follow: whether the gang was stopped; vertices
    // visited; items received, and those of them that were news; in which level, step or after
    // how many thresholds the search has ended; then items sent to each device.
    enum Report {
        report_stopped,
        report_visited,
        report_received,
        report_kept,
        report_place,
        report_sent,
        own_reports = report_sent + SpanSet<u64>::most
    };

    __device__ GangDevice(const GangPlace& place, const SpanSet<u64>& words,
                          const GangReports& reports)
        : reports(reports),
          barrier(words, place.device, place.devices, reports.host, place.patience_ns),
          first(place.first), end(place.end), place(place) {}

   protected:
    const GangReports& reports;
    GangBarrier barrier;
    // Owned vertices.
    const Bound first;
    const Bound end;

    __device__ bool is_alone() const { return place.devices == 1; }

    __device__ bool owns(u32 vertex) const { return vertex >= first && vertex < end; }

    // The whole block, last.
    __device__ void end_kernel() const { barrier.end(reports.tell); }

    // One thread, at the end.
    __device__ void tell_host(u32 word, u64 value) const {
        // Relaxed: what the kernel tells publishes it.
        store_relaxed_sys(&reports.report[word], value);
    }

    // Likewise.
    __device__ void tell_end(bool is_stopped, u64 visited, u64 ended_in) const {
        tell_host(report_stopped, is_stopped);
        tell_host(report_visited, visited);
        tell_host(report_place, ended_in);
    }

    // Likewise: items that the barrier told of, and how many of them were news.
    __device__ void tell_items(u64 kept) const {
        u64 received = 0;
        for (u32 other = 0; other < place.devices; ++other) {
            received += barrier.received_from(other);
            tell_host(report_sent + other, barrier.sent_to(other));
        }
        tell_host(report_received, received);
        tell_host(report_kept, kept);
    }

   private:
    const GangPlace& place;
};

}  // namespace millstream
