//! Collectives that resident kernels call: `block_collectives.cuh`.

use std::time::Duration;

use bytemuck::{Pod, Zeroable};
use millstream_device::SharedBuffer;

use super::line_settings::LINE_BYTES;
use crate::context::Context;
use crate::{Error, Gang, Result};

/// Lines from one rank to another at least: `least_capacity` of the header.
const LEAST_CAPACITY: usize = 32;

millstream_device::cuda_struct! {
    /// `BlockCollectiveSettings` of the header: what a device's kernel is told.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
    pub struct BlockSettings as "millstream::BlockCollectiveSettings" {
        patience_ns: u64,
        capacity: u64,
        rank: u32,
        ranks: u32,
        channels: u32,
        unused: u32,
    }
}

/// What resident kernels of all devices of a context need to call collectives
/// themselves, without the host: `BlockCollectives` of `block_collectives.cuh`, block by
/// block. Devices are ranks in the context's order.
///
/// The kernels are a [`Gang`](crate::Gang), which runs on GPUs that reach each other's
/// memory; on host devices there is no such thing, since their kernels never wait. After a
/// gang that failed or was stopped, when kernels have not left, collectives of this memory
/// return false at once: make it anew.
///
/// ```no_run
/// use std::time::Duration;
///
/// use millstream_device::{
///     CudaSource, Kernel, KernelFault, Shared, SharedBuffer, SharedSet, Trusted, Value,
/// };
/// use millstream_flow::{BlockSettings, Context, Gang, ResidentCollectives, Result};
///
/// type Signature = (Shared<u32>, SharedSet<u64>, Shared<u32>, Value<BlockSettings>);
///
/// static SUMS: Kernel<Signature> = Kernel::with_source(
///     "sums",
///     // SAFETY: blocks reduce the items of their span, and leave when a collective says so.
///     unsafe { Trusted::new(CudaSource::new("sums.cu", "sums", r#"
///         #include "block_collectives.cuh"
///         using namespace millstream;
///         extern "C" __global__ void sums(
///             Span<u32> items, const __grid_constant__ SpanSet<u64> memory, Span<u32> host,
///             BlockCollectiveSettings settings) {
///             BlockCollectives collectives(memory, host, settings);
///             const auto add = [](u32 one, u32 other) { return one + other; };
///             for (u32 round = 0; round < 100; ++round)
///                 if (!collectives.all_reduce(items.items, items.items, items.len, add)) return;
///             collectives.leave();
///         }
///     "#).blocks(1)) },
///     |_, _| Err(KernelFault::new("runs on GPUs only")),
/// );
///
/// async fn run(context: &Context, items: &[SharedBuffer<u32>]) -> Result<()> {
///     let gang = Gang::new(context)?;
///     let collectives = ResidentCollectives::new(context, 1, 4096, Duration::from_secs(5))?;
///     gang.prepare(&SUMS)?;
///     let words = gang.words().clone();
///     gang.run(|member| {
///         let (memory, settings) = (collectives.memory(), collectives.settings(member.place));
///         let arguments = (&items[member.place], &memory[..], &words, settings);
///         Ok(SUMS.launch(member.stream, member.sharers, arguments)?)
///     })
///     .await?;
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct ResidentCollectives {
    memory: Vec<SharedBuffer<u64>>,
    settings: BlockSettings,
}

impl ResidentCollectives {
    /// For kernels of up to `blocks` blocks that call, and up to `bytes` from one rank to
    /// another at a time: longer vectors go in several. A kernel that has waited for
    /// another for `patience` ends.
    ///
    /// # Errors
    /// Devices that [cannot run a gang](Gang::is_possible); no memory: four times `bytes` for each
    /// block and rank.
    pub fn new(
        context: &Context,
        blocks: usize,
        bytes: usize,
        patience: Duration,
    ) -> Result<ResidentCollectives> {
        let ranks = context.devices().len();
        if !Gang::is_possible(context) {
            return Err(Error::NotAGang { devices: ranks });
        }
        let capacity = bytes.div_ceil(LINE_BYTES).max(LEAST_CAPACITY);
        let words = words(blocks, ranks, capacity);
        let memory = context.devices().iter().map(|device| {
            Ok(device.shared(words)?.with_label(format!("resident collectives of {device}")))
        });
        Ok(ResidentCollectives {
            memory: memory.collect::<Result<_>>()?,
            settings: BlockSettings {
                patience_ns: u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX),
                capacity: capacity as u64,
                rank: 0,
                ranks: ranks as u32,
                channels: blocks as u32,
                unused: 0,
            },
        })
    }

    /// Memory of all devices, which every kernel takes.
    pub fn memory(&self) -> Vec<&SharedBuffer<u64>> {
        self.memory.iter().collect()
    }

    /// What the kernel of the device at `place` takes.
    pub fn settings(&self, place: usize) -> BlockSettings {
        BlockSettings { rank: place as u32, ..self.settings }
    }
}

/// A number of each block, then the lines of two collectives, of two words each; so many
/// that there is no memory, if they are more than can be counted.
fn words(blocks: usize, ranks: usize, capacity: usize) -> usize {
    let lines = [2, ranks, capacity, 2].into_iter().try_fold(blocks, usize::checked_mul);
    let numbers = blocks.checked_next_multiple_of(2);
    numbers.zip(lines).and_then(|(numbers, lines)| numbers.checked_add(lines)).unwrap_or(usize::MAX)
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
