//! A graph under other vertex ids.

use rayon::prelude::*;

use crate::rows::{offsets, row_blocks};
use crate::{CsrGraph, Weights};

/// The graph with vertex `originals[new]` named `new`; rows are sorted, and
/// parallel arcs stay in the order that they had.
pub(super) fn renumbered(graph: &CsrGraph, originals: &[u32], renumbered: &[u32]) -> CsrGraph {
    assert_eq!(graph.vertices() as usize, originals.len(), "a partition of another graph");
    let lengths = originals.iter().map(|&original| graph.degree(original));
    let offsets = offsets(graph.vertices(), lengths);
    let rows = Rows { graph, originals, renumbered, offsets: &offsets };
    let targets = rows.gather(|_, target| target);
    let weights = graph.weights().map(|weights| match weights {
        Weights::Integer(weights) => Weights::Integer(rows.gather(|arc, _| weights[arc])),
        Weights::Real(weights) => Weights::Real(rows.gather(|arc, _| weights[arc])),
    });
    CsrGraph::from_valid_csr(offsets, targets, weights)
}

struct Rows<'a> {
    graph: &'a CsrGraph,
    originals: &'a [u32],
    renumbered: &'a [u32],
    offsets: &'a [u64],
}

impl Rows<'_> {
    /// A value for each new arc, from the position of the old one and the new
    /// target.
    fn gather<T: Copy + Default + Send>(&self, value: impl Fn(usize, u32) -> T + Sync) -> Vec<T> {
        let mut values = vec![T::default(); self.graph.targets().len()];
        row_blocks(self.offsets, &mut values).into_par_iter().for_each(|(rows, block)| {
            let mut slots = block.iter_mut();
            let mut row: Vec<(u32, usize)> = Vec::new();
            for &original in &self.originals[rows] {
                let arcs = self.graph.row(original);
                let new_target = |arc: usize| self.renumbered[self.graph.targets()[arc] as usize];
                row.clear();
                row.extend(arcs.map(|arc| (new_target(arc), arc)));
                row.sort_unstable();
                for (&(target, arc), slot) in row.iter().zip(slots.by_ref()) {
                    *slot = value(arc, target);
                }
            }
        });
        values
    }
}
