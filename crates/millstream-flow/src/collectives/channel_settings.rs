//! Channels of tiles between peers: how a vector is cut up for them, and the memory that they are
//! in, `ChannelSettings` of `collective_channel.cuh`.

use bytemuck::{Pod, Zeroable};

/// Of a slot, and of a tile but in short vectors. Four of them for each of 256 channels are
/// 16 MiB a rank.
const SLOT_BYTES: usize = 16 << 10;

/// Slots of a channel: a power of two.
pub(super) const SLOTS: usize = 4;

/// `channel_words` of the header.
const CHANNEL_WORDS: usize = 32;

const WORD_BYTES: usize = 8;

/// Through channels go up to twice as many blocks, two a multiprocessor: one works while the other
/// waits until its stores are there.
const MOST_SHARE: usize = 2;

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

    /// Those that so many items of `item` bytes go through, `together` tiles of which or more are to
    /// be under way at once, and how they are cut up. Blocks that share a multiprocessor delay each
    /// other, which is worth it for whole slots only.
    pub(super) fn cut(&self, items: usize, item: usize, together: usize) -> ChannelSettings {
        let used = (items * item).div_ceil(SLOT_BYTES).clamp(self.blocks, self.count());
        ChannelSettings {
            first: self.first as u64,
            first_slot: self.first_slot() as u64,
            count: used as u32,
            slots: SLOTS as u32,
            slot_words: (SLOT_BYTES / WORD_BYTES) as u32,
            tile: tile(items, item, together * used) as u32,
        }
    }
}

millstream_device::cuda_struct! {
    /// `ChannelSettings` of the header.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
    pub(super) struct ChannelSettings as "millstream::ChannelSettings" {
        first: u64,
        first_slot: u64,
        pub(super) count: u32,
        slots: u32,
        slot_words: u32,
        tile: u32,
    }
}

impl ChannelSettings {
    /// Of so many items.
    pub(super) fn tiles(&self, items: u64) -> u64 {
        items.div_ceil(self.tile.into())
    }

    /// Blocks of a kernel at most, for so many items: one for each channel that has a tile.
    pub(super) fn blocks(&self, items: u64) -> usize {
        self.tiles(items).min(self.count.into()) as usize
    }
}

/// Whether items of so many bytes go in tiles.
pub(super) fn fits(item: usize) -> bool {
    (1..=SLOT_BYTES).contains(&item)
}

/// Items of a tile, so many of which make them up: whole vectors of 16 bytes, where items fill
/// these.
fn tile(len: usize, item: usize, tiles: usize) -> usize {
    let share = (len * item).div_ceil(tiles);
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
            let settings = channels.cut(len, 4, 1);
            let found = (settings.count, settings.tile, settings.blocks(len as u64));
            assert_eq!(found, (count, tile, blocks), "{len}");
            // In the same places, whatever a vector's length.
            assert_eq!((settings.first, settings.first_slot), (1008, 1008 + 256 * 32));
        }
        assert_eq!(channels.end(), 1008 + 256 * (32 + 4 * 2048));
    }

    /// Each channel has two tiles under way, as soon as they have 16 bytes.
    #[test]
    fn tiles_are_smaller_where_two_are_under_way() {
        let channels = Channels::new(1000, 128);
        for (len, count, tile) in
            [(1, 128, 4), (1 << 18, 128, 1024), (1 << 20, 256, 2048), (1 << 22, 256, 4096)]
        {
            let settings = channels.cut(len, 4, 2);
            assert_eq!((settings.count, settings.tile), (count, tile), "{len}");
        }
    }
}
