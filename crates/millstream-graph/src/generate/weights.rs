//! Weights for graphs that have none.

use rayon::prelude::*;

use crate::random::{CounterRandom, Purpose};
use crate::rows::row_blocks;
use crate::{CsrGraph, Weights};

/// A weight of 1 for every arc.
pub fn unit_weights(graph: &CsrGraph) -> Weights {
    Weights::Integer(vec![1; graph.targets().len()])
}

/// Weights from 1 to `max`, each a hash of the seed and the arc's two ends: an arc
/// and its reverse weigh the same. A `max` of 0 is taken for 1.
pub fn random_weights(graph: &CsrGraph, max: u32, seed: u64) -> Weights {
    Weights::Integer(hashed(graph.offsets(), graph.targets(), max, seed))
}

pub(super) fn hashed(offsets: &[u64], targets: &[u32], max: u32, seed: u64) -> Vec<u32> {
    let random = CounterRandom::new(seed, Purpose::Weights);
    let mut weights = vec![0; targets.len()];
    row_blocks(offsets, &mut weights).into_par_iter().for_each(|(rows, block)| {
        let first = offsets[rows.start] as usize;
        for from in rows {
            for arc in offsets[from] as usize..offsets[from + 1] as usize {
                let (from, to) = (from as u64, u64::from(targets[arc]));
                let pair = from.min(to) << 32 | from.max(to);
                block[arc - first] = 1 + random.below(max, pair);
            }
        }
    });
    weights
}
