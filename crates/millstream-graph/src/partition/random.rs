//! Parts by chance.

use rayon::prelude::*;

use super::Partition;
use crate::CsrGraph;
use crate::pieces::InPieces;
use crate::random::{CounterRandom, Purpose};

/// Each vertex goes to any of the parts, whatever its neighbours. The result depends on the seed,
/// but not on the number of threads.
pub fn random(graph: &CsrGraph, parts: usize, seed: u64) -> Partition {
    let parts = parts.clamp(1, u32::MAX as usize);
    let random = CounterRandom::new(seed, Purpose::Parts);
    let part = |vertex: u32| random.below(parts as u32, u64::from(vertex));
    let part_of: Vec<u32> = (0..graph.vertices()).into_par_iter().in_pieces().map(part).collect();
    Partition::from_valid_parts(parts, &part_of)
}
