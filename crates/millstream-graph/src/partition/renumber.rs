//! A graph under other vertex ids.

use rayon::prelude::*;

use crate::rows::{offsets, row_blocks};
use crate::{CsrGraph, Weights};

/// The graph with vertex `originals[new]` named `new`, with its weights if they are `weighted`;
/// rows are sorted, and parallel arcs stay in the order that they had.
pub(super) fn renumbered(
    graph: &CsrGraph,
    originals: &[u32],
    renumbered: &[u32],
    weighted: bool,
) -> CsrGraph {
    assert_eq!(graph.vertices() as usize, originals.len(), "a partition of another graph");
    let lengths = originals.iter().map(|&original| graph.degree(original));
    let offsets = offsets(graph.vertices(), lengths);
    let rows = Rows { graph, originals, renumbered, offsets: &offsets };
    let (targets, weights) = match graph.weights().filter(|_| weighted) {
        None => (rows.targets(), None),
        Some(Weights::Integer(weights)) => {
            let (targets, weights) = rows.targets_and(weights);
            (targets, Some(Weights::Integer(weights)))
        }
        Some(Weights::Real(weights)) => {
            let (targets, weights) = rows.targets_and(weights);
            (targets, Some(Weights::Real(weights)))
        }
    };
    CsrGraph::from_valid_csr(offsets, targets, weights)
}

struct Rows<'a> {
    graph: &'a CsrGraph,
    originals: &'a [u32],
    renumbered: &'a [u32],
    offsets: &'a [u64],
}

impl Rows<'_> {
    fn new_target(&self, arc: usize) -> u32 {
        self.renumbered[self.graph.targets()[arc] as usize]
    }

    fn targets(&self) -> Vec<u32> {
        let mut all = vec![0; self.graph.targets().len()];
        row_blocks(self.offsets, &mut all).into_par_iter().for_each(|(rows, mut block)| {
            for &original in &self.originals[rows] {
                let arcs = self.graph.row(original);
                let row = block.split_off_mut(..arcs.len()).unwrap_or_default();
                for (target, arc) in row.iter_mut().zip(arcs) {
                    *target = self.new_target(arc);
                }
                row.sort_unstable();
            }
        });
        all
    }

    fn targets_and<W: Copy + Default + Send + Sync>(&self, weights: &[W]) -> (Vec<u32>, Vec<W>) {
        let mut targets = vec![0; weights.len()];
        let mut kept = vec![W::default(); weights.len()];
        let blocks = row_blocks(self.offsets, &mut targets).into_par_iter();
        blocks.zip(row_blocks(self.offsets, &mut kept)).for_each(|((rows, targets), (_, kept))| {
            let mut places = targets.iter_mut().zip(kept);
            let mut row: Vec<(u32, W)> = Vec::new();
            for &original in &self.originals[rows] {
                let arcs = self.graph.row(original);
                row.clear();
                row.extend(arcs.map(|arc| (self.new_target(arc), weights[arc])));
                row.sort_by_key(|&(target, _)| target);
                for (&(new, its), (target, weight)) in row.iter().zip(places.by_ref()) {
                    (*target, *weight) = (new, its);
                }
            }
        });
        (targets, kept)
    }
}
