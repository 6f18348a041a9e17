// A search from the hub: its members are known to be in one component. README, "Which
// arcs".

namespace millstream {

// A bit for each vertex, the whole of it on every device; of no length where there
// is no search.
struct Members {
    const SpanSet<u32>& of;
    u32 here;
    u32 devices;

    __device__ bool are_any() const { return of[here].len > 0; }

    // Of 32 vertices. They only become more, and old ones will do.
    __device__ u32 word(u64 at) const { return load_relaxed_cta(&of[here][at]); }

    __device__ bool has(u32 vertex) const {
        return are_any() && (word(vertex / 32) >> vertex % 32 & 1) != 0;
    }

    __device__ void store(u64 at, u32 bits) const {
        for (u32 device = 0; device < devices; ++device) store_relaxed_sys(&of[device][at], bits);
    }
};

// The vertices whose words are a device's alone.
__device__ Range whole_words(Range own, u32 vertices) {
    const u64 start = (u64(own.start) + 31) / 32 * 32;
    const u32 end = own.end == vertices ? own.end : own.end / 32 * 32;
    return start < end ? Range{u32(start), end} : Range{0, 0};
}

// The hub and its neighbours become members, on the device that has its row.
__device__ void flood_from_hub(const Rows& rows, const Members& members, u32 hub) {
    const u64 row = u64(hub) - rows.first_vertex;
    if (row >= rows.count()) return;
    const auto add = [&](u32 vertex) {
        u32* const word = &members.of[members.here][vertex / 32];
        fetch_or_relaxed_gpu(word, 1u << vertex % 32);
    };
    if (thread_in_grid() == 0) add(hub);
    for (u64 arc = rows.offsets[row] + thread_in_grid(); arc < rows.offsets[row + 1];
         arc += threads_in_grid())
        add(rows.targets[arc]);
}

// Then that device tells all others.
__device__ void tell_of_members(const Rows& rows, const Members& members, u32 hub) {
    if (u64(hub) - rows.first_vertex >= rows.count()) return;
    const Span<u32>& own = members.of[members.here];
    for (u64 at = thread_in_grid(); at < own.len; at += threads_in_grid()) {
        const u32 bits = load_relaxed_gpu(&own[at]);
        if (bits != 0) members.store(at, bits);
    }
}

// Arcs of a vertex that a pass looks at: what hangs on others is found out by hooking.
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

// Vertices of `whole` with a member next to them become members. How many, in the
// first lane of each warp.
__device__ u32 flood(const Rows& rows, const Members& members, Range whole) {
    u32 found = 0;
    const u64 stride = threads_in_grid() / 32;
    for (u64 at = whole.start / 32 + thread_in_grid() / 32; at * 32 < whole.end; at += stride) {
        const u32 before = members.word(at);
        const u64 vertex = at * 32 + lane();
        bool is_found = false;
        if (vertex < whole.end && (before >> lane() & 1) == 0) {
            const u64 row = vertex - rows.first_vertex;
            const u64 first = rows.offsets[row];
            const u64 last = rows.offsets[row + 1];
            const u64 limit = first + flooded_arcs;
            is_found = has_member(rows, members, first, last < limit ? last : limit);
        }
        const u32 bits = __ballot_sync(~0u, is_found);
        if (bits == 0) continue;
        if (lane() == 0) members.store(at, before | bits);
        found += __popc(bits);
    }
    return found;
}

// The first block: joins the hub with the smallest member, if that is covered, so that it has a
// parent here. Whose it is covers it.
__device__ void hook_smallest(const Span<u32>& parents, const Members& members, Range covered,
                              u32 hub) {
    if (blockIdx.x > 0) return;
    const u64 words = members.of[members.here].len;
    for (u64 base = 0; base < words; base += blockDim.x) {
        const u64 at = base + threadIdx.x;
        const u32 bits = at < words ? members.word(at) : 0;
        if (bits != 0 && covered.has(at * 32)) hook(parents, u32(at) * 32 + __ffs(bits) - 1, hub);
        if (__syncthreads_or(bits != 0)) return;
    }
}

}  // namespace millstream
