//! Rows of arcs as sweeps read them: sliced ELLPACK, after long rows one by one.
//!
//! The rows of a part are numbered by length, the longest first. That also brings the
//! vertices together that most arcs lead to, if arcs have both directions: they stay in
//! the caches. If no row is long, neighbours stay near each other instead: rows are
//! sorted inside windows of consecutive vertices. 32 short rows that follow each other are a *slice*: the first arc of each, then the
//! second of each, and so on, short ones padded with [`NO_SOURCE`]. So 32 threads with
//! a row each read what lies side by side, and no row index is needed but where each
//! slice begins.

use std::ops::Range;

use millstream_device::Pod;
use millstream_graph::pieces::InPieces;
use millstream_graph::sort::sort;
use millstream_graph::{CsrGraph, Partition, Weights, partition};
use rayon::prelude::*;

use crate::real::Real;

/// Rows of a slice: the threads of a warp.
pub(crate) const SLICE: usize = 32;
/// In the place of a source where there is none.
pub(crate) const NO_SOURCE: u32 = u32::MAX;
/// Rows of this many arcs are long: a warp's, not a thread's.
const LONG_ROW: u64 = 256;
/// Rows of this many arcs are a block's, not a warp's.
const BLOCK_ROW: u64 = 16384;
/// A slice of this many columns is work enough for a warp to draw.
const WIDE: u64 = 32;
/// Vertices of a window.
const WINDOW: u32 = 256;
/// Arcs that one task of the build writes, roughly.
const TASK: u64 = 1 << 16;

/// The order that slices need inside each part: see the module.
pub(crate) fn sorted(partition: &Partition, transposed: &CsrGraph) -> Partition {
    let window = if partition::is_mesh_like(transposed) { WINDOW } else { u32::MAX };
    partition.by_degree(transposed, window)
}

/// The rows of one part, with the arcs that come in.
#[derive(Debug)]
pub(crate) struct SlicedRows<R> {
    /// Where the arcs of each long row and then of each slice begin, and the end.
    pub(crate) offsets: Vec<u64>,
    /// The new id of each arc's source, or [`NO_SOURCE`].
    pub(crate) sources: Vec<u32>,
    /// Empty if arcs count once each.
    pub(crate) weights: Vec<R>,
    /// The first of the long rows: those for blocks.
    pub(crate) block_rows: u32,
    /// Rows that are not in slices.
    pub(crate) long_rows: u32,
    /// Wide slices before the first that is not.
    pub(crate) wide_slices: u32,
}

impl<R: Real> SlicedRows<R> {
    /// The rows of `part`, of a partition in the order of [`sorted`].
    pub(crate) fn new(
        transposed: &CsrGraph,
        partition: &Partition,
        part: usize,
        is_weighted: bool,
    ) -> SlicedRows<R> {
        let own = partition.range(part).into_par_iter().in_pieces();
        let originals: Vec<u32> = own.map(|new| partition.to_original(new)).collect();
        let length = |&original: &u32| transposed.degree(original);
        let block_rows = originals.partition_point(|row| length(row) >= BLOCK_ROW);
        let long_rows = originals.partition_point(|row| length(row) >= LONG_ROW);
        let (long, short) = originals.split_at(long_rows);
        let width = |rows: &[u32]| rows.iter().map(length).max().unwrap_or(0);
        let widths: Vec<u64> = short.par_chunks(SLICE).map(width).collect();
        let wide_slices = widths.iter().take_while(|&&width| width >= WIDE).count() as u32;
        let items = long.iter().map(length).chain(widths.iter().map(|width| width * SLICE as u64));
        let mut offsets = vec![0];
        offsets.extend(items.scan(0, |end, arcs| {
            *end += arcs;
            Some(*end)
        }));
        let rows =
            Rows { transposed, partition, originals: &originals, long_rows, offsets: &offsets };
        let sources = rows.sources();
        let weights = match transposed.weights().filter(|_| is_weighted) {
            None => Vec::new(),
            Some(Weights::Integer(weights)) => rows.weights(|arc| R::from_f64(weights[arc].into())),
            Some(Weights::Real(weights)) => rows.weights(|arc| R::from_f64(weights[arc].into())),
        };
        let (block_rows, long_rows) = (block_rows as u32, long_rows as u32);
        SlicedRows { offsets, sources, weights, block_rows, long_rows, wide_slices }
    }
}

/// Rows of `item`, of `all` that there are.
pub(crate) fn rows_of(item: usize, long_rows: usize, all: usize) -> Range<usize> {
    match item.checked_sub(long_rows) {
        None => item..item + 1,
        Some(slice) => {
            let first = long_rows + slice * SLICE;
            first..(first + SLICE).min(all)
        }
    }
}

/// The rows while their arcs are put in place.
struct Rows<'a> {
    transposed: &'a CsrGraph,
    partition: &'a Partition,
    originals: &'a [u32],
    long_rows: usize,
    offsets: &'a [u64],
}

impl Rows<'_> {
    /// The new id of every arc's source, in its place. Those of a row ascend: then threads side by
    /// side ask for what lies together.
    fn sources(&self) -> Vec<u32> {
        self.fill(NO_SOURCE, |original, row| {
            let sources = self.transposed.neighbors(original);
            row.extend(sources.iter().map(|&source| self.partition.to_new(source)));
            sort(row);
        })
    }

    /// What every arc weighs, beside its source.
    fn weights<R: Real>(&self, weight: impl Fn(usize) -> R + Sync) -> Vec<R> {
        self.fill(R::ZERO, |original, row| {
            let new = |arc: usize| self.partition.to_new(self.transposed.targets()[arc]);
            let mut arcs: Vec<_> =
                self.transposed.row(original).map(|arc| (new(arc), arc)).collect();
            arcs.sort_unstable();
            row.extend(arcs.into_iter().map(|(_, arc)| weight(arc)));
        })
    }

    /// What `values` adds for each row, given by its original id, in its place, and `padding`
    /// elsewhere.
    fn fill<T: Pod + Send + Sync>(
        &self,
        padding: T,
        values: impl Fn(u32, &mut Vec<T>) + Sync,
    ) -> Vec<T> {
        let items = self.offsets.len() - 1;
        // Zeros come from the system when they are first written to: by the tasks, all at once.
        let mut all = vec![T::zeroed(); self.offsets[items] as usize];
        let (mut tasks, mut rest, mut first) = (Vec::new(), &mut all[..], 0);
        for item in 1..=items {
            let arcs = self.offsets[item] - self.offsets[first];
            if arcs >= TASK || item == items {
                let (slots, others) = rest.split_at_mut(arcs as usize);
                tasks.push((first..item, slots));
                (rest, first) = (others, item);
            }
        }
        tasks.into_par_iter().for_each_init(Vec::new, |row, (items, mut slots)| {
            slots.fill(padding);
            for item in items {
                let arcs = (self.offsets[item + 1] - self.offsets[item]) as usize;
                let (own, others) = slots.split_at_mut(arcs);
                let step = if item < self.long_rows { 1 } else { SLICE };
                let rows = rows_of(item, self.long_rows, self.originals.len());
                let originals = &self.originals[rows];
                for (lane, &original) in originals.iter().enumerate() {
                    row.clear();
                    values(original, row);
                    let slots = own.iter_mut().skip(lane).step_by(step);
                    slots.zip(&*row).for_each(|(slot, &value)| *slot = value);
                }
                slots = others;
            }
        });
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_graph::generate::{self, GenerateOptions};

    /// Arcs (source, row) of a part as they lie, by original id.
    fn arcs(rows: &SlicedRows<f32>, partition: &Partition, part: usize) -> Vec<(u32, u32)> {
        let (own, long) = (partition.range(part), rows.long_rows as usize);
        let mut arcs = Vec::new();
        for item in 0..rows.offsets.len() - 1 {
            let step = if item < long { 1 } else { SLICE };
            for (lane, row) in rows_of(item, long, own.len()).enumerate() {
                let places = rows.offsets[item] as usize..rows.offsets[item + 1] as usize;
                let sources = rows.sources[places].iter().skip(lane).step_by(step);
                for &source in sources.filter(|&&source| source != NO_SOURCE) {
                    let row = partition.to_original(own.start + row as u32);
                    arcs.push((partition.to_original(source), row));
                }
            }
        }
        arcs
    }

    #[test]
    fn every_arc_is_in_its_row_once() {
        let options = GenerateOptions::default();
        let kron = generate::kron(10, 40, &options).unwrap();
        let road = generate::road(50, 50, generate::KEEP_PERMILLE, &options).unwrap();
        for (graph, has_long_rows) in [(kron, true), (road, false)] {
            let transposed = graph.transposed().unwrap();
            for parts in [1, 3] {
                let blocks = partition::edge_balanced_blocks(&transposed, parts);
                let partition = sorted(&blocks, &transposed);
                let mut found = Vec::new();
                for part in 0..parts {
                    let rows = SlicedRows::new(&transposed, &partition, part, false);
                    assert_eq!(rows.long_rows > 0, has_long_rows);
                    assert!(rows.offsets.len() as u32 > rows.long_rows + 1);
                    found.extend(arcs(&rows, &partition, part));
                }
                let all = (0..graph.vertices())
                    .flat_map(|from| graph.neighbors(from).iter().map(move |&to| (from, to)));
                let mut all: Vec<_> = all.collect();
                all.sort_unstable();
                found.sort_unstable();
                assert!(found == all);
            }
        }
    }
}
