// Arcs that leave the tiles of `tiles.cuh`: README, "Tiles".

namespace millstream {

// Hooks along what `start_tiles_of_trees` has left.
struct LeavingArcs {
    const Rows& rows;
    const Span<u32>& parents;
    WarpEdges<Span<u32>>& edges;

    // Hooks along those of 32 vertices, one for each lane, in a tile that begins at `start`.
    __device__ void hook_rows(u32 vertex, bool is_row, u32 start) const {
        RowStart row;
        u32 root = vertex;
        if (is_row) {
            row.find(rows.offsets.items, u64(vertex) - rows.first_vertex);
            root = parent_of(parents, vertex);
        }
        row.read(rows);
        const u32 least = min(min(row.targets[0], row.targets[1]),
                              min(row.targets[2], row.targets[3]));
        hook_once(least < start, root, least);
        bool has_more = row.arcs > RowStart::few;
#pragma unroll
        for (u32 target : row.targets) has_more |= target < start && target != least;
        if (!__any_sync(~0u, has_more)) return;
        if (__any_sync(~0u, row.is_wide())) return hook_wide(row, vertex, root, start, least);
#pragma unroll
        for (u32 target : row.targets) edges.add(target < start && target != least, root, target);
        hook_others(row, vertex);
    }

   private:
    __device__ void hook_once(bool is_arc, u32 root, u32 target) const {
        add_once(root, is_arc ? parent_of(parents, target) : root);
    }

    // Neighbouring lanes often join the same trees: one of them does.
    __device__ void add_once(u32 root, u32 other) const {
        const bool is_edge = other != root;
        const u32 below = __ballot_sync(~0u, is_edge) & ((1u << lane()) - 1);
        const int last = 31 - __clz(below);
        const u32 its = __shfl_sync(~0u, other, last & 31);
        const u32 its_root = __shfl_sync(~0u, root, last & 31);
        const bool is_said = below != 0 && its == other && its_root == root;
        edges.add(is_edge && !is_said, root, other);
    }

    // What comes after the first few arcs of a row; all of a long one.
    struct Rest {
        u64 first;
        u64 last;

        __device__ Rest(const Rows& rows, const RowStart& row, u32 vertex) {
            const bool is_more = row.arcs > RowStart::few;
            first = last = is_more && !row.is_long() ? row.first + RowStart::few : row.first;
            if (row.is_long()) last = rows.offsets[u64(vertex) - rows.first_vertex + 1];
            else if (is_more) last = row.first + row.arcs;
        }
    };

    // Arcs of rows of which one is wide, except those to `least` and those that stay in the tile: these are
    // already hooked, unless the row is long.
    __device__ void hook_wide(const RowStart& row, u32 vertex, u32 root, u32 start,
                              u32 least) const {
        // The first few targets' parents, all loaded at once.
        u32 others[RowStart::few];
#pragma unroll
        for (u32 arc = 0; arc < RowStart::few; ++arc) {
            const u32 target = row.targets[arc];
            others[arc] = target < start && target != least ? parent_of(parents, target) : root;
        }
#pragma unroll
        for (u32 other : others) add_once(root, other);
        const Rest rest(rows, row, vertex);
        const u64 state = u64(row.is_long() ? vertex : start) << 32 | root;
        SpreadArcs<u64>(rest.first, rest.last, state).for_each([&](bool is_arc, u64 arc, u64 its) {
            const u32 target = is_arc ? rows.targets[arc] : ~0u;
            hook_once(target < u32(its >> 32), u32(its), target);
        });
    }

    // All arcs of a long row, and those after the first few of any other.
    __device__ void hook_others(const RowStart& row, u32 vertex) const {
        const Rest rest(rows, row, vertex);
        if (!__any_sync(~0u, rest.first < rest.last)) return;
        SpreadArcs<u32>(rest.first, rest.last, vertex).for_each([&](bool is_arc, u64 arc, u32 from) {
            const u32 target = is_arc ? rows.targets[arc] : ~0u;
            edges.add(target < from, from, target);
        });
    }
};

// Hooks along arcs that leave tiles of `range`. Lanes look at words far from each other, so
// that warps have equally much to do and go through the range together: then paths are short.
template <u32 threads>
__device__ void hook_leaving_arcs(const Rows& rows, const Span<u32>& parents, Range range,
                                  const Leaving& leaving, const Span<u64>& shared) {
    using Edges = WarpEdges<Span<u32>>;
    __shared__ Edge room[threads / 32 * Edges::most];
    Edges edges{parents, room + threadIdx.x / 32 * Edges::most};
    const SharedArcs<u32> shared_arcs{shared};
    const LeavingArcs arcs{rows, parents, edges};
    const u32 tile = leaving.tile();
    const u64 words = (u64(range.end) - range.start + 31) / 32;
    const u64 warps = threads_in_grid() / 32;
    for (u64 base = thread_in_grid() / 32; base < words; base += warps * 32) {
        const u64 own = base + lane() * warps;
        const u32 bits = own < words ? leaving.of(u32(own)) : 0;
        for (u32 left = __ballot_sync(~0u, bits != 0); left != 0; left &= left - 1) {
            const u32 whose = __ffs(left) - 1;
            const u32 place = u32(base + whose * warps) * 32;
            const bool is_row = __shfl_sync(~0u, bits, whose) >> lane() & 1;
            arcs.hook_rows(range.start + place + lane(), is_row, range.start + place / tile * tile);
        }
    }
    edges.hook_rest();
    shared_arcs.for_each([&](u64 first, u64 last, u32 from) {
        for (u64 arc = first + lane(); arc < last; arc += 32)
            if (rows.targets[arc] < from) hook(parents, from, rows.targets[arc]);
    });
}

}  // namespace millstream
