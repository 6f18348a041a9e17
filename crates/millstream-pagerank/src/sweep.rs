//! One sweep by pulling, as a kernel: the twin of `one_sweep.cuh`.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};
use millstream_device::{
    CudaSource, Grid, Kernel, KernelResult, Parameter, Read, Shared, Trusted, Value, Write,
    cuda_text,
};
use parking_lot::Mutex;

use crate::host_rows::{HostRows, Sums};
use crate::real::Real;

/// Offsets, sources and weights of arcs; for each owned vertex, the weight of all arcs
/// that leave it, and its teleport rank; the previous shares of the vertices of all
/// devices; the new shares of the owned vertices; sums on the device and on the host;
/// settings.
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
    /// The settings of a sweep, as kernels take them.
    #[derive(Clone, Copy, Debug, Pod, Zeroable)]
    pub(crate) struct Settings as "millstream::SweepSettings" {
        pub(crate) damping: f64,
        /// The rank that every vertex gets from teleports and from dangling vertices.
        pub(crate) base: f64,
        /// The place of the first owned vertex's share.
        pub(crate) first_vertex: u32,
        /// Used by GPUs only, like `block_rows` and `wide_slices`: see `sweep.cuh`.
        pub(crate) shared_rows: u32,
        pub(crate) block_rows: u32,
        pub(crate) long_rows: u32,
        pub(crate) wide_slices: u32,
        pub(crate) padding: u32,
    }
}

/// Words of the sums on a device that precede those of shared rows.
pub(crate) const TOTALS: usize = 4;
/// Words of each shared row.
pub(crate) const PART_WORDS: usize = 2;
/// Words of the sums on the host: the L1 norm of the change, and the rank of all dangling
/// vertices together; both as bits of an f64.
pub(crate) const REPORT: usize = 2;

pub(crate) fn cuda_source(is_double: bool) -> CudaSource {
    let text = swept_real(is_double).to_string() + cuda_text!("sweep.cuh", "one_sweep.cuh");
    CudaSource::generated("one_sweep.cuh", "sweep", text).structs(&[Settings::LAYOUT])
}

/// The type of ranks, for the text that follows.
pub(crate) fn swept_real(is_double: bool) -> &'static str {
    if is_double { "using SweptReal = double;\n" } else { "using SweptReal = float;\n" }
}

/// The kernel.
pub(crate) fn kernel<R: Real>() -> Kernel<Signature<R>> {
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    let source = unsafe { Trusted::new(cuda_source(R::IS_DOUBLE)) };
    Kernel::<Signature<R>>::with_source("sweep", source, twin::<R>)
}

/// The share that a vertex gives along an arc of weight 1, for its rank and the weight of its row.
/// The share of a vertex without arcs is never asked for, so it holds the rank itself.
pub(crate) fn share<R: Real>(rank: R, row_weight: R) -> R {
    if row_weight == R::ZERO { rank } else { rank / row_weight }
}

/// The rank for a [`share`].
pub(crate) fn rank<R: Real>(share: R, row_weight: R) -> R {
    if row_weight == R::ZERO { share } else { share * row_weight }
}

/// Whether to end after `sweeps` sweeps, of which the last has changed ranks by `change`.
pub(crate) fn is_over(tolerance: f64, most: u32, sweeps: u32, change: f64) -> bool {
    // Ranks that have become infinite stay so, however many sweeps follow.
    sweeps == most || !change.is_finite() || change <= tolerance
}

/// The twin's view of a [`Signature`].
type View<'a, R> = <Signature<R> as Parameter>::View<'a>;

fn twin<R: Real>(_: &Grid, view: View<'_, R>) -> KernelResult {
    let (arcs, vertices, given, mut gives, _, report, settings) = view;
    let rows = HostRows::new(arcs, vertices, settings);
    let known = |place: usize| given.get(place).copied();
    let mut part = |items: Range<usize>| {
        let (its, others) = std::mem::take(&mut gives).split_at_mut(rows.rows_of(&items).len());
        gives = others;
        Mutex::new((items, its, Sums::default()))
    };
    let blocks: Vec<_> = rows.blocks().into_iter().map(&mut part).collect();
    Grid::of_blocks(blocks.len(), 1).for_each_block(|block| {
        for block in &blocks[block.range] {
            // No other block locks this one.
            let mut guard = block.lock();
            let (items, gives, sums) = &mut *guard;
            let first = rows.rows_of(items).start;
            let give = |_, row: usize, shares: &[R]| {
                gives[row - first..][..shares.len()].copy_from_slice(shares);
            };
            *sums = rows.sweep(items.clone(), known, give);
        }
        Ok(())
    })?;
    let sums = blocks.into_iter().map(|block| block.into_inner());
    let sums = sums.map(|block| block.2);
    Sums::total(sums).report(report);
    Ok(())
}
