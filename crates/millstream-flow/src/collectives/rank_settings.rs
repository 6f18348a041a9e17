//! The settings that every kernel of a collective gets: `RankSettings` of `collective_ranks.cuh`.

use bytemuck::{Pod, Zeroable};

/// The most ranks: devices of one GPU have a stream each.
pub(super) const MOST_RANKS: usize = 8;

/// The most blocks of all kernels of a GPU together: all of them must run at once, one a
/// multiprocessor (`most_pass_blocks` of the header).
pub(super) const MOST_BLOCKS: usize = 128;

/// The same where several devices share a GPU. Their kernels wait for each other, so all must fit
/// at once: as many blocks as any GPU that such programs run on has multiprocessors.
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
