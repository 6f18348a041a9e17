// Litmus tests of packets that are full or empty, and of copies that tell. Behind litmus.cuh.

#include "copy_bytes.cuh"
#include "full_empty.cuh"

namespace litmus {

// Full/empty packets: two blocks of one device write a packet, two of the other one read it,
// and the last of those makes it empty. Epochs follow each other, as kernels' do.

constexpr u32 line_words = 32;

// Of a packet, in the memory of those who look at it.
enum NearWord { near_local, near_arrivals = 4, near_turn = 6, near_done };

struct Packet {
    FullEmptySegment<u32> segment;
    u32* near;

    // In `packets`: a line with its word and the group's, and the items. `looks_near`: it lies in
    // the host's memory, and one block looks for both.
    __device__ Packet(Span<u32> near_words, Span<u32> packets, bool looks_near, Run run)
        : near(near_words.items + blockIdx.x / 2 * line_words) {
        u32* const word = packets.items + blockIdx.x / 2 * (line_words + slot_items);
        segment.items = {word + line_words, slot_items};
        segment.words = {word, 1};
        segment.mirror = {nullptr, 0};
        segment.arrivals = {reinterpret_cast<u64*>(near + near_arrivals), 1};
        segment.control = {reinterpret_cast<u64*>(word + 2), 1};
        segment.local = {near + near_local, u64(looks_near ? local_words + 2 : local_words)};
        segment.settings = {u64(run.milliseconds) * 1000000, slot_items, 1, 0, 2, 0};
    }

    __device__ u32 content(u32 round, u32 item) const {
        return hash(round * slot_items + item) ^ blockIdx.x / 2;
    }

    // The block's half of the items. The last of both blocks fills the packet.
    __device__ void fill(u32 round, u32 variant) const {
        for (u32 item = threadIdx.x; item < slot_items; item += blockDim.x)
            if (item % 2 == blockIdx.x % 2) segment.items[item] = content(round, item);
        if (segment.arrive(0) && threadIdx.x == 0) {
            if (variant == first_fault) {
                store_relaxed_sys(&segment.words[0], segment.settings.epoch);
            } else {
                segment.mark_full(0);
            }
            // Only tells the other block that the packet is not empty any more.
            store_release_gpu(near + near_turn, round + 1);
        }
    }
};

__device__ void packet_fill(Span<u32> control, Span<u32> near, Span<u32> packets, Run run) {
    Judge judge(control, 0, run);
    Packet packet(near, packets, false, run);
    u32 round = 0;
    for (; round < run.rounds; ++round) {
        packet.segment.settings.epoch = round;
        judge.pause(round);
        if (round > 0) {
            bool goes_on = true;
            while (goes_on && load_acquire_gpu(packet.near + near_turn) < round)
                goes_on = !judge.gives_up();
            if (!__syncthreads_and(goes_on) || !packet.segment.wait_empty(0)) break;
        }
        packet.segment.settings.epoch = round + 1;
        packet.fill(round, run.variant);
    }
    judge.late |= round < run.rounds;
    if (threadIdx.x == 0) judge.report(round);
}

__device__ void packet_take(Span<u32> control, Span<u32> near, Span<u32> packets, bool looks_near,
                            Run run) {
    __shared__ bool is_last;
    Judge judge(control, 1, run);
    Packet packet(near, packets, looks_near, run);
    u32 round = 0;
    for (; round < run.rounds; ++round) {
        packet.segment.settings.epoch = round + 1;
        if (!packet.segment.wait_full(0)) break;
        if (run.variant == second_fault) packet.segment.mark_empty(0);
        bool wrong = false;
        for (u32 item = threadIdx.x; item < slot_items; item += blockDim.x)
            wrong |= packet.segment.items[item] != packet.content(round, item);
        if (__syncthreads_or(wrong) && threadIdx.x == 0) judge.fault(round);
        judge.pause(~round);
        if (threadIdx.x == 0)
            is_last = fetch_add_acq_rel_gpu(packet.near + near_done, 1u) % 2 == 1;
        __syncthreads();
        if (is_last && run.variant != second_fault) packet.segment.mark_empty(0);
        __syncthreads();
    }
    judge.late |= round < run.rounds;
    if (threadIdx.x == 0) judge.report(round);
}

// A copy that tells: a block pushes bytes into memory of another device or the host, and says so
// in a word of the host. Whoever finds that reads them, and says that it has.

enum ToldWord { told, taken = line_words };

// As copy_bytes_and_tell, but the word is written first.
__device__ void tell_and_copy(Span<const unsigned char> from, Span<unsigned char> to, Tell tell) {
    if (threadIdx.x == 0) store_relaxed_sys(tell.word, u32(tell.value));
    copy_bytes(from, to);
    __syncthreads();
}

// One block, as the header asks.
__device__ void push(Span<u32> control, Span<u32> source, Span<u32> target, Span<u32> words,
                     Run run) {
    Judge judge(control, 0, run);
    u32 round = 0;
    for (; round < run.rounds; ++round) {
        judge.pause(round);
        bool goes_on = true;
        while (goes_on && threadIdx.x == 0 && load_acquire_sys(&words[taken]) != round)
            goes_on = !judge.gives_up();
        if (!__syncthreads_and(goes_on)) break;
        for (u32 item = threadIdx.x; item < slot_items; item += blockDim.x)
            source[item] = content(round, item);
        __syncthreads();
        const u64 bytes = items_in(round) * sizeof(u32);
        const Span<const unsigned char> from{reinterpret_cast<const unsigned char*>(source.items),
                                             bytes};
        const Span<unsigned char> to{reinterpret_cast<unsigned char*>(target.items), bytes};
        const Tell tell{&words[told], round + 1};
        run.variant == first_fault ? tell_and_copy(from, to, tell)
                                   : copy_bytes_and_tell(from, to, tell);
    }
    if (threadIdx.x == 0) judge.report(round);
}

__device__ void take_pushed(Span<u32> control, Span<u32> target, Span<u32> words, Run run) {
    Judge judge(control, 1, run);
    u32 round = 0;
    for (; round < run.rounds; ++round) {
        bool goes_on = true;
        while (goes_on && threadIdx.x == 0 && load_acquire_sys(&words[told]) != round + 1)
            goes_on = !judge.gives_up();
        if (!__syncthreads_and(goes_on)) break;
        if (run.variant == second_fault && threadIdx.x == 0)
            store_relaxed_sys(&words[taken], round + 1);
        bool wrong = false;
        for (u32 item = threadIdx.x; item < items_in(round); item += blockDim.x)
            wrong |= target[item] != content(round, item);
        if (__syncthreads_or(wrong) && threadIdx.x == 0) judge.fault(round);
        if (run.variant != second_fault && threadIdx.x == 0)
            store_release_sys(&words[taken], round + 1);
    }
    if (threadIdx.x == 0) judge.report(round);
}

// A stream's copy, and the word that it writes behind it: each block waits for its packet as
// kernels do, looks at it, and tells the host, which has the next one copied. The word, one that
// ends waiting and those of the segment lie in a line of the block's device.

constexpr u32 copies = 64;

__device__ void take_copied(Span<u32> control, Span<u32> items, Span<u32> words, Span<u32> taken,
                            Run run) {
    Judge judge(control, 1, run);
    u32* const line = words.items + blockIdx.x * line_words;
    FullEmptySegment<u32> segment;
    segment.items = {items.items + blockIdx.x * slot_items, slot_items};
    segment.words = {line, 1};
    segment.mirror = {nullptr, 0};
    segment.arrivals = {nullptr, 0};
    segment.control = {reinterpret_cast<u64*>(line + 2), 1};
    segment.local = {line + 4, local_words};
    segment.settings = {u64(run.milliseconds) * 1000000, slot_items, 1, 0, 1, 0};
    u32 round = 0;
    for (; round < run.rounds; ++round) {
        judge.pause(round);
        segment.settings.epoch = round + 1;
        if (!segment.wait_full(0)) break;
        bool wrong = false;
        for (u32 item = threadIdx.x; item < slot_items; item += blockDim.x)
            wrong |= segment.items[item] != content(round % copies, item);
        if (__syncthreads_or(wrong) && threadIdx.x == 0) judge.fault(round);
        if (threadIdx.x == 0) store_release_sys(&taken[blockIdx.x], round + 1);
    }
    if (round < run.rounds && threadIdx.x == 0) store_relaxed_sys(judge.stop, 1u);
    judge.late |= round < run.rounds;
    if (threadIdx.x == 0) judge.report(round);
}

}  // namespace litmus

LITMUS(packet_fill, packet_fill(control, first, third, run))
LITMUS(packet_take, packet_take(control, second, third, false, run))
LITMUS(packet_take_near, packet_take(control, second, third, true, run))
LITMUS(push, push(control, first, second, third, run))
LITMUS(take_pushed, take_pushed(control, second, third, run))
LITMUS(take_copied, take_copied(control, first, second, third, run))
