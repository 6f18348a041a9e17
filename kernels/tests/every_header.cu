// A kernel for each thing that the headers offer, so that each is compiled.
#include "atomics.cuh"
#include "collective_chain.cuh"
#include "collective_channel.cuh"
#include "collective_combine.cuh"
#include "collective_lines.cuh"
#include "collective_pass.cuh"
#include "collective_ring.cuh"
#include "copy_bytes.cuh"
#include "device_link.cuh"
#include "filter.cuh"
#include "full_empty.cuh"
#include "grid.cuh"
#include "lines.cuh"
#include "peer_ring.cuh"
#include "relaxation.cuh"
#include "host_driven.cuh"

using namespace millstream;

#define EVERY_OPERATION(scope)                                                     \
    extern "C" __global__ void atomics_##scope(u32* narrow, u64* wide) {           \
        const u32 n = load_acquire_##scope(narrow) + load_relaxed_##scope(narrow); \
        const u64 w = load_acquire_##scope(wide) + load_relaxed_##scope(wide);     \
        store_relaxed_##scope(narrow, n);                                          \
        store_release_##scope(narrow, n);                                          \
        store_relaxed_##scope(wide, w);                                            \
        store_release_##scope(wide, w);                                            \
        u32 before = fetch_add_relaxed_##scope(narrow, n);                         \
        before += fetch_min_acquire_##scope(narrow, n);                            \
        before += fetch_or_acq_rel_##scope(narrow, n);                             \
        before += fetch_and_acq_rel_##scope(narrow, n);                            \
        before += compare_exchange_release_##scope(narrow, n, before);             \
        u64 wider = fetch_add_release_##scope(wide, w);                            \
        wider += fetch_min_acq_rel_##scope(wide, before);                          \
        compare_exchange_acq_rel_##scope(wide, w, wider);                          \
    }

EVERY_OPERATION(gpu)
EVERY_OPERATION(sys)

extern "C" __global__ void own_memory(Quad* quads) {
    extern __shared__ u32 words[];
    for (u32 at = threadIdx.x; at * 4 < dynamic_shared_bytes(); at += blockDim.x)
        store_relaxed_shared(&words[at], at);
    compare_exchange_relaxed_shared(words, 0, load_relaxed_shared(words) + 1);
    __syncthreads();
    Quad quad = load_relaxed_gpu(&quads[threadIdx.x]);
    quad.words[1] = words[threadIdx.x];
    store_relaxed_gpu(&quads[threadIdx.x], quad);
}

struct AtMost {
    u32 threshold;
    __device__ bool operator()(u32 item) const { return item <= threshold; }
};

extern "C" __global__ void filter_at_most(Span<const u32> input, Span<u32> output,
                                          Span<u32> scratch, Span<u32> count,
                                          u32 threshold) {
    filter(input, output, scratch, count, AtMost{threshold});
}

// The least program: items are numbers that count down to 0.
struct Countdown {
    using State = u32;
    struct Problem {
        Span<u32> values;
    };
    struct Packet {
        u32 item;
    };
    struct Arc {
        u32 target;
    };
    __device__ static u32 unpack(const Problem&, const Here&, const Packet& packet) {
        return packet.item;
    }
    __device__ static Packet pack(const Problem&, const Here&, u32 item) { return {item}; }
    __device__ static Flags on_send(const Problem&, const Here&, u32 item) {
        return item % 2 == 0 ? Flags::both : Flags::keep;
    }
    __device__ static Flags on_receive(const Problem& problem, const Here&,
                                       const Packet& packet) {
        return fetch_max_relaxed_gpu(&problem.values[0], packet.item) == 0 ? Flags::keep
                                                                           : Flags::drop;
    }
    __device__ static u32 priority(const Problem&, u32 item) { return item; }
    __device__ static u32 owner(const Problem&, u32) { return nobody; }
    __device__ static State begin(const Problem&, const Here&, u32 item, u64* first, u64* last) {
        *first = item > 0 ? item - 1 : 0;
        *last = item;
        return item;
    }
    __device__ static Arc arc(const Problem&, u64 at) { return {u32(at)}; }
    __device__ static bool visit(const Problem&, const Here&, State state, const Arc& arc,
                                 u32* priority, u32*) {
        *priority = arc.target;
        return arc.target < state;
    }
};

MILLSTREAM_WORKLIST(Countdown)

extern "C" __global__ void link_send(DeviceLink<u64> link, const u64* items, u32 count) {
    DeviceSender<u64>(link).send(items, count);
}

extern "C" __global__ void link_receive(DeviceLink<u64> link, u64* items, u32* count) {
    DeviceReceiver<u64> in(link);
    while (in.receive(items, count)) items += *count;
}

extern "C" __global__ void link_fill(DeviceLink<uint4> link, uint4 item) {
    const DeviceSender<uint4> out(link, {}, blockIdx.x);
    const LinkSlot<uint4> slot = out.claim();
    if (!slot) return;
    for (u32 at = threadIdx.x; at < slot.len; at += blockDim.x) slot[at] = item;
    out.publish(slot, slot.len);
}

extern "C" __global__ void link_read(DeviceLink<uint4> link, Span<u32> total) {
    DeviceReceiver<uint4> in(link, {}, blockIdx.x);
    while (const LinkPacket<uint4> packet = in.take()) {
        for (u32 at = threadIdx.x; at < packet.len; at += blockDim.x)
            fetch_add_relaxed_gpu(&total[0], packet[at].x);
        in.give_back();
    }
}

extern "C" __global__ void ring_send(PeerRing<u64> ring, const u64* items, u32 count,
                                     u32* sent) {
    if (ring.try_send(items, count) && threadIdx.x == 0) fetch_add_relaxed_gpu(sent, 1u);
}

extern "C" __global__ void ring_receive(PeerRing<u64> ring, u32* taken, u64* items,
                                        u32* count) {
    u32 next = *taken;
    if (ring.try_receive(&next, items, count) && threadIdx.x == 0) *taken = next;
}

extern "C" __global__ void copy_all_bytes(Span<const unsigned char> from,
                                          Span<unsigned char> to) {
    copy_bytes(from, to);
}

extern "C" __global__ void combine_items(Span<const float> arrived, Span<float> here) {
    combine_into(arrived, here, [](float one, float other) { return one + other; });
}

struct Triple {
    unsigned char bytes[3];
};

struct Large {
    u64 words[9];
};

#define EVERY_COLLECTIVE(name, Element, expression)                                        \
    extern "C" __global__ void __launch_bounds__(512, 1)                                   \
    lines_of_##name(const __grid_constant__ LineOperations<Element> operations,            \
                    const __grid_constant__ SpanSet<u64> memory, Span<u32> host,           \
                    const __grid_constant__ LineSettings settings) {                       \
        collective_lines(operations, memory, host, settings,                               \
                         [](Element one, Element other) -> Element { return expression; }); \
    }                                                                                      \
    extern "C" __global__ void __launch_bounds__(512, 1)                                   \
    pass_of_##name(const __grid_constant__ SpanSet<const Element> inputs,                  \
                   const __grid_constant__ SpanSet<Element> outputs,                       \
                   const __grid_constant__ SpanSet<u64> memory, Span<u32> host,            \
                   const __grid_constant__ PassSettings settings) {                        \
        collective_pass(inputs, outputs, memory, host, settings,                           \
                        [](Element one, Element other) -> Element { return expression; });  \
    }                                                                                      \
    extern "C" __global__ void __launch_bounds__(512, 2)                                   \
    chain_of_##name(const __grid_constant__ SpanSet<const Element> inputs,                 \
                    const __grid_constant__ SpanSet<Element> outputs,                      \
                    const __grid_constant__ SpanSet<u64> memory, Span<u32> host,           \
                    const __grid_constant__ ChainSettings settings) {                      \
        collective_chain(inputs, outputs, memory, host, settings,                          \
                         [](Element one, Element other) -> Element { return expression; }); \
    }                                                                                      \
    extern "C" __global__ void __launch_bounds__(512, 2)                                   \
    ring_of_##name(const __grid_constant__ SpanSet<const Element> inputs,                  \
                   const __grid_constant__ SpanSet<Element> outputs,                       \
                   const __grid_constant__ SpanSet<u64> memory, Span<u32> host,            \
                   const __grid_constant__ RingSettings settings) {                        \
        collective_ring(inputs, outputs, memory, host, settings,                           \
                        [](Element one, Element other) -> Element { return expression; });  \
    }

EVERY_COLLECTIVE(items, float, one + other)
EVERY_COLLECTIVE(triples, Triple, other.bytes[0] > 0 ? one : other)
EVERY_COLLECTIVE(large, Large, other.words[0] > 0 ? one : other)

extern "C" __global__ void add_packets(FullEmptySegment<float> one, FullEmptySegment<float> other,
                                       FullEmptySegment<float> sum) {
    for (u32 packet = blockIdx.x; packet < sum.packets(); packet += gridDim.x) {
        if (!one.wait_full(packet) || !other.wait_full(packet)) return;
        for (u64 at = sum.begin(packet) + threadIdx.x; at < sum.end(packet); at += blockDim.x)
            sum.items[at] = one.items[at] + other.items[at];
        one.mark_empty(packet);
        sum.publish(packet);
    }
    if (!one.wait_empty(0, one.packets())) return;
}
