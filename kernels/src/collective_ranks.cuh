// What kernels of collectives have in common: who they are, the memory that they
// meet in, and how they wait. The protocols are in
// crates/millstream-flow/src/collectives/README.md.
#pragma once

#include "gang.cuh"

namespace millstream {

constexpr u32 most_ranks = 8;
// Threads of a block of the host's collectives.
constexpr u32 rank_threads = 512;
// Blocks of a pass, at most.
constexpr u32 most_pass_blocks = 128;
// Nanoseconds between looks at the host's word.
constexpr u64 look_after = 4000000;

// Words of each device's memory. Lines come after them: `collective_lines.cuh`.
enum RankWord {
    begun_word,                              // From each rank: its kernel has begun.
    stopped_word = begun_word + most_ranks,  // Not 0 once one of our threads has given up.
    turn_word,                               // How often our blocks have met: `meet`.
    met_word,                                // How many of our blocks have come to the present meeting.
    // For each block of a pass, from each rank: the rank's block is done with our buffers.
    ended_words = 2 * most_ranks,
    rank_words = ended_words + most_pass_blocks * most_ranks  // A multiple of 16 bytes.
};

static_assert(met_word < ended_words && rank_words % 2 == 0, "lines come next");

struct RankSettings {
    u64 epoch;        // Number of the collective, from 1 on.
    u64 patience_ns;  // Time without progress that ends the kernel.
    u32 rank;
    u32 ranks;
};

// Items that fill 16 bytes; `width` is 0 if their size does not divide 16.
template <class Element>
union ItemVector {
    static constexpr u32 width = 16 % sizeof(Element) == 0 ? 16 / sizeof(Element) : 0;
    uint4 bits;
    Element items[width == 0 ? 1 : width];
    __device__ ItemVector() {}
};

struct Ranks {
    const SpanSet<u64>& memory;  // Of each rank.
    u32* stop;  // The host's word.
    u64 patience;
    u32 rank;
    u32 ranks;
    u64* stopped;  // `stopped_word`, or null where no other kernel follows.

    // For a kernel that other kernels follow in the same memory.
    static __device__ Ranks of_a_series(const SpanSet<u64>& memory, const Span<u32>& host,
                                        const RankSettings& settings) {
        return {memory, &host[host_stop], settings.patience_ns, settings.rank, settings.ranks,
                memory[settings.rank].items + stopped_word};
    }

    __device__ bool is_peer(u32 other) const { return other < ranks && other != rank; }
    __device__ u64* word(u32 of, u64 place) const { return memory[of].items + place; }

    // One thread: waits until `is_there()`. False if the kernel must end instead.
    //
    // It looks at the host's word only after a long wait: such reads are served one after the
    // other, a microsecond each. If all blocks made them, every wait would last longer still, and
    // so would the waits of ranks that wait for this one. A thread that gives up tells the
    // device's other threads, also those of later kernels.
    template <class Condition>
    __device__ __forceinline__ bool wait_until(Condition is_there) const {
        if (is_there()) return true;
        const u64 since = nanoseconds();
        u64 looked = since;
        for (u32 turn = 1;; ++turn) {
            if (is_there()) return true;
            if (turn % 64 != 0) continue;
            // Relaxed here, acquire below: nothing else is read through either word.
            if (stopped != nullptr && load_relaxed_gpu(stopped) != 0) return false;
            const u64 now = nanoseconds();
            if (now - looked < look_after) continue;
            looked = now;
            const bool is_late = now - since >= patience;
            if (load_acquire_sys(stop) == goes_on && !is_late) continue;
            give_up(stop, peer_is_late);
            if (stopped != nullptr) store_relaxed_gpu(stopped, u64(1));
            return false;
        }
    }
};

// For a kernel that does all collectives up to number `last`: tells the host that the GPU has come to
// it. Until then the next kernel would only wait: the launching thread lets more collectives join it.
__device__ __forceinline__ void tell_begun(const Span<u32>& host, u32 rank, u64 last) {
    // Relaxed: the number is all there is to see.
    if (thread_in_grid() == 0) store_relaxed_sys(&host[host_words + rank], u32(last));
}

// All blocks of the kernel, with the words of its rank: what each did before, all see after.
// Not inlined: no registers need to be saved between two collectives.
__device__ __noinline__ void meet(u64* words) {
    __syncthreads();
    if (gridDim.x == 1) return;
    if (threadIdx.x == 0) {
        u64* turn = words + turn_word;
        u64* met = words + met_word;
        // Cannot change before this block is here.
        const u64 before = load_relaxed_gpu(turn);
        // Each block releases what it did; the last one acquires all of that, and
        // releases it with the turn, which the others acquire.
        if (fetch_add_acq_rel_gpu(met, u64(1)) + 1 == gridDim.x) {
            store_relaxed_gpu(met, u64(0));
            store_release_gpu(turn, before + 1);
        } else {
            while (load_acquire_gpu(turn) == before) {}
        }
    }
    __syncthreads();
}

}  // namespace millstream
