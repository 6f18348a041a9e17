//! Channels of tiles between peers: how a vector is cut up for them, and where in memory they are
//! (`ChannelSettings` of `collective_channel.cuh`).

use bytemuck::{Pod, Zeroable};

/// Bytes of a slot, and, except in short vectors, of a tile. Four slots for each of 256 channels
/// are 16 MiB a rank.
const SLOT_BYTES: usize = 16 << 10;

/// Slots of a channel: a power of two.
pub(super) const SLOTS: usize = 4;

/// `channel_words` of the header.
const CHANNEL_WORDS: usize = 32;

const WORD_BYTES: usize = 8;

/// Kernels that use channels have up to twice as many blocks, two a multiprocessor: one works while
/// the other waits until its stores are there.
const MOST_SHARE: usize = 2;

/// Where the channels of a rank are, one for each block that a kernel may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Channels {
    /// The word at which the channels begin.
    first: usize,
    /// The blocks of a kernel with one block a multiprocessor.
    blocks: usize,
}

impl Channels {
    /// Channels for kernels of `blocks` blocks, if each has a multiprocessor, behind the first `words` words.
    pub(super) fn new(words: usize, blocks: usize) -> Channels {
        // The words of either end have a cache line of their own.
        let first = words.checked_next_multiple_of(CHANNEL_WORDS / 2).unwrap_or(usize::MAX);
        Channels { first, blocks }
    }

    fn count(&self) -> usize {
        MOST_SHARE * self.blocks
    }

    /// The word at which the slots begin.
    fn first_slot(&self) -> usize {
        self.first.saturating_add(self.count() * CHANNEL_WORDS)
    }

    /// The first word behind the slots.
    pub(super) fn end(&self) -> usize {
        let slots = self.count() * SLOTS * SLOT_BYTES / WORD_BYTES;
        self.first_slot().saturating_add(slots)
    }

    /// How many channels `items` items of `item` bytes go through, and how they are cut into tiles,
    /// of which each channel can have `together` or more under way at once. Blocks that share a
    /// multiprocessor delay each other, which is worth it for whole slots only.
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
    /// The number of tiles of `items` items.
    pub(super) fn tiles(&self, items: u64) -> u64 {
        items.div_ceil(self.tile.into())
    }

    /// The most blocks of a kernel for `items` items: one for each channel that has a tile.
    pub(super) fn blocks(&self, items: u64) -> usize {
        self.tiles(items).min(self.count.into()) as usize
    }
}

/// Whether items of this size can go in tiles.
pub(super) fn fits(item: usize) -> bool {
    (1..=SLOT_BYTES).contains(&item)
}

/// The items of a tile if `tiles` tiles make up the vector: whole vectors of 16 bytes, if whole
/// items fill them.
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

    /// One block a multiprocessor as long as its tile is no larger than a slot; then as many as
    /// have whole tiles.
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
            // Channels are in the same places, whatever a vector's length.
            assert_eq!((settings.first, settings.first_slot), (1008, 1008 + 256 * 32));
        }
        assert_eq!(channels.end(), 1008 + 256 * (32 + 4 * 2048));
    }

    /// Each channel has two tiles under way as soon as tiles have 16 bytes.
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
