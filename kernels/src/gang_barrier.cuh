// A barrier of all blocks of all devices of a gang. The protocol, its words and its
// orders are in GANG_BARRIER.md beside `gang.rs` in the flow layer.
//
// Blocks of a device meet in a word of its memory. The last one leads: it exchanges
// letters with the leaders of the other devices, decides what comes next, and tells
// its device. Everybody polls own memory only; alone, a device makes no operation of
// system scope.
#pragma once

#include "gang.cuh"
#include "lines.cuh"

namespace millstream {

// What all devices' blocks have counted since the start, and what leaders keep.
class Totals {
   public:
    static constexpr u32 leader_words = 5;

    __device__ u64 count(u32 counter) const { return words[counter]; }
    // The largest that was offered in this round; 0 if nothing was.
    __device__ u64 most() const { return words[2]; }
    __device__ u64 places() const { return words[places_of]; }

    // A leaders' word.
    __device__ u64 kept(u32 word) const { return words[first_kept + word]; }

    // Changes a leaders' word: the value before.
    __device__ u64 keep(u32 word, u64 value) {
        const u64 before = kept(word);
        words[first_kept + word] = value;
        return before;
    }

    // Others than leaders read what is changed.
    __device__ void tell() { tells = 1; }

   private:
    friend class GangBarrier;
    static constexpr u32 first_kept = 3;
    static constexpr u32 places_of = first_kept + leader_words;

    u64 words[places_of + 1];
    u32 tells;
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
    static constexpr u32 leader_words = Totals::leader_words;
    // Devices of a gang: a letter has four lines, and a lane of a warp each.
    static constexpr u32 letter_lines = 4;
    static constexpr u32 most_devices = 32 / letter_lines;
    static constexpr u32 letter_words = 2 * letter_lines;

    // Words of each device: what blocks poll, what they add to, and what leaders read at once
    // are in lines of memory of their own.
    static constexpr u32 most = SpanSet<u64>::most;
    enum Word {
        stop,
        verdict_word,
        here_word,
        arrived = 16,
        arrived_here,
        count_word = 32,              // Two.
        most_word = count_word + 2,   // Two, in turns.
        leader_word = most_word + 2,  // `leader_words`.
        sent_word = leader_word + leader_words,
        looked_word = sent_word + most_devices,
        received_word,
        letters = (received_word + most + letter_words - 1) / letter_words * letter_words,
        words_of_device = letters + 2 * most * letter_words
    };
    static_assert(verdict_word == 1 && arrived == 16 && count_word == 32 && leader_word == 36 &&
                      sent_word == 41,
                  "as `gang_memory.rs` reads them");

    // Nanoseconds after which the host's stop word is read again by who may never wait for long:
    // that takes a microsecond or two.
    static constexpr u64 looks_apart = 1000000;

    __device__ GangBarrier(const SpanSet<u64>& words, const u32& here, const u32& devices,
                           const Span<u32>& host, const u64& patience)
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
    __device__ void offer(u64 value) const {
        fetch_max_relaxed_gpu(&word(most_word + round % 2), value);
    }

    // A word of leaders, which change it while the others wait.
    __device__ u64& leaders(u32 place) const { return word(leader_word + place); }

    // What this device has sent to another since the start, less than 2^32; the next letter
    // says it.
    __device__ u64& sent_to(u32 device) const { return word(sent_word + device); }

    // What the last letter of another device said that it has sent here.
    __device__ u64 received_from(u32 device) const {
        return load_relaxed_gpu(&word(received_word + device));
    }

    // The whole block. What all blocks of all devices did before is visible to all
    // after. `decide(totals)` is called by one thread of each device, which says the next
    // phase, less than `stopped` and the same on all devices.
    template <class Decide>
    __device__ Verdict meet(const Decide& decide) {
        __shared__ u64 decision;
        __syncthreads();
        if (threadIdx.x < 32) {
            u64 before = 0;
            if (lane() == 0) {
                // Releases what the block did.
                fence_acq_rel_gpu();
                before = arrive();
            }
            before = __shfl_sync(~0u, before, 0);
            // Both wrap around alike.
            const bool leads = before / one_block == ((round + 1) * gridDim.x - 1) % (1u << 24);
            const u64 word = leads ? lead(before & places_mask, decide)
                                   : wait(verdict_word, tag_of(round + 1));
            if (lane() == 0) decision = word;
        }
        __syncthreads();
        const u64 word = decision;
        ++round;
        return verdict_of(word);
    }

    // The whole block, between two rounds as often as all do: the blocks of this device meet by
    // themselves. What they did before is visible to them after; all they learn is the
    // device's places, or that the gang is stopped.
    __device__ Verdict meet_here() {
        __shared__ u64 decision;
        // The last that was said: nobody says more before this block has arrived.
        const u64 before = threadIdx.x == 0 ? load_relaxed_gpu(&word(here_word)) : 0;
        __syncthreads();
        if (threadIdx.x == 0) {
            const u64 tag = tag_of((before >> round_shift) + 1);
            // Releases what the block did, and acquires what the others have released.
            fence_acq_rel_gpu();
            const bool leads = fetch_add_relaxed_gpu(&word(arrived_here), 1ull) == gridDim.x - 1;
            fence_acq_rel_gpu();
            if (leads) {
                store_relaxed_gpu(&word(arrived_here), 0ull);
                // Between the two: who hears and arrives again adds to 0.
                fence_acq_rel_gpu();
                const u64 places = load_relaxed_gpu(&word(arrived)) & places_mask;
                decision = conclude(here_word, tag, 0, places);
            } else {
                decision = wait(here_word, tag);
            }
        }
        __syncthreads();
        return verdict_of(decision);
    }

    // Ends the gang early, on all devices.
    __device__ void stop_all() const {
        // Rare, and in every wait.
#pragma unroll 1
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

    // One thread of each device, as often as its blocks meet: whether the gang is stopped, if it
    // did not look since a while. `looked` is 0 at first.
    __device__ bool is_told_to_stop(u64& looked, u64 now) const {
        if (looked != 0 && now - looked < looks_apart) return false;
        const bool is_first = looked == 0;
        looked = now;
        // Nothing has lasted for so long.
        if (is_first) return false;
        return load_relaxed_sys(&word(stop)) != 0 || host_stops();
    }

   private:
    // One thread: whether the host stops the gang, which then all hear.
    __device__ bool host_stops() const {
        if (load_relaxed_sys(&host[host_stop]) == 0) return false;
        stop_all();
        return true;
    }

    // A word of arrival: blocks above, places below.
    static constexpr u64 one_block = 1ull << 40;
    static constexpr u64 places_mask = one_block - 1;
    // A verdict: the round, the phase, the device's places.
    static constexpr u32 phase_shift = 32;
    static constexpr u32 round_shift = 36;

    // Lines of a letter, a word each: those before are counts. All say the round, and what was
    // sent.
    enum Line { most_line = 2, places_line };
    // A lane for each of the words that a leader reads at once, as `Totals` begins.
    enum Own {
        own_most = most_word - count_word,
        own_kept,
        own_sent = own_kept + leader_words,
        own_looked = own_sent + most_devices,
        own_stop,
        own_words
    };
    static_assert(own_words <= 32, "as lanes read");
    static_assert(Totals::first_kept == own_kept && Totals::places_of == own_sent, "likewise");

    const SpanSet<u64>& words;
    const Span<u32>& host;
    // References, so that kernels that are short of registers keep these with their parameters.
    const u64& patience;
    const u32& here;
    const u32& devices;
    u32 round = 0;

    __device__ u64& word(u32 place) const { return words[here][place]; }

    // One thread, after a fence: what the word of arrival said. Acquires what the other blocks
    // have released; alone, the leader's fence does that.
    __device__ u64 arrive() const {
        return devices > 1 ? fetch_add_acquire_gpu(&word(arrived), one_block)
                           : fetch_add_relaxed_gpu(&word(arrived), one_block);
    }

    // The word of a leader's lane: of the two largest, this round's.
    __device__ u64& own_word(u32 own) const {
        if (own == own_stop) return word(stop);
        return word(count_word + own + (own == own_most ? round % 2 : own > own_most));
    }

    __device__ u64* letter(u32 to, u32 from) const {
        return &words[to][letters + (round % 2 * most + from) * letter_words];
    }

    __device__ static Verdict verdict_of(u64 word) {
        return Verdict{u32(word >> phase_shift) & 15, u32(word)};
    }

    // Rounds wrap around in a verdict.
    __device__ static u64 tag_of(u64 round) { return round << round_shift >> round_shift; }

    // One warp of the last block.
    template <class Decide>
    __device__ u64 lead(u64 places, const Decide& decide) const {
        __shared__ Totals totals;
        // Alone: acquires what the other blocks have released, and releases it again with what
        // follows.
        if (devices == 1) fence_acq_rel_gpu();
        __syncwarp();
        const u32 own = lane();
        // Of system scope: other devices stop this one, too.
        const u64 mine = own < own_words ? load_relaxed_sys(&own_word(own)) : 0;
        if (is_stopped(own, mine)) return u64(stopped) << phase_shift;
        if (own < own_sent) totals.words[own] = mine;
        // For the round after the next one, which this block's next arrival comes before.
        if (own == own_most && mine != 0) store_relaxed_gpu(&own_word(own), u64(0));
        if (devices > 1) {
            if (!exchange(totals, places, mine)) return u64(stopped) << phase_shift;
        } else if (own == 0) {
            totals.words[Totals::places_of] = places;
        }
        u32 phase = 0;
        // The first lane speaks for what all have acquired.
        __syncwarp();
        if (own == 0) {
            totals.tells = 0;
            phase = decide(totals);
        }
        __syncwarp();
        // Blocks may be adding to those that it has not changed.
        if (own >= own_kept && own < own_sent && totals.words[own] != mine)
            store_relaxed_gpu(&own_word(own), totals.words[own]);
        __syncwarp();
        if (own != 0) return 0;
        // With the first fence, or this one, a release: pairs with the acquire in `wait`.
        if (devices > 1 || totals.tells) fence_acq_rel_gpu();
        return conclude(verdict_word, tag_of(round + 1), phase, places);
    }

    // One warp, a lane for each of a leader's words: whether the gang is stopped. Then this
    // device's blocks hear of no verdict, and other devices of no letter: they find `stop`.
    __device__ bool is_stopped(u32 own, u64 mine) const {
        u32 is_told = own == own_stop && mine != 0;
        if (own == own_looked) {
            const u64 now = nanoseconds();
            if (now - mine >= looks_apart) {
                store_relaxed_gpu(&word(looked_word), now);
                // At first nothing has lasted for so long.
                is_told = mine != 0 && host_stops();
            }
        }
        return __any_sync(~0u, is_told);
    }

    // One thread, after a fence: tells the device's blocks.
    __device__ u64 conclude(Word place, u64 tag, u32 phase, u64 places) const {
        const u64 verdict = tag << round_shift | u64(phase) << phase_shift | u32(places);
        store_relaxed_gpu(&word(place), verdict);
        return verdict;
    }

    // One warp: tells all other devices, and hears from all, a lane for each line of each
    // letter. False if the gang is stopped.
    __device__ bool exchange(Totals& totals, u64 places, u64 mine) const {
        const u32 other = lane() / letter_lines;
        const u32 line = lane() % letter_lines;
        const u32 sent = __shfl_sync(~0u, u32(mine), own_sent + other);
        const u32 tag = round + 1;
        u64 value = __shfl_sync(~0u, mine, line);
        if (line == places_line) value = places;
        bool is_here = true;
        // Release: pairs with the acquires below; what this device's blocks did is before it.
        fence_acq_rel_sys();
        if (other < devices && other != here) {
            store_line_relaxed(letter(other, here) + 2 * line, value, u64(sent) << 32 | tag);
            u64 extra;
            Patience looks;
            const u64* const in = letter(here, other) + 2 * line;
            for (;;) {
                // Pairs with the release above, of the others.
                load_line_acquire(in, &value, &extra);
                if (u32(extra) == tag) break;
                if (gives_up(looks)) {
                    is_here = false;
                    break;
                }
            }
            // Relaxed: the verdict publishes it.
            if (line == places_line) store_relaxed_gpu(&word(received_word + other), extra >> 32);
        } else if (other >= devices) {
            value = 0;
        }
        for (u32 step = letter_lines; step < 32; step *= 2) {
            const u64 more = __shfl_xor_sync(~0u, value, step);
            if (line != most_line) {
                value += more;
            } else if (more > value) {
                value = more;
            }
        }
        if (lane() < letter_lines)
            totals.words[line == places_line ? Totals::places_of : line] = value;
        return __all_sync(~0u, is_here);
    }

    // One warp of any other block, or one thread.
    __device__ u64 wait(Word place, u64 tag) const {
        u64 word = 0;
        if (lane() == 0) {
            Patience looks;
            // Acquire: pairs with the leader's release.
            while ((word = load_acquire_gpu(&this->word(place))) >> round_shift != tag) {
                if (gives_up(looks)) return u64(stopped) << phase_shift;
            }
        }
        return word;
    }

};

}  // namespace millstream
