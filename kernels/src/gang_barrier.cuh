// A barrier of all blocks of all devices of a gang. The protocol, its words and its
// orders are in GANG_BARRIER.md beside `gang.rs` in the flow layer.
//
// Nobody leads: each block adds what it has counted, and then its arrival, to its device's tally on
// every device, and polls the tallies on its own device. So all blocks have the same sums, and decide
// alike. A single device makes no operation of system scope, except to look for a stop.
#pragma once

#include "gang.cuh"
#include "lanes.cuh"
#include "tell.cuh"

namespace millstream {

// What all devices' blocks have counted since the start, and what is kept from round to round.
// Each block has its own, and all are the same.
class Totals {
   public:
    static constexpr u32 kept_words = 5;

    __device__ u64 count(u32 counter) const { return sums[counter]; }
    // The largest that was offered in this round; 0 if nothing was.
    __device__ u64 most() const { return sums[most_sum]; }
    __device__ u64 places() const { return sums[places_sum]; }

    // A word that is kept.
    __device__ u64 kept(u32 word) const { return words[word]; }

    // Changes such a word; returns the value before.
    __device__ u64 keep(u32 word, u64 value) {
        const u64 before = words[word];
        words[word] = value;
        return before;
    }

   private:
    friend class GangBarrier;
    // The sums before these are counts.
    enum Sum { most_sum = 2, places_sum, sums_of };

    u64 sums[sums_of];
    u64 words[kept_words];
};

// What a round of the barrier has decided.
struct Verdict {
    u32 phase;  // The decision; `GangBarrier::stopped` if the gang is.
    u32 places; // Taken by this device's blocks since the start.
};

class GangBarrier {
   public:
    static constexpr u32 stopped = 15;

    // Counters that `Totals` has.
    enum Counter { first_count, second_count };
    // Words of a device's memory that callers may use.
    static constexpr u32 caller_words = 5;
    // Devices of a gang, at most: each of the four sums of a device's tally has a lane of a warp.
    static constexpr u32 most_devices = 32 / Totals::sums_of;

    // A tally serves three rounds in turn: each has a word of arrivals and, in another line of
    // memory, its sums and what was sent.
    static constexpr u32 sent_sum = Totals::sums_of;
    static constexpr u32 sums_of_round = sent_sum + 1;
    static constexpr u32 turns = 3;
    static constexpr u32 first_sum = 16;
    static constexpr u32 tally_words = 2 * first_sum;

    // Words of each device. Words that blocks add to while others poll have lines of memory of their
    // own, except `here_word`.
    static constexpr u32 standing_words = Totals::sums_of + Totals::kept_words;
    enum Word {
        stop,
        here_word,
        taken = 17,
        left_word,
        caller_word = 32,                      // `caller_words`.
        sent_word = caller_word + caller_words,
        standing = 48,                         // `standing_words`, as they were
        met = standing + standing_words,       // after this number of rounds.
        tallies = 64,                          // From each device.
        words_of_device = tallies + most_devices * tally_words
    };
    static_assert(turns * sums_of_round <= first_sum && sent_word + most_devices <= standing &&
                      met < tallies,
                  "lines of memory");
    static_assert(taken == 17 && sent_word == 37 && met == 57, "as `gang_memory.rs` reads them");

    // Nanoseconds after which a block that may never wait for long reads the host's stop word
    // again: a read takes a microsecond or two.
    static constexpr u64 looks_apart = 1000000;

    // The whole block.
    __device__ GangBarrier(const SpanSet<u64>& words, const u32& here, const u32& devices,
                           const Span<u32>& host, const u64& patience)
        : words(words), host(host), patience(patience), here(here), devices(devices) {
        u32* const its = reinterpret_cast<u32*>(&block());
        for (u32 at = threadIdx.x; at < sizeof(Block) / sizeof(u32); at += blockDim.x) its[at] = 0;
        // More blocks than a word of arrivals can count would meet too early.
        if (gridDim.x >= most_blocks && threadIdx.x == 0) stop_all();
        __syncthreads();
    }

    // One thread: takes `count` places of a list that this device's blocks fill together;
    // returns the first. No place is given twice.
    __device__ u64 take_places(u32 count) const {
        atomicAdd(&block().places, count);
        // Relaxed: the barrier publishes what is put there.
        return fetch_add_relaxed_gpu(&word(taken), u64(count));
    }

    // The first thread, before the block meets.
    __device__ void count(Counter counter, u64 more) const { block().news[counter] += more; }

    // What this device's blocks had counted when they last met.
    __device__ u64 counted(Counter counter) const { return block().own[counter]; }

    // One thread, before the block meets: `Totals` has the largest of a round.
    __device__ void offer(u64 value) const { atomicMax(&block().news[Totals::most_sum], value); }

    // A word for the caller's blocks, in the device's memory.
    __device__ u64& device_word(u32 place) const { return word(caller_word + place); }

    // A word that `Totals` keeps, as of the last decision.
    __device__ u64 kept(u32 word) const { return block().totals.kept(word); }

    // One thread: takes `count` places among what this device sends to another, less than 2^32 since
    // the start; returns the first. The other device learns of them when all have met.
    __device__ u64 send(u32 device, u32 count) const {
        atomicAdd(&block().sent[device], count);
        // Relaxed: the barrier publishes what is put there.
        return fetch_add_relaxed_gpu(&word(sent_word + device), u64(count));
    }

    // What this device has sent to another since the start.
    __device__ u64 sent_to(u32 device) const {
        return load_relaxed_gpu(&word(sent_word + device));
    }

    // What another device had sent here when all met.
    __device__ u32 received_from(u32 device) const { return block().received[device]; }

    // The whole block. What all blocks of all devices did before is visible to all
    // after. One thread of each block calls `decide(totals)`, which returns the next phase:
    // less than `stopped`, and the same in all blocks.
    template <class Decide>
    __device__ Verdict meet(const Decide& decide) {
        Block& its = block();
        __syncthreads();
        if (threadIdx.x < 32) {
            arrive(its);
            const bool is_over = hear(its);
            if (lane() == 0) its.phase = is_over ? decide(its.totals) : stopped;
        }
        __syncthreads();
        return Verdict{its.phase, u32(its.own[Totals::places_sum])};
    }

    // The whole block, between two rounds, equally often in all: the blocks of this device meet
    // among themselves. What they did before is visible to them after. They learn only the
    // device's places, or that the gang is stopped.
    __device__ Verdict meet_here() {
        __shared__ Verdict verdict;
        __syncthreads();
        if (threadIdx.x == 0) verdict = hear_here(block());
        __syncthreads();
        return verdict;
    }

    // Ends the gang early, on all devices.
    __device__ void stop_all() const {
        // Rarely run, but in the code of every wait: kept short.
#pragma unroll 1
        for (u32 device = 0; device < devices; ++device)
            store_relaxed_sys(&words[device][stop], u64(1));
    }

    // The whole block, last: it meets no more. The last block of this device to come here tells.
    __device__ void end(const Tell& tell) const { say_last(tell, &word(left_word)); }

    // How long a thread has waited.
    struct Patience {
        u64 since = 0;
        u32 turns = 0;
    };

    // One thread in each turn of a wait, here or where blocks wait for each other in
    // another way: whether the gang is stopped. Now and then it also stops the gang, if the
    // host says so or nothing has happened for too long.
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

    // One thread of each device, as often as its blocks meet: whether the gang is stopped; it
    // looks only every `looks_apart`. `looked` is 0 at first.
    __device__ bool is_told_to_stop(u64& looked, u64 now) const {
        if (looked != 0 && now - looked < looks_apart) return false;
        const bool is_first = looked == 0;
        looked = now;
        // The first call only starts the clock.
        if (is_first) return false;
        return load_relaxed_sys(&word(stop)) != 0 || host_stops();
    }

   private:
    // One thread: whether the host stops the gang; if so, tells all devices.
    __device__ bool host_stops() const {
        if (load_relaxed_sys(&host[host_stop]) == 0) return false;
        stop_all();
        return true;
    }

    // What a block shares, zero at first.
    struct Block {
        Totals totals;
        // Counted by this device's blocks since the start, as in `Totals`.
        u64 own[Totals::sums_of];
        // Counted since the block last met, except places: its warps take these at once.
        u64 news[Totals::sums_of];
        u64 looked;
        u64 come_here;  // Arrivals at `here_word` when all have come.
        u32 places;  // Taken since the last round,
        u32 places_before;  // before it,
        u32 places_said;  // and of all these, said at `here_word`.
        u32 sent[most_devices];
        u32 received[most_devices];
        u32 round;
        u32 turn;  // Of the round.
        u32 phase;
    };

    // Fields of a word of arrivals: the first counter's counts that are small enough to go along; how
    // many blocks have counted anything else; how many blocks have come. The first block adds what
    // all others leave to 1 << `all_shift`, so that the word itself shows when all have come.
    static constexpr u32 more_shift = 32;
    static constexpr u32 block_shift = 44;
    static constexpr u32 all_shift = 56;
    static constexpr u32 most_blocks = 1u << (block_shift - more_shift);
    // A block's first count goes along if it is less than this.
    static constexpr u64 most_along = (u64(1) << more_shift) / most_blocks;
    // In `here_word`: how many blocks have come, and above that the device's places.
    static constexpr u32 here_shift = 32;

    const SpanSet<u64>& words;
    const Span<u32>& host;
    // References: kernels that are short of registers keep these with their parameters.
    const u64& patience;
    const u32& here;
    const u32& devices;

    __device__ static Block& block() {
        __shared__ Block its;
        return its;
    }

    __device__ u64& word(u32 place) const { return words[here][place]; }

    // The tally on device `to` of the blocks of device `from`.
    __device__ u64* tally(u32 to, u32 from) const {
        return &words[to][tallies + from * tally_words];
    }

    // The arrivals in that tally in a turn; below, its sums.
    __device__ u64* arrivals(u32 to, u32 from, u32 turn) const { return tally(to, from) + turn; }

    __device__ u64* sums(u32 to, u32 from, u32 turn) const {
        return tally(to, from) + first_sum + turn * sums_of_round;
    }

    // Relaxed, here and below: the fence orders it.
    __device__ void add(u64* place, u64 more) const {
        if (devices > 1) {
            add_relaxed_sys(place, more);
        } else {
            add_relaxed_gpu(place, more);
        }
    }

    __device__ void raise(u64* place, u64 value) const {
        if (devices > 1) {
            raise_relaxed_sys(place, value);
        } else {
            raise_relaxed_gpu(place, value);
        }
    }

    __device__ u64 read(const u64* place) const {
        return devices > 1 ? load_relaxed_sys(place) : load_relaxed_gpu(place);
    }

    // One warp, a lane for each sum on each device: adds what the block has counted to the sums,
    // and then its arrival, with the count that goes along.
    __device__ void arrive(Block& its) const {
        const u32 to = lane() / Totals::sums_of;
        const u32 sum = lane() % Totals::sums_of;
        const u64 along = its.news[first_count] < most_along ? its.news[first_count] : 0;
        u64 news = sum == Totals::places_sum ? its.places : its.news[sum];
        if (sum == first_count) news -= along;
        if (to < devices && news != 0) {
            u64* const place = sums(to, here, its.turn) + sum;
            if (sum == Totals::most_sum) {
                raise(place, news);
            } else {
                add(place, news);
            }
        }
        const u32 sent = lane() < devices ? its.sent[lane()] : 0;
        if (sent != 0) add(sums(lane(), here, its.turn) + sent_sum, sent);
        const bool has_more = __any_sync(~0u, news != 0 || sent != 0);
        if (blockIdx.x == 0) tell_standing(its);
        // What all lanes have added comes before each one's fence.
        __syncwarp();
        if (to == 0) its.news[sum] = 0;
        if (lane() < most_devices) its.sent[lane()] = 0;
        if (lane() == 0) {
            its.places_before += its.places;
            its.places = 0;
        }
        // Release: pairs with the acquire in `await`. What the block did is before it.
        if (devices > 1) {
            fence_acq_rel_sys();
        } else {
            fence_acq_rel_gpu();
        }
        if (to < devices && sum == 0)
            add(arrivals(to, here, its.turn), arrival() + (u64(has_more) << more_shift) + along);
    }

    // What a block adds to the arrivals: all blocks together add 1 << `all_shift`.
    __device__ static u64 arrival() {
        constexpr u64 one = u64(1) << block_shift;
        return blockIdx.x == 0 ? (u64(1) << all_shift) - (gridDim.x - 1) * one : one;
    }

    // One warp of one block: where it stands, for the host.
    __device__ void tell_standing(const Block& its) const {
        const u64* const all = reinterpret_cast<const u64*>(&its.totals);
        if (lane() < standing_words) store_relaxed_gpu(&word(standing + lane()), all[lane()]);
        if (lane() == standing_words) store_relaxed_gpu(&word(met), u64(its.round));
    }

    // One warp: waits until all blocks of all devices have come, and takes what they have
    // counted. False if the gang is stopped.
    __device__ bool hear(Block& its) const {
        const u32 from = lane() / Totals::sums_of;
        const u32 sum = lane() % Totals::sums_of;
        bool goes_on = true;
        u64 value = 0;
        if (from < devices && sum == 0) goes_on = await(arrivals(here, from, its.turn), value);
        // Waits may be too short to look for a stop, and a lone block never waits.
        if (blockIdx.x == 0 && lane() == 1) goes_on = !is_told_to_stop(its.looked, nanoseconds());
        // The others wait for this block in the next round, and see the stop there.
        if (!__all_sync(~0u, goes_on)) return leave();
        // The lanes that waited have acquired; the other lanes read and clear after them.
        __syncwarp();
        const bool is_more = __any_sync(~0u, u32(value >> more_shift) % most_blocks != 0);
        value = u32(value);
        if (is_more) value += take_more(its, from, sum);
        if (blockIdx.x == 0) clear((its.turn + 2) % turns);
        if (from == here && sum != Totals::most_sum) its.own[sum] += value;
        for (u32 step = Totals::sums_of; step < 32; step *= 2) {
            const u64 more = __shfl_xor_sync(~0u, value, step);
            if (sum != Totals::most_sum) {
                value += more;
            } else if (more > value) {
                value = more;
            }
        }
        u64& total = its.totals.sums[sum];
        if (from == 0) total = sum == Totals::most_sum ? value : total + value;
        __syncwarp();
        if (lane() == 0) {
            ++its.round;
            its.turn = (its.turn + 1) % turns;
        }
        return true;
    }

    // One warp: counts that did not come along with arrivals; each lane reads one device's sum.
    __device__ u64 take_more(Block& its, u32 from, u32 sum) const {
        const u64 more = from < devices ? read(sums(here, from, its.turn) + sum) : 0;
        if (lane() < devices)
            its.received[lane()] += u32(read(sums(here, lane(), its.turn) + sent_sum));
        return more;
    }

    // All lanes: the gang is stopped.
    __device__ static bool leave() {
        // Acquires what whoever stopped the gang wrote before.
        fence_acq_rel_gpu();
        return false;
    }

    // One thread: whether all blocks of a device come before the gang is stopped, and what has come
    // along with them.
    __device__ bool await(const u64* come, u64& along) const {
        Patience looks;
        for (;;) {
            // Others may have given up before the last have come.
            const u64 is_stopped = load_relaxed_sys(&word(stop));
            // Acquire: pairs with the release in `arrive` of all that have added to it.
            along = devices > 1 ? load_acquire_sys(come) : load_acquire_gpu(come);
            if (is_stopped != 0) return false;
            if (along >> all_shift != 0) return true;
            if (gives_up(looks)) return false;
        }
    }

    // One warp of one block: clears arrivals and sums of the round before, which all had read when
    // they came to this one. Nobody adds to them before this block has come to the next round.
    __device__ void clear(u32 turn) const {
        const u32 from = lane() / Totals::sums_of;
        if (from < devices) store_sum(sums(here, from, turn) + lane() % Totals::sums_of);
        if (lane() < devices) {
            store_sum(sums(here, lane(), turn) + sent_sum);
            store_sum(arrivals(here, lane(), turn));
        }
    }

    // Relaxed: the block's next arrival releases it.
    __device__ void store_sum(u64* place) const {
        if (devices > 1) {
            store_relaxed_sys(place, u64(0));
        } else {
            store_relaxed_gpu(place, u64(0));
        }
    }

    // One thread: arrives where the blocks of this device meet among themselves, and waits for all.
    __device__ Verdict hear_here(Block& its) const {
        const u32 news = its.places_before + its.places - its.places_said;
        its.places_said += news;
        its.come_here += gridDim.x;
        // Release: pairs with the acquire below.
        fetch_add_release_gpu(&word(here_word), u64(news) << here_shift | 1);
        Patience looks;
        for (;;) {
            const u64 all = load_acquire_gpu(&word(here_word));
            // Others may have come again.
            if (int(u32(all) - u32(its.come_here)) >= 0) {
                // Less the carries from the field of arrivals below.
                return Verdict{0, u32(all >> here_shift) - u32(its.come_here >> here_shift)};
            }
            if (gives_up(looks)) return Verdict{stopped, 0};
        }
    }
};

}  // namespace millstream
