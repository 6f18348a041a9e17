//! One sweep by pulling, as a kernel: the twin of `sweep.cuh`.

use std::sync::atomic::{AtomicU64, Ordering};

use millstream_device::{
    CudaSource, Grid, Kernel, KernelResult, Pod, Read, Shared, Value, Write, Zeroable,
};

use crate::real::Real;

/// Row index, sources and weights of the owned vertices' incoming arcs, and the
/// rows by length; what is known of each owned vertex; what the vertices of all
/// devices give; ranks; what the owned vertices give from now on; sums on the
/// device and on the host; settings.
pub(crate) type Signature<R> = (
    (Read<u64>, Read<u32>, Read<R>, Read<u32>),
    (Read<R>, Read<R>),
    Read<R>,
    Write<R>,
    Write<R>,
    Shared<u64>,
    Shared<u64>,
    Value<Settings>,
);

/// How a sweep goes, as the kernel takes it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Settings {
    pub(crate) damping: f64,
    /// What every vertex gets of the dangling ones.
    pub(crate) base: f64,
    pub(crate) first_warp_row: u32,
    pub(crate) first_block_row: u32,
}

// SAFETY: plain numbers.
unsafe impl Zeroable for Settings {}
// SAFETY: plain numbers without padding.
unsafe impl Pod for Settings {}

/// Words of the sums on a device.
pub(crate) const TOTALS: usize = 3;
/// Words of the sums on the host: the L1 norm of the change, and the rank of the
/// vertices that no step leaves along an arc; both as bits of an f64.
pub(crate) const REPORT: usize = 2;

const FILE: &str = "sweep.cuh";

fn source(is_double: bool) -> CudaSource {
    let entry = if is_double { "sweep_f64" } else { "sweep_f32" };
    CudaSource::new(FILE, entry, include_str!("sweep.cuh"))
}

/// The kernel.
pub(crate) fn kernel<R: Real>() -> Kernel<Signature<R>> {
    Kernel::<Signature<R>>::new("sweep", twin::<R>).with_cuda(source(R::IS_DOUBLE))
}

/// Arcs and rows of a block, roughly, on a host device.
const BLOCK: u64 = 1 << 14;

/// What the twin sees of a [`Signature`].
type View<'a, R> = (
    (&'a [u64], &'a [u32], &'a [R], &'a [u32]),
    (&'a [R], &'a [R]),
    &'a [R],
    &'a mut [R],
    &'a mut [R],
    &'a [AtomicU64],
    &'a [AtomicU64],
    Settings,
);

fn twin<R: Real>(_: &Grid, view: View<'_, R>) -> KernelResult {
    let ((offsets, sources, weights, _), vertices, given, ranks, gives, _, report, settings) = view;
    let (inverse, teleport) = vertices;
    let sum = |row: usize| -> R {
        let arcs = offsets[row] as usize..offsets[row + 1] as usize;
        let given_by = |source: &u32| given[*source as usize];
        match weights.is_empty() {
            true => sources[arcs].iter().map(given_by).sum(),
            false => {
                let arcs = sources[arcs.clone()].iter().zip(&weights[arcs]);
                arcs.map(|(source, &weight)| given_by(source) * weight).sum()
            }
        }
    };
    let (damping, base) = (R::from_f64(settings.damping), R::from_f64(settings.base));
    let blocks = row_blocks(offsets, ranks, gives);
    let sums: Vec<std::sync::Mutex<(Block<'_, R>, f64, f64)>> =
        blocks.into_iter().map(|block| std::sync::Mutex::new((block, 0.0, 0.0))).collect();
    Grid::of_blocks(sums.len(), 1).for_each_block(|block| {
        for sums in &sums[block.range] {
            // No other block takes this one; a poisoned lock cannot be.
            let Ok(mut guard) = sums.lock() else { continue };
            let ((first, ranks, gives), change, dangling) = &mut *guard;
            for (place, (rank, gives)) in ranks.iter_mut().zip(gives.iter_mut()).enumerate() {
                let row = *first + place;
                let next = sum(row) + teleport[row] + base;
                *change += (next.to_f64() - rank.to_f64()).abs();
                if inverse[row] == R::ZERO {
                    *dangling += next.to_f64();
                }
                *rank = next;
                *gives = damping * next * inverse[row];
            }
        }
        Ok(())
    })?;
    let (mut change, mut dangling) = (0.0, 0.0);
    for (_, block_change, block_dangling) in sums.into_iter().flat_map(|sums| sums.into_inner()) {
        change += block_change;
        dangling += block_dangling;
    }
    // Release: the host reads them when the kernel is over.
    report[0].store(f64::to_bits(change), Ordering::Release);
    report[1].store(f64::to_bits(dangling), Ordering::Release);
    Ok(())
}

/// Rows of a block: the first, and what is written for each.
type Block<'a, R> = (usize, &'a mut [R], &'a mut [R]);

/// Consecutive rows with equally many arcs, each row counted as one more.
fn row_blocks<'a, R>(
    offsets: &[u64],
    mut ranks: &'a mut [R],
    mut gives: &'a mut [R],
) -> Vec<Block<'a, R>> {
    let (mut blocks, mut first) = (Vec::new(), 0);
    for row in 1..offsets.len() {
        let work = offsets[row] - offsets[first] + (row - first) as u64;
        if work >= BLOCK || row + 1 == offsets.len() {
            let (block_ranks, other_ranks) = ranks.split_at_mut(row - first);
            let (block_gives, other_gives) = gives.split_at_mut(row - first);
            blocks.push((first, block_ranks, block_gives));
            (ranks, gives, first) = (other_ranks, other_gives, row);
        }
    }
    blocks
}

/// The CUDA C++ of the sweeps, to be compiled without running it.
pub fn cuda_sources() -> Vec<CudaSource> {
    vec![source(false), source(true)]
}
