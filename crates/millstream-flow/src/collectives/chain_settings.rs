//! Reductions of long vectors between peers, along a chain of ranks: how they are cut into
//! tiles, and the memory these go through, `ChainSettings` of `collective_chain.cuh`.

use bytemuck::{Pod, Zeroable};

use super::rank_settings::RankSettings;

/// Of a slot, and of a tile but in short vectors. Four of them for each of 256 channels are
/// 16 MiB a rank.
const SLOT_BYTES: usize = 16 << 10;

/// Slots of a channel: a power of two.
const SLOTS: usize = 4;

/// `channel_words` of the header.
const CHANNEL_WORDS: usize = 32;

const WORD_BYTES: usize = 8;

/// Where the channels of all ranks are, one for each block of a kernel at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Channels {
    /// The word that they begin at.
    first: usize,
    pub(super) count: usize,
}

impl Channels {
    /// So many, behind so many words.
    pub(super) fn new(words: usize, count: usize) -> Channels {
        // A cache line for the words of either end.
        let first = words.checked_next_multiple_of(CHANNEL_WORDS / 2).unwrap_or(usize::MAX);
        Channels { first, count }
    }

    /// The word behind them.
    pub(super) fn end(&self) -> usize {
        let words = self.count * (CHANNEL_WORDS + SLOTS * SLOT_BYTES / WORD_BYTES);
        self.first.saturating_add(words)
    }
}

millstream_device::cuda_struct! {
    /// `ChainSettings` of the header.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
    pub(super) struct ChainSettings as "millstream::ChainSettings" {
        common: RankSettings,
        len: u64,
        channels: u64,
        count: u32,
        slots: u32,
        slot_words: u32,
        pub(super) tile: u32,
        root: u32,
        in_place: u32,
    }
}

impl ChainSettings {
    /// For a vector of `len` items of `item` bytes each.
    pub(super) fn new(
        common: RankSettings,
        channels: Channels,
        (len, item): (usize, usize),
        root: usize,
        in_place: bool,
    ) -> ChainSettings {
        ChainSettings {
            common,
            len: len as u64,
            channels: channels.first as u64,
            count: channels.count as u32,
            slots: SLOTS as u32,
            slot_words: (SLOT_BYTES / WORD_BYTES) as u32,
            tile: tile(len, item, channels.count) as u32,
            root: root as u32,
            in_place: in_place.into(),
        }
    }

    /// Tiles of the vector.
    pub(super) fn tiles(&self) -> usize {
        (self.len as usize).div_ceil(self.tile as usize)
    }
}

/// Whether items of so many bytes go in tiles.
pub(super) fn fits(item: usize) -> bool {
    (1..=SLOT_BYTES).contains(&item)
}

/// Items of a tile: whole vectors of 16 bytes, where items fill these.
fn tile(len: usize, item: usize, channels: usize) -> usize {
    let share = (len * item).div_ceil(channels);
    (share.next_multiple_of(16).min(SLOT_BYTES) / item).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_fit_in_slots() {
        for item in [1, 2, 3, 4, 8, 12, 16, 72, 10_000, SLOT_BYTES] {
            for len in [1, 2, 1000, 70_001, 1 << 22, 1 << 28] {
                let tile = tile(len, item, 256);
                assert!(tile > 0 && tile * item <= SLOT_BYTES, "{len} of {item}");
                assert!(16 % item != 0 || (tile * item).is_multiple_of(16), "{len} of {item}");
            }
        }
        assert_eq!([14, 20, 24, 28].map(|bits| tile(1 << bits, 4, 256)), [64, 4096, 4096, 4096]);
    }
}
