//! Reductions and broadcasts of long vectors between peers, along a chain of ranks:
//! `ChainSettings` of `collective_chain.cuh`.

use bytemuck::{Pod, Zeroable};

use super::channel_settings::{ChannelSettings, Channels};
use super::plan::Pattern;
use super::rank_settings::RankSettings;

/// A collective that goes along a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    /// The last rank; the first one is next to it.
    pub(super) last: usize,
    /// Whether the last rank gets the items of all ranks, combined; otherwise all ranks get the
    /// items of the first one.
    pub(super) combines: bool,
    pub(super) items: usize,
}

impl Chain {
    /// A reduction, which ends at its root, or a broadcast, which begins there; `None` for other patterns.
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

millstream_device::cuda_struct! {
    /// `ChainSettings` of the header.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
    pub(super) struct ChainSettings as "millstream::ChainSettings" {
        common: RankSettings,
        channels: ChannelSettings,
        len: u64,
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
        ChainSettings {
            common,
            channels: channels.cut(items, item, 1),
            len: items as u64,
            last: last as u32,
            in_place: in_place.into(),
            combines: combines.into(),
            unused: 0,
        }
    }

    /// The most blocks of a kernel.
    pub(super) fn blocks(&self) -> usize {
        self.channels.blocks(self.len)
    }
}
