// A barrier of all blocks of all devices of a gang. The protocol, its words and its
// orders are in GANG_BARRIER.md beside `gang.rs` in the flow layer.
//
// Blocks of a device meet in a word of its memory. The last one leads: it exchanges
// letters with the leaders of the other devices, decides what comes next, and tells
// its device. Everybody polls own memory only; alone, a device makes no operation of
// system scope.
#pragma once

#include "gang.cuh"

namespace millstream {

// What all devices' blocks have counted since the start.
struct Totals {
    u64 places;
    u64 counts[2];
    u64 most;  // Offered in this round; 0 if nothing was.
};

// What a round of the barrier has decided.
struct Verdict {
    u32 phase;  // The leader's decision; `GangBarrier::stopped` if the gang is.
    u32 places; // Counted by this device's blocks since the start.
};

class GangBarrier {
   public:
    static constexpr u32 stopped = 15;

    // Words of a device's memory that callers may use: two counters that
    // `Totals` has, and words for leaders.
    enum Counter { first_count, second_count };
    static constexpr u32 leader_words = 5;

    // Words of each device.
    static constexpr u32 most = SpanSet<u64>::most;
    enum Word {
        stop,
        arrived,
        verdict_word,
        arrived_here,
        here_word,
        count_word,                   // Two.
        most_word = count_word + 2,
        leader_word, // `leader_words`.
        sent_word = leader_word + leader_words,
        received_word = sent_word + most,
        letters = received_word + most,
        letter_words = 8,
        words_of_device = letters + 2 * most * letter_words
    };

    __device__ GangBarrier(const SpanSet<u64>& words, u32 here, u32 devices,
                           const Span<u32>& host, u64 patience)
        : words(words), host(host), patience(patience), here(here), devices(devices) {}

    // Places of a list of this device that its blocks fill together, never given
    // twice; the first of `count`. One thread.
    __device__ u64 take_places(u32 count) const {
        // Relaxed: the barrier publishes what is put there.
        return fetch_add_relaxed_gpu(&word(arrived), u64(count)) & places_mask;
    }

    // One thread, before the block meets.
    __device__ void count(Counter counter, u64 more) const {
        fetch_add_relaxed_gpu(&word(count_word + counter), more);
    }

    __device__ u64 counted(Counter counter) const {
        return load_relaxed_gpu(&word(count_word + counter));
    }

    // One thread, before the block meets: `Totals` has the largest of a round.
    __device__ void offer(u64 value) const { fetch_max_relaxed_gpu(&word(most_word), value); }

    // Written and read by leaders only.
    __device__ u64& leaders(u32 place) const { return word(leader_word + place); }

    // What this device has sent to another since the start; the next letter says it.
    __device__ u64& sent_to(u32 device) const { return word(sent_word + device); }

    // What the last letter of another device said that it has sent here.
    __device__ u64 received_from(u32 device) const {
        return load_relaxed_gpu(&word(received_word + device));
    }

    // The whole block. What all blocks of all devices did before is visible to all
    // after. `decide(totals)` is called by one thread of each device, which alone
    // reads the counts itself, since it may not need them; it says the next phase,
    // less than `stopped` and the same on all devices.
    template <class Decide>
    __device__ Verdict meet(const Decide& decide) {
        __shared__ u64 decision;
        __syncthreads();
        if (threadIdx.x < 32) {
            u64 before = 0;
            if (lane() == 0) {
                // Releases what the block did; relaxed, because the fence does that.
                fence_acq_rel_gpu();
                before = fetch_add_relaxed_gpu(&word(arrived), one_block);
            }
            before = __shfl_sync(~0u, before, 0);
            // Both wrap around alike.
            const bool leads = before / one_block == ((round + 1) * gridDim.x - 1) % (1u << 24);
            const u64 word = leads ? lead(before & places_mask, decide) : wait(verdict_word);
            if (lane() == 0) decision = word;
        }
        __syncthreads();
        const u64 word = decision;
        ++round;
        return verdict_of(word);
    }

    // The whole block, between two rounds once at most: the blocks of this device meet by
    // themselves. What they did before is visible to them after; all they learn is the
    // device's places, or that the gang is stopped.
    __device__ Verdict meet_here() {
        __shared__ u64 decision;
        __syncthreads();
        if (threadIdx.x == 0) {
            // Releases what the block did, and acquires what the others have released.
            fence_acq_rel_gpu();
            const bool leads = fetch_add_relaxed_gpu(&word(arrived_here), 1ull) == gridDim.x - 1;
            fence_acq_rel_gpu();
            if (leads) {
                // Nobody arrives again before the next round.
                store_relaxed_gpu(&word(arrived_here), 0ull);
                decision = conclude(here_word, 0, load_relaxed_gpu(&word(arrived)) & places_mask);
            } else {
                decision = wait(here_word);
            }
        }
        __syncthreads();
        return verdict_of(decision);
    }

    // Ends the gang early, on all devices.
    __device__ void stop_all() const {
        for (u32 device = 0; device < devices; ++device)
            store_relaxed_sys(&words[device][stop], u64(1));
    }

    // How long a thread has waited.
    struct Patience {
        u64 since = 0;
        u32 turns = 0;
    };

    // One thread in each turn of a wait, here or where blocks wait for each other in
    // another way: whether the gang is stopped, now and then also by the host, or
    // because nothing has happened for too long.
    __device__ bool gives_up(Patience& looks) const {
        if (++looks.turns % 64 != 0) return false;
        if (load_relaxed_sys(&word(stop)) != 0) return true;
        if (looks.turns % 4096 != 0) return false;
        const u64 now = nanoseconds();
        if (looks.since == 0) looks.since = now;
        const bool is_late = now - looks.since >= patience;
        if (!is_late && load_relaxed_sys(&host[host_stop]) == 0) return false;
        stop_all();
        return true;
    }

   private:
    // A word of arrival: blocks above, places below.
    static constexpr u64 one_block = 1ull << 40;
    static constexpr u64 places_mask = one_block - 1;
    // A verdict: the round, the phase, the device's places.
    static constexpr u32 phase_shift = 32;
    static constexpr u32 round_shift = 36;

    enum Letter {
        letter_places,
        letter_counts,
        letter_most = letter_counts + 2,
        letter_sent,
        letter_round
    };

    const SpanSet<u64>& words;
    const Span<u32>& host;
    u64 patience;
    u32 here;
    u32 devices;
    u32 round = 0;

    __device__ u64& word(u32 place) const { return words[here][place]; }

    __device__ u64* letter(u32 to, u32 from) const {
        return &words[to][letters + (round % 2 * most + from) * letter_words];
    }

    __device__ static Verdict verdict_of(u64 word) {
        return Verdict{u32(word >> phase_shift) & 15, u32(word)};
    }

    // Rounds wrap around in a verdict.
    __device__ u64 round_tag() const { return u64(round + 1) << round_shift >> round_shift; }

    // One warp of the last block.
    template <class Decide>
    __device__ u64 lead(u64 places, const Decide& decide) const {
        // Acquires what the other blocks have released, and releases it again with what
        // follows.
        fence_acq_rel_gpu();
        __syncwarp();
        u64 most_here = 0;
        if (lane() == 0) most_here = load_relaxed_gpu(&word(most_word));
        most_here = __shfl_sync(~0u, most_here, 0);
        Totals totals{places, {0, 0}, most_here};
        // Nobody offers anything before the verdict.
        if (lane() == 0 && totals.most != 0) store_relaxed_gpu(&word(most_word), u64(0));
        if (devices > 1 && !exchange(totals)) return u64(stopped) << phase_shift;
        u64 word = 0;
        if (lane() == 0) {
            const u32 phase = decide(totals);
            // With the fence, or what was acquired from the others, a release: pairs with
            // the acquire in `wait`.
            if (devices > 1) fence_acq_rel_gpu();
            word = conclude(verdict_word, phase, places);
        }
        return word;
    }

    // One thread, after a fence: tells the device's blocks.
    __device__ u64 conclude(Word place, u32 phase, u64 places) const {
        const u64 verdict = round_tag() << round_shift | u64(phase) << phase_shift | u32(places);
        store_relaxed_gpu(&word(place), verdict);
        return verdict;
    }

    // One warp: tells all other devices, and hears from all, a lane for each. False if
    // the gang is stopped.
    __device__ bool exchange(Totals& totals) const {
        const u32 other = lane();
        u64 values[3] = {0, 0, 0};
        bool is_here = true;
        if (other == here) {
            values[0] = totals.places;
            for (u32 each = 0; each < 2; ++each) values[1 + each] = counted(Counter(each));
        } else if (other < devices) {
            u64* const out = letter(other, here);
            store_relaxed_sys(&out[letter_places], totals.places);
            for (u32 each = 0; each < 2; ++each)
                store_relaxed_sys(&out[letter_counts + each], counted(Counter(each)));
            store_relaxed_sys(&out[letter_most], totals.most);
            store_relaxed_sys(&out[letter_sent], load_relaxed_gpu(&sent_to(other)));
            // Release: pairs with the acquire below; what this device's blocks did is
            // before it.
            store_release_sys(&out[letter_round], u64(round) + 1);
            const u64* const in = letter(here, other);
            Patience looks;
            while (load_acquire_sys(&in[letter_round]) != u64(round) + 1) {
                if (gives_up(looks)) {
                    is_here = false;
                    break;
                }
            }
            values[0] = load_relaxed_sys(&in[letter_places]);
            for (u32 each = 0; each < 2; ++each)
                values[1 + each] = load_relaxed_sys(&in[letter_counts + each]);
            const u64 most_there = load_relaxed_sys(&in[letter_most]);
            if (most_there > totals.most) totals.most = most_there;
            // Relaxed: the verdict publishes it.
            store_relaxed_gpu(&word(received_word + other), load_relaxed_sys(&in[letter_sent]));
        }
        const bool all = __all_sync(~0u, is_here);
        for (u32 step = 16; step > 0; step /= 2) {
            for (u64& value : values) value += __shfl_xor_sync(~0u, value, step);
            const u64 other_most = __shfl_xor_sync(~0u, totals.most, step);
            if (other_most > totals.most) totals.most = other_most;
        }
        totals.places = values[0];
        totals.counts[0] = values[1];
        totals.counts[1] = values[2];
        // The first lane speaks for what all have acquired.
        __syncwarp();
        return all;
    }

    // One warp of any other block, or one thread.
    __device__ u64 wait(Word place) const {
        u64 word = 0;
        if (lane() == 0) {
            Patience looks;
            // Acquire: pairs with the leader's release.
            while ((word = load_acquire_gpu(&this->word(place))) >> round_shift !=
                   round_tag()) {
                if (gives_up(looks)) return u64(stopped) << phase_shift;
            }
        }
        return word;
    }

};

}  // namespace millstream
