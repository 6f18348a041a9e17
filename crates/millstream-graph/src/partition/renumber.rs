//! A graph under other vertex ids.

use rayon::prelude::*;

use super::Partition;
use crate::build::ArcWeight;
use crate::pieces::InPieces;
use crate::rows::{in_each_row, offsets, sort_by_target, sort_by_weight};
use crate::{CsrGraph, Weights};

/// What a row's arcs are sorted by.
#[derive(Clone, Copy)]
pub(super) enum SortedBy {
    /// Their targets, then weights.
    Target,
    /// Their weights, then targets.
    Weight,
}

/// The graph with the partition's ids, and with `weights`, if there are any.
pub(super) fn renumbered(
    graph: &CsrGraph,
    weights: Option<&Weights>,
    partition: &Partition,
    by: SortedBy,
) -> CsrGraph {
    assert_eq!(graph.vertices(), partition.vertices(), "a partition of another graph");
    let vertices = (0..graph.vertices()).into_par_iter().in_pieces();
    let offsets = offsets(vertices.map(|new| graph.degree(partition.to_original(new))));
    let rows = Rows { graph, partition, offsets: &offsets, by };
    let (targets, weights) = match weights {
        None => (rows.filled::<u32>(&[]).0, None),
        Some(Weights::Integer(weights)) => {
            let (targets, weights) = rows.filled(weights);
            (targets, Some(Weights::Integer(weights)))
        }
        Some(Weights::Real(weights)) => {
            let (targets, weights) = rows.filled(weights);
            (targets, Some(Weights::Real(weights)))
        }
    };
    CsrGraph::from_valid_csr(offsets, targets, weights)
}

struct Rows<'a> {
    graph: &'a CsrGraph,
    partition: &'a Partition,
    offsets: &'a [u64],
    by: SortedBy,
}

impl Rows<'_> {
    /// The new targets and weights; `weights` has one for each arc, or none.
    fn filled<W: ArcWeight + Default>(&self, weights: &[W]) -> (Vec<u32>, Vec<W>) {
        let mut all_targets = vec![0; self.graph.targets().len()];
        let mut all_weights = vec![W::default(); weights.len()];
        let fill = |new: usize, targets: &mut [u32], its: &mut [W], scratch: &mut Vec<u64>| {
            let arcs = self.graph.row(self.partition.to_original(new as u32));
            for (target, &original) in targets.iter_mut().zip(&self.graph.targets()[arcs.clone()]) {
                *target = self.partition.to_new(original);
            }
            if !its.is_empty() {
                its.copy_from_slice(&weights[arcs]);
            }
            match self.by {
                SortedBy::Weight if !its.is_empty() => sort_by_weight(targets, its, scratch),
                _ => sort_by_target(targets, its, scratch),
            }
        };
        in_each_row(self.offsets, &mut all_targets, &mut all_weights, &fill);
        (all_targets, all_weights)
    }
}
