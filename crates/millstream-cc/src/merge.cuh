// GPUs that reach each other's memory merge their trees: see README.md. The model has the same in Rust,
// `tests/models/tests/hooking/merging.rs`.

namespace millstream {

// Disjoint ranges that begin at multiples of 32; those not needed are empty.
struct Ranges {
    static constexpr u32 most = SpanSet<u32>::most;
    Range of[most];
};

// A vertex and another one in the same tree of a device; in that device's memory `from | to << 32`.
struct Pair {
    u32 from;
    u32 to;
};

// What all devices tell of their trees: how many pairs follow, and the pairs.
struct Told {
    const SpanSet<u64>& pairs;
    u32 here;
    u32 devices;

    // Threads of a warp together.
    __device__ void add(bool is_pair, Pair pair) const {
        u64* const own = pairs[here].items;
        const u32 place = append_place(reinterpret_cast<u32*>(own), is_pair);
        if (is_pair) own[1 + place] = u64(pair.to) << 32 | pair.from;
    }

    // Calls `use` for the pairs of all devices. Blocks share a device's list; if there are fewer
    // blocks than lists, each block takes several.
    template <class Use>
    __device__ void for_each(Use use) const {
        for (u32 device = blockIdx.x % devices; device < devices; device += gridDim.x) {
            const u64* const list = pairs[device].items;
            const u64 count = list[0];
            const u64 blocks =
                device < gridDim.x ? (gridDim.x - device + devices - 1) / devices : 1;
            const u64 stride = blocks * blockDim.x;
            for (u64 at = u64(blockIdx.x / devices) * blockDim.x + threadIdx.x; at < count;
                 at += stride)
                use(Pair{u32(list[1 + at]), u32(list[1 + at] >> 32)});
        }
    }
};

// Parents of a device that tells of each hook as it makes it.
struct ToldParents : Span<u32> {
    const Told& told;

    __device__ ToldParents(const Span<u32>& parents, const Told& told)
        : Span<u32>(parents), told(told) {}
};

__device__ u32 hook_root(const ToldParents& parents, u32 root, u32 smaller) {
    const Span<u32>& own = parents;
    const u32 before = hook_root(own, root, smaller);
    if (parents.told.devices > 1) parents.told.add(before == root, Pair{root, smaller});
    return before;
}

// Looks for the roots of a range of vertices, each from `from(vertex)` on, four for each
// thread, whose paths are followed at once. `use(vertex, is_vertex, root)` is called
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

// Tells of the trees of the vertices of `ranges`, when all hooks are over.
__device__ void tell(const Told& told, const Span<u32>& parents, const Ranges& ranges) {
    const auto itself = [](u32 vertex) { return vertex; };
    for (const Range& range : ranges.of) {
        for_each_root(parents, range, itself, [&](u32 vertex, bool is_vertex, u32 root) {
            told.add(is_vertex && root != vertex, Pair{vertex, root});
        });
    }
}

// Vertices outside of `covered` that others tell of become trees.
__device__ void plant(const Told& told, const Span<u32>& parents, Range covered) {
    told.for_each([&](Pair pair) {
        for (u32 vertex : {pair.from, pair.to})
            if (!covered.has(vertex)) store_relaxed_gpu(&parents[vertex], vertex);
    });
}

// Hooks along all pairs.
__device__ void join(const Told& told, const Span<u32>& parents) {
    told.for_each([&](Pair pair) { hook(parents, pair.from, pair.to); });
}

// Where the paths to the roots of four vertices begin: their parents, or the hub for members.
__device__ Quad label_from(const Members& members, const Span<u32>& parents, Range own, u32 hub,
                           u64 vertex) {
    const bool is_whole = vertex >= own.start && vertex + 4 <= own.end;
    const u32 bits = members.are_any() && vertex < own.end ? members.word(vertex / 32) : 0;
    const u32 are_members = bits >> vertex % 32 & 15;
    Quad from{{hub, hub, hub, hub}};
    if (is_whole && are_members != 15)
        from = load_relaxed_gpu(reinterpret_cast<const Quad*>(&parents[vertex]));
#pragma unroll
    for (u32 item = 0; item < 4; ++item) {
        if (!is_whole) from.words[item] = own.has(vertex + item) ? u32(vertex) + item : own.start;
        if ((are_members >> item & 1) != 0) from.words[item] = hub;
    }
    return from;
}

// Makes the root of every vertex of `own` its parent, and the hub's root that of every member,
// when all hooks are over. Each thread takes several groups of four adjacent vertices.
__device__ void label(const Members& members, const Span<u32>& parents, Range own, u32 hub) {
    constexpr u32 at_once = 3;
    const u64 stride = threads_in_grid() * at_once * 4;
    const u64 start = own.start / 32 * 32 + (thread_in_grid() / 32 * 32 * at_once + lane()) * 4;
    if (own.start == own.end) return;
    for (u64 first = start; first < own.end; first += stride) {
        u32 roots[at_once * 4];
#pragma unroll
        for (u32 at = 0; at < at_once; ++at) {
            const Quad from = label_from(members, parents, own, hub, first + at * 128);
#pragma unroll
            for (u32 item = 0; item < 4; ++item) roots[at * 4 + item] = from.words[item];
        }
        look_for_roots(parents, roots);
#pragma unroll
        for (u32 at = 0; at < at_once; ++at) {
            const u64 vertex = first + at * 128;
            const Quad quad{{roots[at * 4], roots[at * 4 + 1], roots[at * 4 + 2],
                             roots[at * 4 + 3]}};
            if (vertex >= own.start)
                store_some(parents, vertex, vertex < own.end ? own.end - vertex : 0, quad);
            else
#pragma unroll
                for (u32 item = 0; item < 4; ++item)
                    if (own.has(vertex + item))
                        store_relaxed_gpu(&parents[vertex + item], quad.words[item]);
        }
    }
}

}  // namespace millstream
