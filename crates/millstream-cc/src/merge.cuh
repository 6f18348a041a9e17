// Devices that reach each other's memory merge their trees; the twin of `merging.rs`,
// whose README has the protocol.

namespace millstream {

// Disjoint ranges that begin at multiples of 32; those not needed are empty.
struct Ranges {
    static constexpr u32 most = SpanSet<u32>::most;
    Range of[most];
};

// A vertex and the root that it has on a device, in its memory `from | to << 32`.
struct Pair {
    u32 from;
    u32 to;
};

// What all devices tell of their trees.
struct Told {
    // A bit for each vertex: whether it is in the hub's tree on that device. Empty if
    // there is no hub.
    const SpanSet<u32>& members;
    // How many pairs follow; the pairs.
    const SpanSet<u64>& pairs;
    u32 here;
    u32 devices;

    __device__ bool has_hub() const { return members[here].len > 0; }

    // Of 32 vertices, whether they are in the hub's tree on any device.
    __device__ u32 members_of(u64 word) const {
        u32 all = 0;
        for (u32 device = 0; device < devices; ++device) all |= members[device][word];
        return all;
    }

    // Threads of a warp together.
    __device__ void add(bool is_pair, Pair pair) const {
        u64* const own = pairs[here].items;
        const u32 place = append_place(reinterpret_cast<u32*>(own), is_pair);
        if (is_pair) own[1 + place] = u64(pair.to) << 32 | pair.from;
    }

    // Pairs of all devices, whose lists blocks share.
    template <class Use>
    __device__ void for_each(Use use) const {
        const u32 device = blockIdx.x % devices;
        const u64* const list = pairs[device].items;
        const u64 blocks = (gridDim.x - device + devices - 1) / devices;
        for (u64 at = u64(blockIdx.x / devices) * blockDim.x + threadIdx.x; at < list[0];
             at += blocks * blockDim.x)
            use(Pair{u32(list[1 + at]), u32(list[1 + at] >> 32)});
    }
};

// Looks for the roots of a range of vertices, each from where `from(vertex)` says, four a
// thread, whose ways are in flight together. `use(vertex, is_vertex, root)` is called
// by the lanes of a warp together, for 32 vertices from a multiple of 32 on.
template <class From, class Use>
__device__ void for_each_root(const Span<u32>& parents, Range range, From from, Use use) {
    if (range.start == range.end) return;
    constexpr u32 at_once = 4;
    const u64 stride = threads_in_grid() * at_once;
    const u64 start = range.start / 32 * 32 + thread_in_grid() / 32 * 32 * at_once + lane();
    for (u64 first = start; first - lane() < range.end; first += stride) {
        u32 roots[at_once];
        for (u32 at = 0; at < at_once; ++at) {
            const u64 vertex = first + at * 32;
            roots[at] = from(range.has(vertex) ? u32(vertex) : range.start);
        }
        look_for_roots(parents, roots);
        for (u32 at = 0; at < at_once; ++at) {
            const u64 vertex = first + at * 32;
            use(u32(vertex), range.has(vertex), roots[at]);
        }
    }
}

// Tells of the trees of the vertices of `ranges`, as all hooks are over.
__device__ void tell(const Told& told, const Span<u32>& parents, const Ranges& ranges, u32 hub) {
    const u32 hub_root = told.has_hub() ? look_for_root(parents, hub) : ~0u;
    const auto itself = [](u32 vertex) { return vertex; };
    for (const Range& range : ranges.of) {
        for_each_root(parents, range, itself, [&](u32 vertex, bool is_vertex, u32 root) {
            const bool is_member = root == hub_root;
            const u32 members = __ballot_sync(~0u, is_vertex && is_member);
            if (told.has_hub() && is_vertex && lane() == 0)
                told.members[told.here][vertex / 32] = members;
            told.add(is_vertex && !is_member && root != vertex, Pair{vertex, root});
        });
    }
    if (told.has_hub() && thread_in_grid() == 0) told.add(true, Pair{hub, hub_root});
}

// Vertices outside of `covered` that others tell of become trees.
__device__ void plant(const Told& told, const Span<u32>& parents, Range covered) {
    told.for_each([&](Pair pair) {
        for (u32 vertex : {pair.from, pair.to})
            if (!covered.has(vertex)) store_relaxed_gpu(&parents[vertex], vertex);
    });
}

// Hooks along all pairs; what others have in the hub's tree comes into it.
__device__ void join(const Told& told, const Span<u32>& parents, u32 hub) {
    told.for_each([&](Pair pair) {
        hook(parents, pair.from, pair.to);
        if (!told.has_hub()) return;
        for (u32 vertex : {pair.from, pair.to})
            if (told.members_of(vertex / 32) >> vertex % 32 & 1) hook(parents, vertex, hub);
    });
}

// Makes the root of every vertex of `own` its parent, when all hooks are over.
__device__ void label(const Told& told, const Span<u32>& parents, Range own, u32 hub) {
    const auto member_or_itself = [&](u32 vertex) {
        const bool is_member =
            told.has_hub() && (told.members_of(vertex / 32) >> vertex % 32 & 1) != 0;
        return is_member ? hub : vertex;
    };
    for_each_root(parents, own, member_or_itself, [&](u32 vertex, bool is_vertex, u32 root) {
        if (is_vertex) store_relaxed_gpu(&parents[vertex], root);
    });
}

}  // namespace millstream
