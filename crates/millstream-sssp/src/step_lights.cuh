// How many arcs of each row are lighter than one, two, three and four quarters of a step.
// Rows are in ascending order of weight.

namespace millstream {

// The first of a row's arcs, from `low` on, that weighs at least `weight`.
__device__ u64 lighter(Span<const StepRule::Weight> weights, u64 low, u64 high,
                       StepRule::Weight weight) {
    while (low < high) {
        const u64 middle = (low + high) / 2;
        if (weights[middle] < weight) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

extern "C" __global__ void lights(Span<const u64> offsets, Span<const StepRule::Weight> weights,
                                  Span<u32> lights, u32 delta) {
    const StepRule::Weight step = StepRule::weight(delta);
    for (u64 row = thread_in_grid(); row < lights.len / StepQuarters::count;
         row += threads_in_grid()) {
        u64 arc = offsets[row];
        for (u32 quarter = 0; quarter < StepQuarters::count; ++quarter) {
            arc = lighter(weights, arc, offsets[row + 1], StepQuarters::end(step, quarter));
            lights[row * StepQuarters::count + quarter] = u32(arc - offsets[row]);
        }
    }
}

}  // namespace millstream
