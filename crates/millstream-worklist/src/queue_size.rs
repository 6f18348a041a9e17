//! How many entries queues have.

/// The most entries of a queue: the largest power of two that 32 bits can count.
const MOST_ENTRIES: usize = 1 << 31;

/// Entries that queues on GPUs have beyond those for items: one for each thread.
pub(crate) const SPARE_ENTRIES: usize = 1 << 19;

/// How large the queues of a device are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueSize {
    /// The number of items of the worklist.
    pub(crate) items: usize,
    /// The most items that a queue may hold at once.
    pub(crate) most: usize,
    /// Entries of each queue, to be rounded up to a power of two that can be indexed.
    pub(crate) entries: usize,
}

/// The most items of a fused run: its queues can have an entry for each.
pub(crate) const MOST_FUSED_ITEMS: usize = MOST_ENTRIES - SPARE_ENTRIES;

/// Entries that a queue of the fused worker needs for `most` of the items at once. With a threshold,
/// an item that is deferred again leaves its old entry behind.
pub(crate) fn fused_entries(items: usize, most: usize, delta: Option<u32>) -> usize {
    let left = if delta.is_some() { most } else { 0 };
    items.min(most + left)
}

/// The entries that a queue gets that should have at least `least`. A queue with fewer entries than items
/// may be swept.
pub(crate) fn ring_entries(least: usize) -> usize {
    least.clamp(1, MOST_ENTRIES).next_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_have_no_more_entries_than_can_be_indexed() {
        for (least, entries) in [
            (0, 1),
            (1024, 1024),
            (1025, 2048),
            (MOST_FUSED_ITEMS + SPARE_ENTRIES, MOST_ENTRIES),
            (MOST_ENTRIES + 1, MOST_ENTRIES),
            (u32::MAX as usize - 1 + SPARE_ENTRIES, MOST_ENTRIES),
        ] {
            assert_eq!(ring_entries(least), entries, "{least}");
        }
    }

    #[test]
    fn queues_of_the_fused_worker_shrink_with_what_a_device_owns() {
        let items = 1 << 25;
        let entries = |devices: usize, delta| {
            ring_entries(fused_entries(items, items / devices, delta) + SPARE_ENTRIES)
        };
        assert_eq!(
            [1, 2, 4, 8].map(|devices| entries(devices, None)),
            [26, 25, 24, 23].map(|it| 1 << it)
        );
        assert_eq!(
            [1, 2, 4, 8].map(|devices| entries(devices, Some(1))),
            [26, 26, 25, 24].map(|it| 1 << it)
        );
    }
}
