//! All-reduces and reduce-scatters of long vectors between peers, round a ring of ranks:
//! `RingSettings` of `collective_ring.cuh`. (An all-gather has nothing to combine; in one pass,
//! too, it only stores.)

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::channel_settings::{ChannelSettings, Channels, SLOTS};
use super::pass_settings::aligned_part;
use super::plan::Pattern;
use super::rank_settings::{MOST_RANKS, RankSettings};

/// `Ring::together` of the header. If a channel had no more slots than this, all ranks would wait for room.
const TOGETHER: usize = 2;

const _: () = assert!(TOGETHER < SLOTS);

/// Bytes that threads move at once.
const VECTOR_BYTES: usize = 16;

millstream_device::cuda_struct! {
    /// `RingPart` of the header.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
    pub(super) struct RingPart as "millstream::RingPart" {
        /// Where the part begins in inputs.
        pub(super) source: u64,
        /// Where it begins in outputs.
        pub(super) target: u64,
        pub(super) len: u64,
    }
}

/// A collective that goes round a ring. In step `s`, rank `r` handles the part of rank `r - 1 - s`,
/// which is its own part in step `ranks - 1`. It sends in all steps but the last, and receives in
/// all but the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ring {
    pub(super) parts: [RingPart; MOST_RANKS],
    pub(super) last: usize,
}

impl Ring {
    /// The ring of a collective of items of `item` bytes; `None` for patterns that do not go round a ring.
    pub(super) fn of(pattern: &Pattern, ranks: usize, in_place: bool, item: usize) -> Option<Ring> {
        let own = ranks - 1;
        let last = match pattern {
            Pattern::AllReduce { .. } => 2 * own,
            Pattern::ReduceScatter { .. } => own,
            _ => return None,
        };
        let mut parts = [RingPart::default(); MOST_RANKS];
        for (rank, ring_part) in parts[..ranks].iter_mut().enumerate() {
            *ring_part = match pattern {
                Pattern::AllReduce { items } => {
                    let part = aligned_part(items, ranks, rank, item);
                    RingPart::new(&part, part.start, part.start)
                }
                Pattern::ReduceScatter { parts } => {
                    let part = &parts[rank];
                    RingPart::new(part, part.start, if in_place { part.start } else { 0 })
                }
                _ => return None,
            };
        }
        Some(Ring { parts, last })
    }

    /// Whether threads move 16 bytes at once, if buffers begin at multiples of 16 bytes. A pass
    /// does so, too, if all parts are aligned alike.
    pub(super) fn is_aligned(&self, item: usize) -> bool {
        let is_aligned = |at: u64| (at as usize * item).is_multiple_of(VECTOR_BYTES);
        let mut parts = self.parts.iter().filter(|part| part.len > 0);
        VECTOR_BYTES.is_multiple_of(item)
            && parts.all(|part| is_aligned(part.source) && is_aligned(part.target))
    }

    /// Items of all parts together.
    pub(super) fn items(&self) -> usize {
        self.parts.iter().map(|part| part.len as usize).sum()
    }

    /// Items of the longest part.
    pub(super) fn longest(&self) -> u64 {
        self.parts.iter().map(|part| part.len).max().unwrap_or(0)
    }
}

impl RingPart {
    fn new(part: &Range<usize>, source: usize, target: usize) -> RingPart {
        RingPart { source: source as u64, target: target as u64, len: part.len() as u64 }
    }
}

millstream_device::cuda_struct! {
    /// `RingSettings` of the header.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
    pub(super) struct RingSettings as "millstream::RingSettings" {
        common: RankSettings,
        channels: ChannelSettings,
        parts: [RingPart; MOST_RANKS],
        tiles: u32,
        last: u32,
        in_place: u32,
        unused: u32,
    }
}

impl RingSettings {
    /// For items of `item` bytes each.
    pub(super) fn new(
        common: RankSettings,
        channels: Channels,
        ring: &Ring,
        item: usize,
        in_place: bool,
    ) -> RingSettings {
        let longest = ring.longest();
        let channels = channels.cut(longest as usize, item, TOGETHER);
        RingSettings {
            common,
            channels,
            parts: ring.parts,
            // Tiles of 16 KiB, or only a few tiles.
            tiles: channels.tiles(longest) as u32,
            last: ring.last as u32,
            in_place: in_place.into(),
            unused: 0,
        }
    }

    /// The most blocks of a kernel.
    pub(super) fn blocks(&self) -> usize {
        self.tiles.min(self.channels.count) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segmenter;

    fn aligned(pattern: &Pattern, in_place: bool, item: usize) -> bool {
        Ring::of(pattern, 4, in_place, item).expect("a ring").is_aligned(item)
    }

    /// Empty parts, which begin where the vector ends, do not matter.
    #[test]
    fn all_reduces_are_aligned_where_items_fill_16_bytes() {
        for len in [0, 1, 3, 5, 16, 1003] {
            let pattern = Pattern::AllReduce { items: 0..len };
            for (item, expected) in [(1, true), (4, true), (16, true), (3, false), (72, false)] {
                assert_eq!(aligned(&pattern, true, item), expected, "{len} of {item}");
            }
        }
    }

    #[test]
    fn reduce_scatters_are_aligned_where_parts_are() {
        let scatter = |len| Pattern::ReduceScatter { parts: segmenter::parts(len, 4).collect() };
        for (len, item, expected) in [(16, 4, true), (12, 4, false), (17, 4, false), (8, 8, true)] {
            for in_place in [true, false] {
                assert_eq!(aligned(&scatter(len), in_place, item), expected, "{len} of {item}");
            }
        }
    }

    #[test]
    fn tiles_of_the_longest_part() {
        let channels = Channels::new(1000, 2);
        let settings = |len| {
            let pattern = Pattern::AllReduce { items: 0..len };
            let ring = Ring::of(&pattern, 4, true, 4).expect("a ring");
            RingSettings::new(RankSettings::zeroed(), channels, &ring, 4, true)
        };
        let of = |len| (settings(len).tiles, settings(len).blocks());
        // With two channels, and with four.
        assert_eq!([0, 1, 48, 4 * 5 * 8192].map(of), [(0, 0), (1, 1), (3, 2), (10, 4)]);
    }
}
