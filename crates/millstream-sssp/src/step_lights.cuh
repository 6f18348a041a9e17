// How many arcs of each row are lighter than a step. Rows are in ascending order of weight.

namespace millstream {

extern "C" __global__ void lights(Span<const u64> offsets, Span<const StepRule::Weight> weights,
                                  Span<u32> lights, u32 delta) {
    const StepRule::Weight step = StepRule::weight(delta);
    for (u64 row = thread_in_grid(); row < lights.len; row += threads_in_grid()) {
        u64 low = offsets[row];
        u64 high = offsets[row + 1];
        while (low < high) {
            const u64 middle = (low + high) / 2;
            if (weights[middle] < step) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        lights[row] = u32(low - offsets[row]);
    }
}

}  // namespace millstream
