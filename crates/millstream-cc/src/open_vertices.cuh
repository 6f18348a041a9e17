// Vertices that are no members yet, many at once: README, "Which arcs".

namespace millstream {

// A bit for each vertex, a complete copy on every device; empty if there is no
// search.
struct Members {
    const SpanSet<u32>& of;
    u32 here;
    u32 devices;

    __device__ bool are_any() const { return of[here].len > 0; }

    // The bits of 32 vertices. Bits are only ever added, and a stale word will do.
    __device__ u32 word(u64 at) const { return load_relaxed_cta(&of[here][at]); }

    __device__ bool has(u32 vertex) const {
        return are_any() && (word(vertex / 32) >> vertex % 32 & 1) != 0;
    }

    __device__ void store(u64 at, u32 bits) const {
        for (u32 device = 0; device < devices; ++device) store_relaxed_sys(&of[device][at], bits);
    }

    // Four words, from a multiple of four on. All lanes of a warp, one for each device: the number of
    // stores limits a link, more than their bytes.
    __device__ void store(u64 at, Quad quad) const {
        if (lane() < devices)
            store_relaxed_sys(reinterpret_cast<Quad*>(&of[lane()][at]), quad);
    }
};

// What a warp looks at together: vertices of some words that are no members. Those that are left
// to look at closely are put into a list in shared memory, so that all lanes have one.
class OpenVertices {
   public:
    static constexpr u32 words = 4;
    static constexpr u32 most = words * 32;

    __device__ OpenVertices(u32* list, const Span<u32>& hubs, u32 first_vertex,
                            const Members& members, Range range)
        : list(list), hubs(hubs), first_vertex(first_vertex), members(members), range(range) {}

    // Reads words from `first` on, and hubs of those of the range that are no members. All lanes
    // together, as below.
    __device__ void read(u64 first) {
        __syncwarp();
        count = 0;
#pragma unroll
        for (u32 at = 0; at < words; ++at)
            before[at] = (first + at) * 32 < range.end ? members.word(first + at) : 0;
#pragma unroll
        for (u32 at = 0; at < words; ++at) {
            const u64 vertex = (first + at) * 32 + lane();
            is_open[at] = range.has(vertex) && (before[at] >> lane() & 1) == 0;
            hub[at] = is_open[at] ? hubs[vertex - first_vertex] : 0;
            // A vertex that is its own hub has no neighbours.
            is_open[at] = is_open[at] && hub[at] != vertex;
        }
    }

    __device__ void add(bool is_left, u32 vertex) {
        const u32 left = __ballot_sync(~0u, is_left);
        if (is_left) list[count + __popc(left & ((1u << lane()) - 1))] = vertex;
        count += __popc(left);
    }

    // `use(is_vertex, vertex)` for all that were added.
    template <class Use>
    __device__ void for_each(Use use) const {
        __syncwarp();
        for (u32 first = 0; first < count; first += 32) {
            const bool is_vertex = first + lane() < count;
            use(is_vertex, is_vertex ? list[first + lane()] : 0);
        }
    }

    // For each word: its members, the hub of this lane's vertex in it, and whether that is open.
    u32 before[words];
    u32 hub[words];
    bool is_open[words];

   private:
    u32* const list;
    u32 count = 0;
    const Span<u32>& hubs;
    const u32 first_vertex;
    const Members& members;
    const Range range;
};

}  // namespace millstream
