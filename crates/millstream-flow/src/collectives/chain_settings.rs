//! Reductions and broadcasts of long vectors between peers, along a chain of ranks: how they are
//! cut into tiles, and the memory these go through, `ChainSettings` of `collective_chain.cuh`.

use bytemuck::{Pod, Zeroable};

use super::plan::Pattern;
use super::rank_settings::RankSettings;

/// Of a slot, and of a tile but in short vectors. Four of them for each of 256 channels are
/// 16 MiB a rank.
const SLOT_BYTES: usize = 16 << 10;

/// Slots of a channel: a power of two.
const SLOTS: usize = 4;

/// `channel_words` of the header.
const CHANNEL_WORDS: usize = 32;

const WORD_BYTES: usize = 8;

/// Of a chain there are up to twice as many blocks, two a multiprocessor: one works while the other
/// waits until its stores are there.
const MOST_SHARE: usize = 2;

/// A collective that goes along a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    /// The last rank; the first one is next to it.
    pub(super) last: usize,
    /// The last one gets the items of all, combined; otherwise all get the first one's.
    pub(super) combines: bool,
    pub(super) items: usize,
}

impl Chain {
    /// A reduction, which ends at its root, or a broadcast, which begins there; no others.
    pub(super) fn of(pattern: &Pattern, ranks: usize) -> Option<Chain> {
        match pattern {
            Pattern::Reduce { root, items } => {
                Some(Chain { last: *root, combines: true, items: items.len() })
            }
            Pattern::Broadcast { root, items } => {
                let last = (root + ranks - 1) % ranks;
                Some(Chain { last, combines: false, items: items.len() })
            }
            _ => None,
        }
    }
}

/// Where the channels of all ranks are, one for each block of a kernel at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Channels {
    /// The word that they begin at.
    first: usize,
    /// Of a kernel that has a block a multiprocessor.
    blocks: usize,
}

impl Channels {
    /// For kernels of so many blocks, where each has a multiprocessor, behind so many words.
    pub(super) fn new(words: usize, blocks: usize) -> Channels {
        // A cache line for the words of either end.
        let first = words.checked_next_multiple_of(CHANNEL_WORDS / 2).unwrap_or(usize::MAX);
        Channels { first, blocks }
    }

    fn count(&self) -> usize {
        MOST_SHARE * self.blocks
    }

    /// The word that their slots begin at.
    fn first_slot(&self) -> usize {
        self.first.saturating_add(self.count() * CHANNEL_WORDS)
    }

    /// The word behind them.
    pub(super) fn end(&self) -> usize {
        let slots = self.count() * SLOTS * SLOT_BYTES / WORD_BYTES;
        self.first_slot().saturating_add(slots)
    }

    /// Those that a vector of so many bytes goes through. Blocks that share a multiprocessor delay
    /// each other, which is worth it for whole slots only.
    fn used(&self, bytes: usize) -> usize {
        bytes.div_ceil(SLOT_BYTES).clamp(self.blocks, self.count())
    }
}

millstream_device::cuda_struct! {
    /// `ChainSettings` of the header.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
    pub(super) struct ChainSettings as "millstream::ChainSettings" {
        common: RankSettings,
        len: u64,
        channels: u64,
        first_slot: u64,
        count: u32,
        slots: u32,
        slot_words: u32,
        pub(super) tile: u32,
        last: u32,
        in_place: u32,
        combines: u32,
        unused: u32,
    }
}

impl ChainSettings {
    /// For items of `item` bytes each.
    pub(super) fn new(
        common: RankSettings,
        channels: Channels,
        Chain { last, combines, items }: Chain,
        item: usize,
        in_place: bool,
    ) -> ChainSettings {
        let used = channels.used(items * item);
        ChainSettings {
            common,
            len: items as u64,
            channels: channels.first as u64,
            first_slot: channels.first_slot() as u64,
            count: used as u32,
            slots: SLOTS as u32,
            slot_words: (SLOT_BYTES / WORD_BYTES) as u32,
            tile: tile(items, item, used) as u32,
            last: last as u32,
            in_place: in_place.into(),
            combines: combines.into(),
            unused: 0,
        }
    }

    /// Blocks of a kernel at most: one for each channel that has a tile.
    pub(super) fn blocks(&self) -> usize {
        (self.len as usize).div_ceil(self.tile as usize).min(self.count as usize)
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

    /// One block a multiprocessor, while its tile is no larger than a slot; then as many as have
    /// whole ones.
    #[test]
    fn short_vectors_go_through_fewer_channels() {
        let channels = Channels::new(1000, 128);
        let common = RankSettings::zeroed();
        let settings = |items| {
            let chain = Chain { last: 0, combines: true, items };
            ChainSettings::new(common, channels, chain, 4, true)
        };
        for (len, count, tile, blocks) in [
            (0, 128, 1, 0),
            (1, 128, 4, 1),
            (1000, 128, 8, 125),
            (1 << 18, 128, 2048, 128),
            (1 << 19, 128, 4096, 128),
            (129 << 12, 129, 4096, 129),
            ((1 << 19) + 1, 129, 4068, 129),
            (200 * 4096, 200, 4096, 200),
            (1 << 20, 256, 4096, 256),
            (1 << 28, 256, 4096, 256),
        ] {
            let settings = settings(len);
            let found = (settings.count, settings.tile, settings.blocks());
            assert_eq!(found, (count, tile, blocks), "{len}");
            // In the same places, whatever a vector's length.
            assert_eq!((settings.channels, settings.first_slot), (1008, 1008 + 256 * 32));
        }
        assert_eq!(channels.end(), 1008 + 256 * (32 + 4 * 2048));
    }
}
