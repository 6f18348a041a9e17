//! What every kernel of a collective is told: `RankSettings` of `collective_ranks.cuh`.

use bytemuck::{Pod, Zeroable};

/// Ranks at most: devices of one GPU have a stream each.
pub(super) const MOST_RANKS: usize = 8;

/// Blocks of all kernels of a GPU: they must all run at once, one a multiprocessor. The header's
/// `most_pass_blocks`.
pub(super) const MOST_BLOCKS: usize = 128;

/// The same of all devices that share a GPU. They wait for each other, so they all must fit at once: as
/// many as any GPU that such programs run on has multiprocessors.
pub(super) const MOST_SHARED_BLOCKS: usize = 64;

/// Words of each rank's memory before lines: `rank_words` of the header.
pub(super) const RANK_WORDS: usize = (2 + MOST_BLOCKS) * MOST_RANKS;

/// Threads of a block: `rank_threads` of the header.
pub(super) const THREADS: usize = 512;

millstream_device::cuda_struct! {
    /// `RankSettings` of the header.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
    pub(super) struct RankSettings as "millstream::RankSettings" {
        /// Number of the collective, from 1 on.
        pub(super) epoch: u64,
        pub(super) patience_ns: u64,
        pub(super) rank: u32,
        pub(super) ranks: u32,
    }
}
