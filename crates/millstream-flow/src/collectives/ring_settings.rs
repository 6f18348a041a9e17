//! All-reduces, reduce-scatters and all-gathers of long vectors between peers, round a ring of
//! ranks: `RingSettings` of `collective_ring.cuh`.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::channel_settings::{ChannelSettings, Channels};
use super::pass_settings::aligned_part;
use super::plan::Pattern;
use super::rank_settings::{MOST_RANKS, RankSettings};

/// `Ring::together` of the header.
const TOGETHER: usize = 2;

/// Bytes that threads move at once.
const VECTOR_BYTES: usize = 16;

millstream_device::cuda_struct! {
    /// `RingPart` of the header.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
    pub(super) struct RingPart as "millstream::RingPart" {
        /// Where it begins in inputs.
        pub(super) source: u64,
        /// In outputs.
        pub(super) target: u64,
        pub(super) len: u64,
    }
}

/// A collective that goes round a ring: in step `s` rank `r` has to do with the part of rank
/// `r - 1 - s`, which is its own in step `ranks - 1`. It sends in all steps but the last one and
/// receives in all but the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ring {
    pub(super) parts: [RingPart; MOST_RANKS],
    pub(super) first: usize,
    pub(super) last: usize,
}

impl Ring {
    /// Of items of `item` bytes; no other collectives.
    pub(super) fn of(pattern: &Pattern, ranks: usize, in_place: bool, item: usize) -> Option<Ring> {
        let own = ranks - 1;
        let (first, last) = match pattern {
            Pattern::AllReduce { .. } => (0, 2 * own),
            Pattern::ReduceScatter { .. } => (0, own),
            Pattern::AllGather { .. } => (own, 2 * own),
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
                Pattern::AllGather { parts } => {
                    let part = &parts[rank];
                    RingPart::new(part, if in_place { part.start } else { 0 }, part.start)
                }
                _ => return None,
            };
        }
        Some(Ring { parts, first, last })
    }

    /// Whether threads move 16 bytes at once, wherever buffers begin at multiples of these. A pass
    /// does so, too, where all parts lie alike.
    pub(super) fn is_aligned(&self, item: usize) -> bool {
        let is_aligned = |at: u64| (at as usize * item).is_multiple_of(VECTOR_BYTES);
        VECTOR_BYTES.is_multiple_of(item)
            && self.parts.iter().all(|part| is_aligned(part.source) && is_aligned(part.target))
    }

    /// Of all parts.
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
        longest: u64,
        first: u32,
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
        RingSettings {
            common,
            channels: channels.cut(longest as usize, item, TOGETHER),
            parts: ring.parts,
            longest,
            first: ring.first as u32,
            last: ring.last as u32,
            in_place: in_place.into(),
            unused: 0,
        }
    }

    /// Blocks of a kernel at most.
    pub(super) fn blocks(&self) -> usize {
        self.channels.blocks(self.longest)
    }
}
