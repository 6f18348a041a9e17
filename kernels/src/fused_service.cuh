// The service block of a device in the fused worker: it starts and stops the device, and
// follows the threshold. On device 0 it leads: it finds the end, moves the threshold, and
// watches the patience. FUSED.md has the protocol.
#pragma once

#include "fused_device.cuh"

namespace millstream {

template <class Program>
struct FusedService : FusedDevice<Program> {
    using Base = FusedDevice<Program>;
    using Base::common, Base::statuses, Base::words, Base::host, Base::settings;
    using Base::here, Base::devices, Base::boxes, Base::word, Base::state, Base::undefer;
    using Base::credits;

    // Waits until the host has launched all kernels, or gives up.
    __device__ void wait_for_start() const {
        if (threadIdx.x == 0) {
            if (blockIdx.x == 0) {
                for (;;) {
                    if (load_acquire_sys(&host[host_stop]) != 0) {
                        store_release_sys(&words[here()][gang_state], u32(stopped));
                        break;
                    }
                    if (load_acquire_sys(&host[host_open]) != 0) {
                        // Unless another device has stopped the gang already.
                        compare_exchange_acq_rel_sys(&words[here()][gang_state],
                                                     u32(waiting_to_start), u32(running));
                        break;
                    }
                    __nanosleep(500);
                }
            } else {
                while (state() == waiting_to_start) __nanosleep(500);
            }
        }
        __syncthreads();
    }

    // One thread: ends the run on every device.
    __device__ void stop_all() const {
        for (u32 device = 0; device < devices(); ++device) {
            store_release_sys(&words[device][gang_state], u32(stopped));
        }
    }

    // One thread of a service block: whether the run is to end.
    __device__ bool must_stop(u32 turn) const {
        if (state() == stopped) return true;
        // A read of the host's word takes two microseconds.
        const bool host_stops = turn % 32 == 0 && load_acquire_sys(&host[host_stop]) != 0;
        if (host_stops || load_relaxed_gpu(&common.status[fault]) != 0) {
            stop_all();
            return true;
        }
        return false;
    }

    // The service block of a device that does not lead.
    __device__ void serve() const {
        if (threadIdx.x != 0) return;
        u32 epoch = 0;
        const u64 since = nanoseconds();
        bool is_led = false;
        for (u32 turn = 0; !must_stop(turn); ++turn) {
            epoch = follow(epoch);
            // From then on the leader watches the patience for all.
            is_led = is_led || word(gang_led) != 0;
            if (!is_led && nanoseconds() - since > settings.patience_ns) return lose_patience();
            __nanosleep(200);
        }
    }

    // One thread of a service block.
    __device__ void lose_patience() const {
        compare_exchange_relaxed_gpu(&common.status[fault], u64(0), stalled << 32);
        stop_all();
    }

    // Another warp of the service block, until the end: tells the host where the device stands,
    // for the error of a run whose kernels cannot tell it at their end.
    __device__ void tell_host() const {
        for (u64 told = nanoseconds(); state() != stopped; __nanosleep(500)) {
            const u64 now = nanoseconds();
            if (now - told < tells_apart) continue;
            told = now;
            for (u32 at = lane(); at < common.status.len; at += 32) {
                if (at == ready_entries || at == deferred_entries) continue;
                store_relaxed_sys(&common.report[at], load_relaxed_gpu(&common.status[at]));
            }
            tell_queues();
        }
    }

    // One thread: begins to bring back deferred items when the threshold has moved.
    __device__ u32 follow(u32 epoch) const {
        // Acquire: pairs with the release in `move_threshold`; the threshold is before it.
        const u32 now = load_acquire_sys(&words[here()][gang_epoch]);
        if (now == epoch) return epoch;
        const OpenQueue deferred{Worklist<Program, true>::queue_of(common, deferred_queue)};
        const u32 end = deferred.tail();
        const u32 first = deferred.head();
        // Behind the entries come the words of bits, if there are items without entry.
        const u32 all = end - first + (deferred.must_sweep() ? u32(deferred.queue.words) : 0);
        if (all == 0) {
            // Release: pairs with the leader's acquire in `lead`.
            fetch_add_release_sys(&common.status[consumed], u64(1));
        } else {
            store_relaxed_gpu(deferred.queue.control + Queue::head, end);
            store_relaxed_gpu(&words[here()][undefer_first], first);
            store_relaxed_gpu(&words[here()][undefer_entries], end - first);
            store_relaxed_gpu(&words[here()][undefer_left], all);
            // Release: pairs with the acquire in `bring_back`.
            store_release_gpu(undefer(), u64(all) << 32);
        }
        return now;
    }

    // Nanoseconds from one report to the next.
    static constexpr u64 tells_apart = 1000000;

    // One lane of a warp: lanes read the time each for itself, and may come here at different times.
    __device__ void tell_queues() const {
        const auto entries = [&](u32 queue) {
            return u64(Worklist<Program, true>::queue_of(common, queue).length());
        };
        u64* const report = &common.report[common.status.len];
        if (lane() == 0) {
            store_relaxed_sys(&common.report[ready_entries], entries(ready_queue));
            store_relaxed_sys(&common.report[deferred_entries], entries(deferred_queue));
            store_relaxed_sys(report + standing_threshold, u64(word(gang_threshold)));
        }
        const u32* const credit = credits[here()].items;
        for (u32 box = lane(); box < boxes(); box += 32) {
            u64 tail = 0;
            u64 head = 0;
            for (u32 end = box * settings.lanes; end < (box + 1) * settings.lanes; ++end) {
                tail += load_relaxed_sys(credit + 2 * end);
                head += load_relaxed_sys(credit + 2 * end + 1);
            }
            u64* const standing = report + standing_outboxes + box * outbox_standings;
            store_relaxed_sys(standing + outbox_entries, entries(outbox_queues + box));
            store_relaxed_sys(standing + outbox_tail, tail);
            store_relaxed_sys(standing + outbox_head, head);
        }
    }

    // The service block of device 0: looks for the end, and moves the threshold.
    // One warp; lane d looks at device d.
    __device__ void lead() const {
        if (threadIdx.x >= 32) return;
        if (lane() < devices()) store_relaxed_sys(&words[lane()][gang_led], 1u);
        u32 epoch = 0;
        u32 threshold = settings.threshold;
        u64 worked_there = 0;
        u64 seen = 0;
        u64 since = nanoseconds();
        for (u32 turn = 0;; ++turn) {
            const u32 stops = lane() == 0 && must_stop(turn);
            if (__any_sync(~0u, stops)) return;
            if (lane() == 0) epoch = follow(epoch);
            const bool is_device = lane() < devices();
            const u64* const status = statuses[is_device ? lane() : 0].items;
            // Reads all consumed before all produced: the other order may see an item
            // consumed, but not that its parent has produced it.
            const u64 done = sum(is_device ? load_acquire_sys(status + consumed) +
                                                 load_acquire_sys(status + deferred_in)
                                           : 0);
            __syncwarp();
            const u64 made = sum(is_device ? load_acquire_sys(status + produced) +
                                                 load_acquire_sys(status + deferred_out)
                                           : 0);
            if (done == made) {
                const u64 deferred = sum(is_device ? load_acquire_sys(status + deferred_in) -
                                                         load_acquire_sys(status + deferred_out)
                                                   : 0);
                if (deferred == 0) {
                    if (lane() == 0) stop_all();
                    return;
                }
                threshold = falls(status, is_device, &worked_there)
                                ? settings.threshold
                                : next_step(status, is_device, threshold);
                move_threshold(is_device, threshold);
            }
            if (made + done != seen) {
                seen = made + done;
                since = nanoseconds();
            } else if (__any_sync(~0u, nanoseconds() - since > settings.patience_ns)) {
                // All lanes leave or none: each has read the time for itself.
                if (lane() == 0) lose_patience();
                return;
            }
        }
    }

    // Whether the threshold falls back to the first one: enough items have been processed since
    // it was last there.
    __device__ bool falls(const u64* status, bool is_device, u64* worked_there) const {
        // Relaxed: a warp tells what it has consumed after this, and `lead` has acquired that.
        const u64 worked = sum(is_device ? load_relaxed_sys(status + work_items) : 0);
        if (worked - *worked_there < settings.falls_after) return false;
        *worked_there = worked;
        return true;
    }

    // The end of the lowest step above the threshold that has an item deferred.
    __device__ u32 next_step(const u64* status, bool is_device, u32 threshold) const {
        u64 lowest = is_device ? load_acquire_sys(status + lowest_deferred) : ~u64(0);
        if (lowest <= threshold) lowest = ~u64(0);
        for (u32 step = 16; step > 0; step /= 2) {
            const u64 other = __shfl_xor_sync(~0u, lowest, step);
            lowest = other < lowest ? other : lowest;
        }
        const u64 delta = settings.delta == 0 ? u64(1) << 32 : settings.delta;
        const u64 end = lowest > ~0u ? ~0u : lowest / delta * delta + (delta - 1);
        return end > ~0u ? ~0u : u32(end);
    }

    // Tells all devices to bring back what they have deferred, up to a new threshold. That counts
    // as one produced item for each device.
    __device__ void move_threshold(bool is_device, u32 threshold) const {
        if (lane() == 0) fetch_add_relaxed_sys(&common.status[produced], u64(devices()));
        __syncwarp();
        u32* const there = is_device ? words[lane()].items : nullptr;
        if (is_device) store_relaxed_sys(there + gang_threshold, threshold);
        // All thresholds before any epoch: what one device brings back may come to
        // another one, which is to make it ready, not to defer it.
        __syncwarp();
        // Release: the count and the thresholds are before it.
        if (is_device) {
            store_release_sys(there + gang_epoch, load_relaxed_sys(there + gang_epoch) + 1);
        }
        __syncwarp();
    }

    __device__ static u64 sum(u64 value) {
        for (u32 step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
        return value;
    }
};

}  // namespace millstream
