//! Host twins of the benchmarks, with the same tiles as on GPUs.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use millstream::device::{
    CudaSource, Guarded, GuardedItems, Kernel, KernelFault, KernelResult, Parameter, Read, Shared,
    Step, Trusted, Value,
};
use millstream::flow::{FullEmptyPackets, PacketsView};

use super::workload::{Parameters, Workload};

type Packets = FullEmptyPackets<u32>;
/// Inputs that are complete before the launch.
pub(super) type Present = (Read<u32>, Read<u32>, Read<u32>);
/// Inputs that come packet by packet.
pub(super) type Coming = (Packets, Packets, Packets);
/// Inputs that blocks fetch from the host's memory (first) into the device's (second).
pub(super) type Pulled = (Coming, Coming);
pub(super) type Signature<In, Out> = (In, Out, Shared<u32>, Value<Parameters>);

/// An output that is copied at the end.
pub(super) type AtEnd = Guarded<u32>;
/// An output whose tiles leave as soon as they are done.
pub(super) type Leaving = Packets;

/// Where a tile's inputs come from.
pub(super) trait Source {
    /// What a block does before its tile. The result tells whether it must wait.
    fn begin(&self, _block: usize) -> Result<Step, KernelFault> {
        Ok(Step::Done)
    }
    /// Items of an input; `None` if they are not there yet.
    fn read(&self, input: usize, range: Range<usize>) -> Result<Option<Vec<u32>>, KernelFault>;
}

impl Source for (&[u32], &[u32], &[u32]) {
    fn read(&self, input: usize, range: Range<usize>) -> Result<Option<Vec<u32>>, KernelFault> {
        let items = [self.0, self.1, self.2][input];
        Ok(Some(items[range].to_vec()))
    }
}

type ComingView<'a> = (PacketsView<'a, u32>, PacketsView<'a, u32>, PacketsView<'a, u32>);

impl Source for ComingView<'_> {
    fn read(&self, input: usize, range: Range<usize>) -> Result<Option<Vec<u32>>, KernelFault> {
        if range.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let packets = [&self.0, &self.1, &self.2][input];
        let size = packets.range(0).len().max(1);
        let (first, mut items) = (range.start / size, Vec::new());
        for packet in first..range.end.div_ceil(size) {
            let Some(more) = packets.items(packet)? else { return Ok(None) };
            items.extend(more);
        }
        let skipped = range.start - first * size;
        Ok(Some(items[skipped..skipped + range.len()].to_vec()))
    }
}

impl Source for (ComingView<'_>, ComingView<'_>) {
    fn begin(&self, block: usize) -> Result<Step, KernelFault> {
        let (from, to) = self;
        let pairs = [(&from.0, &to.0), (&from.1, &to.1), (&from.2, &to.2)];
        let most = pairs.iter().map(|(_, to)| to.packets()).max().unwrap_or(1);
        let (input, packet) = (block / most, block % most);
        match pairs.get(input) {
            Some((from, to)) if !to.range(packet).is_empty() && !to.pull(from, packet)? => {
                Ok(Step::Waits)
            }
            _ => Ok(Step::Done),
        }
    }

    fn read(&self, input: usize, range: Range<usize>) -> Result<Option<Vec<u32>>, KernelFault> {
        self.1.read(input, range)
    }
}

/// Where a tile's output goes.
pub(super) trait Sink {
    /// Writes a tile; `None` if somebody else is using the output.
    fn write(&self, tile: usize, start: usize, items: &[u32]) -> Result<Option<()>, KernelFault>;
    /// Announces that the tile is written.
    fn publish(&self, _tile: usize) -> KernelResult {
        Ok(())
    }
    /// Counts a tile of a sum. Returns whether it was the last one.
    fn arrive(&self, counts: &[AtomicU32], tiles: u32) -> Result<bool, KernelFault>;
}

impl Sink for GuardedItems<'_, u32> {
    fn write(&self, _: usize, start: usize, items: &[u32]) -> Result<Option<()>, KernelFault> {
        self.try_write(start..start + items.len(), |to| to.copy_from_slice(items))
    }

    fn arrive(&self, counts: &[AtomicU32], tiles: u32) -> Result<bool, KernelFault> {
        let Some(arrived) = counts.last() else { return Ok(false) };
        let is_last = arrived.fetch_add(1, Ordering::AcqRel) + 1 == tiles;
        if is_last {
            arrived.store(0, Ordering::Relaxed);
        }
        Ok(is_last)
    }
}

impl Sink for PacketsView<'_, u32> {
    fn write(&self, tile: usize, _: usize, items: &[u32]) -> Result<Option<()>, KernelFault> {
        PacketsView::write(self, tile, |to| to.copy_from_slice(items))
    }

    fn publish(&self, tile: usize) -> KernelResult {
        PacketsView::mark_full(self, tile)
    }

    fn arrive(&self, _: &[AtomicU32], _: u32) -> Result<bool, KernelFault> {
        PacketsView::arrive(self, 0)
    }
}

/// What GPUs run of a benchmark by the name of a kernel of
/// `WORKLOAD`.
pub fn source(name: &str, mode: &str) -> CudaSource {
    let text = format!("{}\nWORKLOAD({name})\n", include_str!("workloads.cuh"));
    let threads = if name == "BFS" { 1024 } else { 256 };
    let source = CudaSource::generated(format!("{name}.cu"), format!("{name}_{mode}"), text);
    source.structs(&[Parameters::LAYOUT]).threads(threads).block_each()
}

/// The kernel for GPUs and its twin for host devices.
pub(super) fn kernel<In, Out>(work: &Workload, suffix: &str) -> Kernel<Signature<In, Out>>
where
    In: Parameter + 'static,
    Out: Parameter + 'static,
    for<'a> In::View<'a>: Source,
    for<'a> Out::View<'a>: Sink,
{
    let name = format!("{}_{suffix}", work.name);
    let (needs, compute, words) = (work.needs, work.compute, work.words);
    let is_summed = work.summed.is_some();
    Kernel::of_step_closure(
        name,
        move |tile, (from, to, table, parameters): &<Signature<In, Out> as Parameter>::View<'_>| {
            let begun = from.begin(tile)?;
            if begun == Step::Waits || tile >= parameters.tiles as usize {
                return Ok(begun);
            }
            let mut inputs = [const { (0, Vec::new()) }; 3];
            for (input, part) in inputs.iter_mut().enumerate() {
                let range = needs(parameters, input, tile);
                let start = range.start;
                let Some(items) = from.read(input, range)? else { return Ok(Step::Waits) };
                *part = (start, items);
            }
            let entry = |at: usize| table[at].load(Ordering::Relaxed);
            let result = compute(parameters, tile, &inputs, &entry);
            if is_summed {
                return add_up(to, table, parameters, &result);
            }
            let start = parameters.range(tile).start * words;
            if to.write(tile, start, &result)?.is_none() {
                return Ok(Step::Waits);
            }
            to.publish(tile)?;
            Ok(Step::Done)
        },
    )
    .with_cuda(
        // SAFETY: like its twin, the kernel uses its arguments only as the signature says.
        unsafe { Trusted::new(source(work.name, suffix)) },
    )
}

/// Adds a tile's counts. The last tile writes the sums.
fn add_up(
    to: &impl Sink,
    table: &[AtomicU32],
    parameters: &Parameters,
    counts: &[u32],
) -> Result<Step, KernelFault> {
    for (sum, count) in table.iter().zip(counts) {
        sum.fetch_add(*count, Ordering::Relaxed);
    }
    if to.arrive(table, parameters.tiles)? {
        let sums = table.iter().take(counts.len()).map(|sum| sum.swap(0, Ordering::Relaxed));
        let sums: Vec<u32> = sums.collect();
        let busy = || KernelFault::new("somebody uses the output before it is full");
        to.write(0, 0, &sums)?.ok_or_else(busy)?;
        to.publish(0)?;
    }
    Ok(Step::Done)
}
