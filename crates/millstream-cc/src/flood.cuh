// A search from the hub: its members are known to be in one component. README, "Which
// arcs".

namespace millstream {

// The vertices whose words, in the groups of four that are stored together, are a device's alone.
__device__ Range whole_words(Range own, u32 vertices) {
    constexpr u32 together = OpenVertices::most;
    const u64 start = (u64(own.start) + together - 1) / together * together;
    const u32 end = own.end == vertices ? own.end : own.end / together * together;
    return start < end ? Range{u32(start), end} : Range{0, 0};
}

// The hub and its neighbours become members, on the device that has its row.
__device__ void flood_from_hub(const Rows& rows, const Members& members, u32 hub) {
    const u64 row = hub - rows.first_vertex;
    const auto add = [&](u32 vertex) {
        u32* const word = &members.of[members.here][vertex / 32];
        fetch_or_relaxed_gpu(word, 1u << vertex % 32);
    };
    if (thread_in_grid() == 0) add(hub);
    for (u64 arc = rows.offsets[row] + thread_in_grid(); arc < rows.offsets[row + 1];
         arc += threads_in_grid())
        add(rows.targets[arc]);
}

// Then that device tells all others of these members.
__device__ void tell_of_members(const Members& members) {
    const Span<u32>& own = members.of[members.here];
    for (u64 at = thread_in_grid(); at < own.len; at += threads_in_grid()) {
        const u32 bits = load_relaxed_gpu(&own[at]);
        if (bits != 0) members.store(at, bits);
    }
}

// Arcs of a vertex that a pass looks at, at most: hooking finds what other arcs connect.
constexpr u32 flooded_arcs = 16;

__device__ bool has_member(const Rows& rows, const Members& members, u64 first, u64 last) {
    constexpr u32 at_once = 4;
    for (; first < last; first += at_once) {
        u32 targets[at_once];
        for (u32 at = 0; at < at_once; ++at)
            targets[at] = rows.targets[first + at < last ? first + at : last - 1];
        bool is_any = false;
        for (u32 target : targets) is_any |= members.has(target);
        if (is_any) return true;
    }
    return false;
}

// How many vertices a pass has found, and how many with neighbours it has left.
struct Flooded {
    u32 found;
    u32 left;
};

// Vertices of `whole` with a member next to them become members: those whose hub is a member, and,
// if asked, those with a member along their first arcs. Returns the warp's counts, in each lane.
template <bool looks_at_arcs>
__device__ Flooded flood(const Rows& rows, const Span<u32>& hubs, const Members& members,
                         Range whole, u32* list) {
    constexpr u32 words = OpenVertices::words;
    static_assert(words == 4, "a `Quad`");
    OpenVertices open(list, hubs, rows.first_vertex, members, whole);
    Flooded flooded{0, 0};
    for (u64 first = whole.start / 32 + thread_in_grid() / 32 * words; first * 32 < whole.end;
         first += threads_in_grid() / 32 * words) {
        open.read(first);
        u32 found[words];
#pragma unroll
        for (u32 at = 0; at < words; ++at) {
            const bool is_found = open.is_open[at] && members.has(open.hub[at]);
            found[at] = __ballot_sync(~0u, is_found);
            flooded.left += __popc(__ballot_sync(~0u, open.is_open[at]));
            if (looks_at_arcs)
                open.add(open.is_open[at] && !is_found, u32(first + at) * 32 + lane());
        }
        if (looks_at_arcs)
            open.for_each([&](bool is_vertex, u32 vertex) {
                bool is_found = false;
                if (is_vertex) {
                    const u64 row = vertex - rows.first_vertex;
                    const u64 begin = rows.offsets[row];
                    const u64 end = rows.offsets[row + 1];
                    const u64 limit = begin + flooded_arcs;
                    is_found = has_member(rows, members, begin, end < limit ? end : limit);
                }
#pragma unroll
                for (u32 at = 0; at < words; ++at) {
                    const bool is_here = is_found && vertex / 32 == first + at;
                    // Each lane's bit is a different one, so that their sum is their union.
                    found[at] |= __reduce_add_sync(~0u, is_here ? 1u << vertex % 32 : 0);
                }
            });
        if ((found[0] | found[1] | found[2] | found[3]) == 0) continue;
        Quad bits;
#pragma unroll
        for (u32 at = 0; at < words; ++at) {
            bits.words[at] = open.before[at] | found[at];
            flooded.found += __popc(found[at]);
        }
        members.store(first, bits);
    }
    flooded.left -= flooded.found;
    return flooded;
}

// The first block: joins the hub with the smallest member.
__device__ void hook_smallest(const Span<u32>& parents, const Members& members, u32 hub) {
    if (blockIdx.x > 0) return;
    __shared__ u32 smallest;
    if (threadIdx.x == 0) smallest = ~0u;
    __syncthreads();
    for (u64 base = 0; base * 32 < parents.len; base += blockDim.x) {
        const u64 at = base + threadIdx.x;
        const u32 bits = at * 32 < parents.len ? members.word(at) : 0;
        if (bits != 0) atomicMin(&smallest, u32(at) * 32 + __ffs(bits) - 1);
        if (__syncthreads_or(bits != 0)) break;
    }
    // Only one member: all of them would contend for the hub's root.
    if (threadIdx.x == 0 && smallest != ~0u) hook(parents, smallest, hub);
}

}  // namespace millstream
