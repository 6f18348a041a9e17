// Quarters of a step, by which the light arcs of a row are counted.

namespace millstream {

struct StepQuarters {
    static constexpr u32 count = 4;

    // The first weight beyond a quarter.
    __device__ static StepRule::Weight end(StepRule::Weight delta, u32 quarter) {
        return StepRule::part_of(delta, quarter + 1, count);
    }
};

}  // namespace millstream
