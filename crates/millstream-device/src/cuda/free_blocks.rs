//! Free blocks of memory, and the sizes that blocks come in.

use std::collections::BTreeMap;

const SMALLEST: usize = 512;
const LARGE: usize = 1 << 20;
const PAGE: usize = 2 << 20;

/// Free blocks, by size.
#[derive(Debug, Default)]
pub(super) struct FreeBlocks {
    blocks: BTreeMap<usize, Vec<u64>>,
}

impl FreeBlocks {
    pub(super) fn take(&mut self, bytes: usize) -> Option<u64> {
        self.blocks.get_mut(&bytes)?.pop()
    }

    /// Takes all blocks of at most `most` bytes, with their sizes.
    pub(super) fn take_up_to(&mut self, most: usize) -> Vec<(usize, u64)> {
        let up_to_most = self.blocks.range_mut(..=most);
        up_to_most
            .flat_map(|(&bytes, blocks)| blocks.drain(..).map(move |at| (bytes, at)))
            .collect()
    }

    /// Takes one of the smallest blocks of more than [`LARGE`] bytes, with its size. Smaller ones
    /// add up to little.
    pub(super) fn take_smallest_large(&mut self) -> Option<(usize, u64)> {
        self.blocks.range_mut(LARGE + 1..).find_map(|(&bytes, at)| Some((bytes, at.pop()?)))
    }

    pub(super) fn put(&mut self, bytes: usize, address: u64) {
        self.blocks.entry(bytes).or_default().push(address);
    }

    pub(super) fn take_all(&mut self) -> impl Iterator<Item = u64> + use<> {
        std::mem::take(&mut self.blocks).into_values().flatten()
    }
}

pub(super) fn is_exact() -> bool {
    std::env::var_os("MILLSTREAM_EXACT_ALLOCATIONS").is_some_and(|value| value == "1")
}

/// The size of a block for this many bytes.
pub(super) fn rounded(bytes: usize, exact: bool) -> usize {
    match bytes.max(1) {
        bytes if exact => bytes,
        bytes if bytes <= LARGE => bytes.next_power_of_two().max(SMALLEST),
        bytes => bytes.next_multiple_of(PAGE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_in_few_sizes() {
        let sizes = [0, 1, 512, 513, LARGE, LARGE + 1, 5 << 20];
        let expected = [512, 512, 512, 1024, LARGE, PAGE, 6 << 20];
        assert_eq!(sizes.map(|bytes| rounded(bytes, false)), expected);
        assert_eq!([0, 3, LARGE + 1].map(|bytes| rounded(bytes, true)), [1, 3, LARGE + 1]);
    }

    #[test]
    fn free_blocks_are_used_again() {
        let mut free = FreeBlocks::default();
        free.put(512, 1);
        free.put(1024, 2);
        assert_eq!((free.take(2048), free.take(512), free.take(512)), (None, Some(1), None));
        free.put(4096, 3);
        assert_eq!(free.take_up_to(1024), [(1024, 2)]);
        free.put(2 * PAGE, 4);
        free.put(PAGE, 5);
        assert_eq!(free.take_smallest_large(), Some((PAGE, 5)));
        assert_eq!(free.take_all().collect::<Vec<_>>(), [3, 4]);
        assert_eq!(free.take_smallest_large(), None);
    }
}
