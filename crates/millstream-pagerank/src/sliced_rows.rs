//! Rows of arcs in [slices](crate::slices), made by the host.

use millstream_device::Pod;
use millstream_graph::sort::sort;
use millstream_graph::{CsrGraph, Partition, Weights};
use rayon::prelude::*;

use crate::real::Real;
use crate::slices::{NO_SOURCE, SLICE, Slices, originals, rows_of};

/// Arcs that one task of the build writes, roughly.
const TASK: u64 = 1 << 16;

/// The rows of one part, of incoming arcs.
#[derive(Debug)]
pub(crate) struct SlicedRows<R> {
    pub(crate) slices: Slices,
    /// The new id of each arc's source, or [`NO_SOURCE`].
    pub(crate) sources: Vec<u32>,
    /// The weight of each arc; empty if arcs count once each.
    pub(crate) weights: Vec<R>,
}

impl<R: Real> SlicedRows<R> {
    /// The rows of `part`, of a partition in the order of [`sorted`](crate::slices::sorted).
    pub(crate) fn new(
        transposed: &CsrGraph,
        partition: &Partition,
        part: usize,
        is_weighted: bool,
    ) -> SlicedRows<R> {
        let originals = originals(partition, part);
        let slices = Slices::new(transposed, &originals);
        let rows = Rows { transposed, partition, originals: &originals, slices: &slices };
        let sources = rows.sources();
        let weights = match transposed.weights().filter(|_| is_weighted) {
            None => Vec::new(),
            Some(Weights::Integer(weights)) => rows.weights(|arc| R::from_f64(weights[arc].into())),
            Some(Weights::Real(weights)) => rows.weights(|arc| R::from_f64(weights[arc].into())),
        };
        SlicedRows { slices, sources, weights }
    }
}

/// The rows while their arcs are put in place.
struct Rows<'a> {
    transposed: &'a CsrGraph,
    partition: &'a Partition,
    originals: &'a [u32],
    slices: &'a Slices,
}

impl Rows<'_> {
    /// The new id of every arc's source, in its place. The sources of a row ascend, so that neighbouring
    /// threads read shares that lie close together.
    fn sources(&self) -> Vec<u32> {
        self.fill(NO_SOURCE, |original, row| {
            let sources = self.transposed.neighbors(original);
            row.extend(sources.iter().map(|&source| self.partition.to_new(source)));
            sort(row);
        })
    }

    /// The weight of every arc, in the same place as its source.
    fn weights<R: Real>(&self, weight: impl Fn(usize) -> R + Sync) -> Vec<R> {
        self.fill(R::ZERO, |original, row| {
            let new = |arc: usize| self.partition.to_new(self.transposed.targets()[arc]);
            let mut arcs: Vec<_> =
                self.transposed.row(original).map(|arc| (new(arc), arc)).collect();
            arcs.sort_unstable();
            row.extend(arcs.into_iter().map(|(_, arc)| weight(arc)));
        })
    }

    /// For each row, given by its original id, the values that `values` appends, in their places; `padding`
    /// everywhere else.
    fn fill<T: Pod + Send + Sync>(
        &self,
        padding: T,
        values: impl Fn(u32, &mut Vec<T>) + Sync,
    ) -> Vec<T> {
        let (offsets, long_rows) = (&self.slices.offsets, self.slices.long_rows as usize);
        let items = offsets.len() - 1;
        // The system maps zeroed pages at the first write, which the tasks do in parallel.
        let mut all = vec![T::zeroed(); self.slices.places()];
        let (mut tasks, mut rest, mut first) = (Vec::new(), &mut all[..], 0);
        for item in 1..=items {
            let arcs = offsets[item] - offsets[first];
            if arcs >= TASK || item == items {
                let (slots, others) = rest.split_at_mut(arcs as usize);
                tasks.push((first..item, slots));
                (rest, first) = (others, item);
            }
        }
        tasks.into_par_iter().for_each_init(Vec::new, |row, (items, mut slots)| {
            slots.fill(padding);
            for item in items {
                let arcs = (offsets[item + 1] - offsets[item]) as usize;
                let (own, others) = slots.split_at_mut(arcs);
                let step = if item < long_rows { 1 } else { SLICE };
                let rows = rows_of(item, long_rows, self.originals.len());
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
    use millstream_graph::generate::{self, GenerateOptions};
    use millstream_graph::partition;

    use super::*;
    use crate::slices::sorted;

    /// The arcs (source, row) of a part in their order in memory, by original id.
    fn arcs(rows: &SlicedRows<f32>, partition: &Partition, part: usize) -> Vec<(u32, u32)> {
        let (own, long) = (partition.range(part), rows.slices.long_rows as usize);
        let mut arcs = Vec::new();
        for item in 0..rows.slices.offsets.len() - 1 {
            let step = if item < long { 1 } else { SLICE };
            for (lane, row) in rows_of(item, long, own.len()).enumerate() {
                let places =
                    rows.slices.offsets[item] as usize..rows.slices.offsets[item + 1] as usize;
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
                let partition = sorted(&blocks, &graph, &transposed);
                let mut found = Vec::new();
                for part in 0..parts {
                    let rows = SlicedRows::new(&transposed, &partition, part, false);
                    assert_eq!(rows.slices.long_rows > 0, has_long_rows);
                    assert!(rows.slices.offsets.len() as u32 > rows.slices.long_rows + 1);
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
