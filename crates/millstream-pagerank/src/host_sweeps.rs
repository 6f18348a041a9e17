//! Sweeps of host devices that reach each other's memory, which the host starts one by one: the twin
//! of `sweeps.cuh`. Each device writes what its vertices give into the memory of those that ask.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use millstream_device::{
    AtomicPod, Grid, Kernel, KernelResult, Read, Shared, SharedBuffer, SharedSet, Stream, Value,
};

use crate::gang_sweeps::{Memory, links, ranks};
use crate::host_rows::{HostRows, Sums};
use crate::pagerank::Ranks;
use crate::pull::PullGraph;
use crate::real::Real;
use crate::sweep::{REPORT, Settings};
use crate::{PageRankOptions, Result};

/// As for a single sweep; then who asks, and which device this is; what all vertices have given, as the
/// device knows it, and what they give from now on, as all devices will; sums on the host; settings.
type Signature<R> = (
    (Read<u64>, Read<u32>, Read<R>),
    (Read<R>, Read<R>),
    (Read<u32>, Value<u32>),
    (Shared<<R as Real>::Bits>, SharedSet<<R as Real>::Bits>),
    Shared<u64>,
    Value<Settings>,
);

/// Sweeps until the change is small enough; one at least.
pub(crate) async fn run<R: Real>(pull: &PullGraph<R>, options: &PageRankOptions) -> Result<Ranks> {
    let memory = Memory::new(pull, options).await?;
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
        // Ranks beyond their type do not come back, however many sweeps follow.
        let is_last = iterations == options.max_iterations || !change.is_finite();
        if is_last || change <= options.tolerance {
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
    memory: &Memory<R>,
    kernel: &Kernel<Signature<R>>,
    (stream, place, sweeps): (&Stream, usize, u32),
    (report, settings): (&SharedBuffer<u64>, Settings),
) -> Result<()> {
    let part = &pull.parts[place];
    let gives: Vec<_> = memory.after(sweeps + 1).iter().collect();
    let arguments = (
        (&*part.offsets, &*part.sources, &*part.weights),
        (&*part.row_weights, &memory.teleport[place]),
        (&*part.askers, place as u32),
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
    (&'a [u32], u32),
    (Shares<'a, R>, Vec<Shares<'a, R>>),
    &'a [std::sync::atomic::AtomicU64],
    Settings,
);

fn twin<R: Real>(_: &Grid, view: View<'_, R>) -> KernelResult {
    let (arcs, vertices, (askers, here), (known, gives), report, settings) = view;
    let rows = HostRows::new(arcs, vertices, settings);
    let first = settings.first_vertex as usize;
    // SAFETY: a share lies as its bits do, whose atomics have their size and alignment; and nobody
    // writes what is known before the host has heard that all devices have ended this sweep.
    let known = unsafe { std::slice::from_raw_parts(known.as_ptr().cast::<R>(), known.len()) };
    let known = |place: usize| known.get(place).copied();
    let give = |item: usize, row: usize, shares: &[R]| {
        // A device alone is asked by nobody.
        let mut asking = askers.get(item).copied().unwrap_or(0) | 1 << here;
        while asking != 0 {
            let device = asking.trailing_zeros() as usize;
            for (to, share) in gives[device][first + row..].iter().zip(shares) {
                R::Bits::store(to, share.to_bits());
            }
            asking &= asking - 1;
        }
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
    Ok(())
}
