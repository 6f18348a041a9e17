// Rows of arcs as the host sends them; the twin of `sent_rows.rs`, which has the layout.

namespace millstream {

struct SentRows {
    Span<const u32> words;

    __device__ u32 first_vertex() const { return words[0]; }
    __device__ u32 count() const { return words[1]; }
    __device__ u64 arcs() const { return words.len - 2 - count(); }
    __device__ u32 target(u64 arc) const { return words[2 + count() + arc]; }

    // The row of an arc, which is one from `low` to `high`: the first that ends behind the arc.
    __device__ u32 row_of(u64 arc, u32 low, u32 high) const {
        while (low < high) {
            const u32 middle = low + (high - low) / 2;
            if (words[2 + middle] <= arc) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }
};

// Calls `visit(vertex, target)` for each arc. A warp takes 32 consecutive arcs: all lanes look for the
// rows of the first and the last arc, and each lane for its own arc's row between these.
template <class Visit>
__device__ void for_each_sent_arc(const SentRows& rows, Visit visit) {
    const u64 arcs = rows.arcs();
    if (arcs == 0) return;
    const u32 last_row = rows.count() - 1;
    for (u64 first = thread_in_grid() - lane(); first < arcs; first += threads_in_grid()) {
        const u64 last = min(first + 32, arcs) - 1;
        const u32 low = rows.row_of(first, 0, last_row);
        const u32 high = rows.row_of(last, low, last_row);
        const u64 arc = first + lane();
        if (arc > last) continue;
        visit(rows.first_vertex() + rows.row_of(arc, low, high), rows.target(arc));
    }
}

}  // namespace millstream
