//! One sweep by pulling, as a kernel: the twin of `sweep.cuh`.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use millstream_device::{
    CudaSource, Grid, Kernel, KernelResult, Pod, Read, Shared, Trusted, Value, Write, Zeroable,
};

use crate::real::Real;
use crate::sliced_rows::{NO_SOURCE, SLICE, rows_of};

/// Where arcs begin, their sources and weights; what the arcs weigh that leave each
/// owned vertex, and what comes to it from nowhere; what the vertices of all devices
/// give; what the owned vertices give from now on; sums on the device and on
/// the host; settings.
pub(crate) type Signature<R> = (
    (Read<u64>, Read<u32>, Read<R>),
    (Read<R>, Read<R>),
    Read<R>,
    Write<R>,
    Shared<u64>,
    Shared<u64>,
    Value<Settings>,
);

millstream_device::cuda_struct! {
    /// How a sweep goes, as kernels take it.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Settings as "millstream::SweepSettings" {
        pub(crate) damping: f64,
        /// What every vertex gets from nowhere and of the dangling ones.
        pub(crate) base: f64,
        /// Owned vertices begin here.
        pub(crate) first_vertex: u32,
        pub(crate) block_rows: u32,
        pub(crate) long_rows: u32,
        /// For GPUs: see `sweep.cuh`.
        pub(crate) wide_slices: u32,
    }
}

// SAFETY: plain numbers.
unsafe impl Zeroable for Settings {}
// SAFETY: plain numbers without padding.
unsafe impl Pod for Settings {}

/// Words of the sums on a device.
pub(crate) const TOTALS: usize = 4;
/// Words of the sums on the host: the L1 norm of the change, and the rank of the
/// vertices that no step leaves along an arc; both as bits of an f64.
pub(crate) const REPORT: usize = 2;

const FILE: &str = "sweep.cuh";

pub(crate) fn cuda_source(is_double: bool) -> CudaSource {
    let entry = if is_double { "sweep_f64" } else { "sweep_f32" };
    CudaSource::new(FILE, entry, include_str!("sweep.cuh")).structs(&[Settings::LAYOUT])
}

/// The kernel.
pub(crate) fn kernel<R: Real>() -> Kernel<Signature<R>> {
    Kernel::<Signature<R>>::new("sweep", twin::<R>).with_cuda(
        // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
        unsafe { Trusted::new(cuda_source(R::IS_DOUBLE)) },
    )
}

/// What a vertex gives along an arc of weight 1, for a rank and what its arcs weigh.
/// Nobody asks what a vertex without such arcs gives: its rank is kept there.
pub(crate) fn share<R: Real>(rank: R, row_weight: R) -> R {
    if row_weight == R::ZERO { rank } else { rank / row_weight }
}

/// The rank again.
pub(crate) fn rank<R: Real>(share: R, row_weight: R) -> R {
    if row_weight == R::ZERO { share } else { share * row_weight }
}

/// Arcs and rows of a block, roughly, on a host device.
const BLOCK: u64 = 1 << 14;

/// What the twin sees of a [`Signature`].
type View<'a, R> = (
    (&'a [u64], &'a [u32], &'a [R]),
    (&'a [R], &'a [R]),
    &'a [R],
    &'a mut [R],
    &'a [AtomicU64],
    &'a [AtomicU64],
    Settings,
);

fn twin<R: Real>(_: &Grid, view: View<'_, R>) -> KernelResult {
    let ((offsets, sources, weights), vertices, given, gives, _, report, settings) = view;
    let (row_weights, teleport) = vertices;
    let rows = Rows { offsets, sources, weights, given, long_rows: settings.long_rows as usize };
    let own = &given[settings.first_vertex as usize..][..row_weights.len()];
    let (damping, base) = (R::from_f64(settings.damping), R::from_f64(settings.base));
    let sums: Vec<Mutex<(Block<'_, R>, f64, f64)>> =
        rows.blocks(gives).into_iter().map(|block| Mutex::new((block, 0.0, 0.0))).collect();
    Grid::of_blocks(sums.len(), 1).for_each_block(|block| {
        for sums in &sums[block.range] {
            // No other block takes this one; a poisoned lock cannot be.
            let Ok(mut guard) = sums.lock() else { continue };
            let ((items, gives), change, dangling) = &mut *guard;
            let mut gives = gives.iter_mut();
            for item in items.clone() {
                let sums = rows.sums(item, own.len());
                for (row, sum) in rows.of(item, own.len()).zip(sums) {
                    let sum = R::from_f64(sum);
                    let next = damping * sum + base + teleport.get(row).copied().unwrap_or(R::ZERO);
                    let before = rank(own[row], row_weights[row]);
                    *change += (next.to_f64() - before.to_f64()).abs();
                    if row_weights[row] == R::ZERO {
                        *dangling += next.to_f64();
                    }
                    if let Some(gives) = gives.next() {
                        *gives = share(next, row_weights[row]);
                    }
                }
            }
        }
        Ok(())
    })?;
    let (mut change, mut dangling) = (0.0, 0.0);
    for (_, block_change, block_dangling) in sums.into_iter().flat_map(Mutex::into_inner) {
        change += block_change;
        dangling += block_dangling;
    }
    // Release: the host reads them when the kernel is over.
    report[0].store(f64::to_bits(change), Ordering::Release);
    report[1].store(f64::to_bits(dangling), Ordering::Release);
    Ok(())
}

/// What the twin reads: see [`SlicedRows`](crate::sliced_rows::SlicedRows).
struct Rows<'a, R> {
    offsets: &'a [u64],
    sources: &'a [u32],
    weights: &'a [R],
    given: &'a [R],
    long_rows: usize,
}

/// Items of a block, and what is written for their rows.
type Block<'a, R> = (Range<usize>, &'a mut [R]);

impl<'a, R: Real> Rows<'a, R> {
    fn of(&self, item: usize, rows: usize) -> Range<usize> {
        rows_of(item, self.long_rows, rows)
    }

    /// What comes along arcs to the rows of an item: to the first alone, if it is
    /// a long one. In f64: rows of many arcs would lose what is small.
    fn sums(&self, item: usize, rows: usize) -> [f64; SLICE] {
        let arcs = self.offsets[item] as usize..self.offsets[item + 1] as usize;
        let given_by = |arc: usize| match self.sources[arc] {
            NO_SOURCE => 0.0,
            source => match self.weights.get(arc) {
                None => self.given[source as usize].to_f64(),
                Some(&weight) => (self.given[source as usize] * weight).to_f64(),
            },
        };
        let mut sums = [0.0; SLICE];
        if item < self.long_rows {
            sums[0] = arcs.map(given_by).sum();
            return sums;
        }
        let lanes = self.of(item, rows).len();
        for column in arcs.step_by(SLICE) {
            for (lane, sum) in sums[..lanes].iter_mut().enumerate() {
                *sum += given_by(column + lane);
            }
        }
        sums
    }

    /// Consecutive items with equally many arcs, each row counted as one more.
    fn blocks(&self, mut gives: &'a mut [R]) -> Vec<Block<'a, R>> {
        let rows = gives.len();
        let end_of = |item: usize| if item == 0 { 0 } else { self.of(item - 1, rows).end };
        let (mut blocks, mut first) = (Vec::new(), 0);
        for item in 1..self.offsets.len() {
            let own_rows = end_of(item) - end_of(first);
            let work = self.offsets[item] - self.offsets[first] + own_rows as u64;
            if work >= BLOCK || item + 1 == self.offsets.len() {
                let (block, others) = gives.split_at_mut(own_rows);
                blocks.push((first..item, block));
                (gives, first) = (others, item);
            }
        }
        blocks
    }
}
