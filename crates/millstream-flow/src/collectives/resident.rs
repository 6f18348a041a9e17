//! Collectives that resident kernels call: `block_collectives.cuh`.

use std::time::Duration;

use bytemuck::{Pod, Zeroable};
use millstream_device::{SharedBuffer, patience_ns};

use super::block_lines;
use super::line_settings::LINE_BYTES;
use crate::context::Context;
use crate::patience::Patience;
use crate::{Error, Gang, Result};

/// The fewest lines from one rank to another, and the most lines of an item: `least_capacity` of the header.
pub(super) const LEAST_CAPACITY: usize = 32;

millstream_device::cuda_struct! {
    /// `BlockCollectiveSettings` of the header: the settings of a device's kernel.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
    pub(crate) struct BlockSettings as "millstream::BlockCollectiveSettings" {
        patience_ns: u64,
        capacity: u64,
        rank: u32,
        ranks: u32,
        channels: u32,
        unused: u32,
    }
}

impl BlockSettings {
    pub(super) fn rank(&self) -> usize {
        self.rank as usize
    }

    pub(super) fn ranks(&self) -> usize {
        self.ranks as usize
    }

    pub(super) fn blocks(&self) -> usize {
        self.channels as usize
    }

    /// Lines from one rank to another, for one collective.
    pub(super) fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// The word at which a block's lines begin, in every rank's memory.
    pub(super) fn first_line(&self, block: usize) -> usize {
        numbers(self.blocks()) + block * block_lines::words(self.ranks(), self.capacity())
    }
}

/// What resident kernels of all devices of a context need to call collectives
/// themselves, without the host: `BlockCollectives`, block by block, in CUDA
/// (`block_collectives.cuh`) and for the twins of host devices
/// ([`BlockCollectives`](crate::BlockCollectives)). Devices are ranks in the context's order.
///
/// Every call is direct: each rank writes to every other one, in lines; there is no ring and no
/// tree. So the kernels form a [`Gang`](crate::Gang), either of GPUs that are all peers or of host
/// devices that are all peers. Each kernel takes the collectives at its rank
/// ([`ResidentRank`](crate::ResidentRank)).
///
/// An item is sent in whole lines of 8 bytes, at most 32 of them. So it may have up to 256 bytes if
/// its size is a multiple of 8, 128 if a multiple of 4, 64 if a multiple of 2, and else 32, however
/// much room there is. A kernel with larger items does not compile, and its twin fails.
///
/// A kernel that waits for longer than its patience ends, and its gang fails with
/// [`Error::PeerIsLate`](crate::Error::PeerIsLate). If a gang failed or was stopped before its
/// kernels had left, this memory cannot be used again: kernels that call its collectives end at
/// once, and their gang fails with [`Error::CollectivesNotLeft`](crate::Error::CollectivesNotLeft).
/// Make new `ResidentCollectives` then.
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use std::time::Duration;
///
/// use millstream_device::{CudaSource, Kernel, Shared, Step, Trusted};
/// use millstream_flow::{Context, Devices, Gang, ResidentCollectives, ResidentRank};
///
/// const SOURCE: &str = r#"
///     #include "block_collectives.cuh"
///     using namespace millstream;
///     extern "C" __global__ void sums(
///         Span<u32> items, const __grid_constant__ ResidentCollectives resident) {
///         BlockCollectives collectives(resident);
///         const auto add = [](u32 one, u32 other) { return one + other; };
///         for (u32 round = 0; round < 10; ++round)
///             if (!collectives.all_reduce(items.items, items.items, items.len, add)) return;
///         collectives.leave();
///     }
/// "#;
///
/// static SUMS: Kernel<(Shared<u32>, ResidentRank)> = Kernel::of_steps(
///     "sums",
///     // SAFETY: its block reduces the items of its span, and leaves when a collective says so.
///     unsafe { Trusted::new(CudaSource::new("sums.cu", "sums", SOURCE).blocks(1)) },
///     |block, (items, rank)| {
///         let mut collectives = rank.block(block)?;
///         while collectives.completed() < 10 {
///             let vector: Vec<u32> =
///                 items.iter().map(|item| item.load(Ordering::Relaxed)).collect();
///             let Some(sums) = collectives.all_reduce(&vector, |one, other| one + other)? else {
///                 return Ok(Step::Waits);
///             };
///             items.iter().zip(sums).for_each(|(item, sum)| item.store(sum, Ordering::Relaxed));
///         }
///         collectives.leave();
///         Ok(Step::Done)
///     },
/// );
///
/// let context = Context::builder().devices(Devices::host(2)).build()?;
/// let items = [context.host().shared::<u32>(3)?, context.host().shared::<u32>(3)?];
/// (0..3).try_for_each(|at| items[1].store(at, 1 + at as u32))?;
/// let gang = Gang::new(&context)?;
/// gang.prepare(&SUMS)?;
/// let collectives = ResidentCollectives::new(&context, 1, 4096, Duration::from_secs(5))?;
/// let words = gang.words().clone();
/// let run = gang.run(|member| {
///     let arguments = (&items[member.place], (&collectives, &words, member.place));
///     Ok(SUMS.launch(member.stream, 1, arguments)?)
/// });
/// context.block_on(run)??;
/// // Doubled by each round after the first.
/// assert_eq!([items[0].load(0)?, items[1].load(2)?], [512, 3 * 512]);
/// # Ok::<(), millstream_flow::Error>(())
/// ```
#[derive(Debug)]
pub struct ResidentCollectives {
    pub(super) context: Context,
    pub(super) memory: Vec<SharedBuffer<u64>>,
    patience: Duration,
    settings: BlockSettings,
}

impl ResidentCollectives {
    /// Collectives for kernels of which up to `blocks` blocks call them, with room for `bytes` from
    /// one rank to another at a time; longer vectors are sent in several rounds. A kernel that has
    /// waited for another for `patience` ends. On simulated devices, where deadlocks are found, it
    /// waits without a limit.
    ///
    /// # Errors
    /// [`Error::NotAGang`] if the devices [cannot have them](ResidentCollectives::are_possible); no
    /// memory, of which they take four times `bytes` for each block and rank; a thread that cannot
    /// be started.
    pub fn new(
        context: &Context,
        blocks: usize,
        bytes: usize,
        patience: Duration,
    ) -> Result<ResidentCollectives> {
        let ranks = context.devices().len();
        if !ResidentCollectives::are_possible(context) {
            return Err(Error::NotAGang { devices: ranks });
        }
        context.watcher().prepare(context.device_set())?;
        let capacity = bytes.div_ceil(LINE_BYTES).max(LEAST_CAPACITY);
        let words = words(blocks, ranks, capacity);
        let memory = context.devices().iter().map(|device| {
            Ok(device.shared(words)?.with_label(format!("resident collectives of {device}")))
        });
        Ok(ResidentCollectives {
            context: context.clone(),
            memory: memory.collect::<Result<_>>()?,
            patience,
            settings: BlockSettings {
                patience_ns: patience_ns(patience),
                capacity: capacity as u64,
                rank: 0,
                ranks: ranks as u32,
                channels: blocks as u32,
                unused: 0,
            },
        })
    }

    /// Whether the devices of a context can have resident collectives. These are devices of a gang
    /// of kernels that wait inside a launch ([`Gang::is_possible`]), or up to [`Gang::MOST`] host
    /// devices that are all peers in the context's topology, whose twins wait in steps. GPUs and
    /// host devices together cannot.
    pub fn are_possible(context: &Context) -> bool {
        let are_twins = !context.any_gpu()
            && context.devices().len() <= Gang::MOST
            && context.topology().all_peers();
        are_twins || Gang::is_possible(context)
    }

    /// The settings of a rank's kernel.
    pub(super) fn settings(&self, rank: usize) -> BlockSettings {
        BlockSettings { rank: rank as u32, ..self.settings }
    }

    /// How long a twin waits.
    pub(super) fn patience(&self) -> Patience {
        Patience::new(&self.context, self.patience)
    }
}

/// The words before the lines: one number for each block, rounded up so that lines begin at
/// multiples of 16 bytes.
fn numbers(blocks: usize) -> usize {
    blocks.checked_next_multiple_of(2).unwrap_or(usize::MAX)
}

/// The words of a rank: one number for each block, then the lines of each block. If that cannot be
/// counted: so many that there is no such memory.
fn words(blocks: usize, ranks: usize, capacity: usize) -> usize {
    numbers(blocks).saturating_add(blocks.saturating_mul(block_lines::words(ranks, capacity)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_do_not_wrap() {
        assert_eq!(words(3, 2, 256), 4 + 3 * 2 * 2 * 256 * 2);
        for (blocks, ranks, capacity) in
            [(usize::MAX, 1, 256), (1, 2, usize::MAX / 4), (1 << 32, 8, 1 << 27)]
        {
            assert_eq!(words(blocks, ranks, capacity), usize::MAX, "{blocks} {ranks} {capacity}");
        }
    }
}
