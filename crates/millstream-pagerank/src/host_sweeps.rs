//! Sweeps of host devices that reach each other's memory, which the host starts one by one. Each device
//! writes what its vertices give into the memory of those that ask, as a gang does (`sweeps.cuh`), but
//! has no more shares than over links.

use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use millstream_device::{
    AtomicPod, Grid, Kernel, KernelResult, Read, Shared, SharedBuffer, SharedSet, Stream, Value,
};

use crate::halo::Halo;
use crate::host_rows::{HostRows, Sums};
use crate::pagerank::Ranks;
use crate::pull::PullGraph;
use crate::real::Real;
use crate::sweep::{REPORT, Settings, is_over};
use crate::sweep_memory::{SweepMemory, links, ranks};
use crate::{PageRankOptions, Result};

/// As for a single sweep; then the rows that are told, whom, and which device tells; the shares that the
/// device has, and those that all devices have from now on; sums on the host; settings.
type Signature<R> = (
    (Read<u64>, Read<u32>, Read<R>),
    (Read<R>, Read<R>),
    (Read<u32>, Value<Tells>, Value<u32>),
    (Shared<<R as Real>::Bits>, SharedSet<<R as Real>::Bits>),
    Shared<u64>,
    Value<Settings>,
);

/// Devices at most.
const MOST_DEVICES: usize = SharedSet::<u32>::MOST;

/// What is told to each device after a sweep: where the first share goes there, how many there are, and
/// where their rows are named; nowhere ([`ALL`]) if it is all rows.
type Tells = [[u64; 3]; MOST_DEVICES];
const ALL: u64 = u64::MAX;

fn tells<R: Real>(pull: &PullGraph<R>, here: usize) -> Tells {
    let mut tells = [[0; 3]; MOST_DEVICES];
    for (place, halo) in pull.parts[here].tells.iter().enumerate().filter(|it| it.0 != here) {
        let there = pull.parts[place].places.of(here);
        let rows = match halo {
            Halo::All(_) => ALL,
            Halo::Some(rows) => rows.start as u64,
        };
        tells[place] = [there.start as u64, there.len() as u64, rows];
    }
    tells
}

/// Sweeps until the change is small enough; one at least.
pub(crate) async fn run<R: Real>(pull: &PullGraph<R>, options: &PageRankOptions) -> Result<Ranks> {
    let memory = SweepMemory::new(pull, options).await?;
    let kernel = kernel::<R>();
    let devices = pull.context.devices().iter();
    let streams: Vec<Stream> = devices.map(|device| device.stream()).collect::<Result<_, _>>()?;
    let host = pull.context.host();
    let reports: Vec<_> = streams.iter().map(|_| host.shared(REPORT)).collect::<Result<_, _>>()?;
    let (mut dangling, mut iterations) = (pull.dangling, 0);
    let start = Instant::now();
    let change = loop {
        for (place, (stream, report)) in streams.iter().zip(&reports).enumerate() {
            let settings = pull.settings(place, options, dangling);
            launch(pull, &memory, &kernel, (stream, place, iterations), (report, settings))?;
        }
        for stream in &streams {
            stream.completed()?.await?;
        }
        let sum = |word: usize| -> Result<f64> {
            let all = reports.iter().map(|report| Ok(f64::from_bits(report.load(word)?)));
            all.sum()
        };
        let change = sum(0)?;
        dangling = sum(1)?;
        iterations += 1;
        if is_over(options, iterations, change) {
            break change;
        }
    };
    let run_time = start.elapsed();
    let start = Instant::now();
    let ranks = ranks(pull, memory.after(iterations)).await?;
    let converged = change <= options.tolerance;
    let statistics = pull.swept(iterations, links(pull, iterations));
    let gather_time = start.elapsed();
    Ok(Ranks { ranks, iterations, change, converged, statistics, run_time, gather_time })
}

/// Submits one device's sweep after so many.
fn launch<R: Real>(
    pull: &PullGraph<R>,
    memory: &SweepMemory<R>,
    kernel: &Kernel<Signature<R>>,
    (stream, place, sweeps): (&Stream, usize, u32),
    (report, settings): (&SharedBuffer<u64>, Settings),
) -> Result<()> {
    let part = &pull.parts[place];
    let gives: Vec<_> = memory.after(sweeps + 1).iter().collect();
    let arguments = (
        (&*part.offsets, &*part.sources, &*part.weights),
        (&*part.row_weights, &memory.teleport[place]),
        (&*part.told_rows, tells(pull, place), place as u32),
        (&memory.after(sweeps)[place], &gives[..]),
        report,
        settings,
    );
    Ok(kernel.launch(stream, part.sources.len(), arguments)?)
}

fn kernel<R: Real>() -> Kernel<Signature<R>> {
    Kernel::<Signature<R>>::new("sweep", twin::<R>)
}

/// A vector of shares, as kernels see it.
type Shares<'a, R> = &'a [<<R as Real>::Bits as AtomicPod>::Atomic];

/// What the twin sees of a [`Signature`].
type View<'a, R> = (
    (&'a [u64], &'a [u32], &'a [R]),
    (&'a [R], &'a [R]),
    (&'a [u32], Tells, u32),
    (Shares<'a, R>, Vec<Shares<'a, R>>),
    &'a [AtomicU64],
    Settings,
);

fn twin<R: Real>(_: &Grid, view: View<'_, R>) -> KernelResult {
    let (arcs, vertices, (told_rows, tells, here), (known, all), report, settings) = view;
    let rows = HostRows::new(arcs, vertices, settings);
    // SAFETY: a share lies as its bits do, whose atomics have their size and alignment; and nobody
    // writes what is known before the host has heard that all devices have ended this sweep.
    let known = unsafe { std::slice::from_raw_parts(known.as_ptr().cast::<R>(), known.len()) };
    let known = |place: usize| known.get(place).copied();
    let own = &all[here as usize][settings.first_vertex as usize..];
    let give = |_, row: usize, shares: &[R]| {
        let to = own[row..].iter().zip(shares);
        to.for_each(|(to, share)| R::Bits::store(to, share.to_bits()));
    };
    let blocks: Vec<(Range<usize>, Mutex<Sums>)> =
        rows.blocks().into_iter().map(|items| (items, Mutex::default())).collect();
    Grid::of_blocks(blocks.len(), 1).for_each_block(|block| {
        for (items, sums) in &blocks[block.range] {
            let its = rows.sweep(items.clone(), known, give);
            // No other block takes these.
            *sums.lock().unwrap_or_else(PoisonError::into_inner) = its;
        }
        Ok(())
    })?;
    let sums = blocks.into_iter().map(|(_, sums)| sums.into_inner());
    Sums::report(sums.map(|sums| sums.unwrap_or_else(PoisonError::into_inner)), report);
    for (there, [first, count, rows]) in all.iter().zip(tells) {
        let there = &there[first as usize..][..count as usize];
        Grid::of_blocks(there.len(), SHARES).for_each_block(|block| {
            for at in block.range {
                let row = if rows == ALL { at } else { told_rows[rows as usize + at] as usize };
                R::Bits::store(&there[at], R::Bits::load(&own[row]));
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Shares that a block tells.
const SHARES: usize = 1 << 14;

#[cfg(test)]
mod tests {
    use millstream_graph::CsrGraph;
    use millstream_graph::generate::{self, GenerateOptions};

    use super::*;
    use crate::linked_sweeps;
    use crate::pull::on_host_devices;

    /// What both ways come to, and the memory that this one takes at most.
    fn swept(graph: &CsrGraph, devices: usize) -> (Ranks, Ranks, u64) {
        let (context, pull) = on_host_devices(graph, devices);
        let options = PageRankOptions::default();
        let ranks = context.block_on(async {
            let ranks = run(&pull, &options).await?;
            let most = context.devices().iter().map(|device| device.memory().peak).sum();
            Ok::<_, crate::Error>((ranks, linked_sweeps::run(&pull, &options).await?, most))
        });
        ranks.unwrap().unwrap()
    }

    #[test]
    fn ranks_and_what_is_told_are_those_over_links() {
        let options = GenerateOptions::default();
        let road = generate::road(100, 100, generate::KEEP_PERMILLE, &options).unwrap();
        let kron = generate::kron(10, 8, &options).unwrap();
        // Of the star's ends everybody asks for the middle, and for theirs its owner alone.
        let arcs: Vec<_> = (0..2000).flat_map(|from| [(from, 2000), (2000, from)]).collect();
        let star = CsrGraph::from_edges(4001, &arcs).unwrap();
        for (graph, devices) in [(&road, 1), (&road, 4), (&kron, 3), (&kron, 16), (&star, 3)] {
            let (ranks, linked, _) = swept(graph, devices);
            // Sums are of the same rows in the same order.
            assert_eq!((ranks.iterations, &ranks.ranks), (linked.iterations, &linked.ranks));
            let bytes = |ranks: &Ranks| -> u64 {
                ranks.statistics.links.iter().map(|link| link.bytes).sum()
            };
            assert_eq!(bytes(&ranks), bytes(&linked), "{devices} devices");
            assert_eq!(bytes(&ranks) > 0, devices > 1);
        }
    }

    #[test]
    fn devices_have_no_more_shares_than_over_links() {
        let vertices = 1 << 18;
        let few = CsrGraph::from_edges(vertices, &[(0, 1), (vertices - 1, 0)]).unwrap();
        // All vertices' shares are 1 MiB, three times with those that ranks start with; what their arcs
        // weigh is another, on their owners.
        let (_, _, most) = swept(&few, 16);
        assert!(most < 5 << 20, "{most} bytes");
    }
}
