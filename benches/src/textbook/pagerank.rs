//! PageRank.

use millstream::graph::CsrGraph;
use rayon::prelude::*;

const DAMPING: f32 = 0.85;

/// Ranks by sweeps in which all vertices pull from their predecessors, the neighbors of
/// `transposed`, until one changes them by no more than `tolerance` in all (their L1 norm), or
/// there have been `max_sweeps`.
pub fn pagerank(
    graph: &CsrGraph,
    transposed: &CsrGraph,
    tolerance: f64,
    max_sweeps: u32,
) -> Vec<f32> {
    let vertices = graph.vertices();
    let mut ranks = vec![1.0 / vertices as f32; vertices as usize];
    let mut shares = vec![0.0; vertices as usize];
    for _ in 0..max_sweeps {
        let dangling: f32 = (shares.par_iter_mut().zip(&ranks).enumerate())
            .map(|(vertex, (share, &rank))| match graph.degree(vertex as u32) {
                0 => rank,
                degree => {
                    *share = rank / degree as f32;
                    0.0
                }
            })
            .sum();
        let base = (1.0 - DAMPING + DAMPING * dangling) / vertices as f32;
        let pull = |(vertex, rank): (usize, &mut f32)| {
            let sources = transposed.neighbors(vertex as u32).iter();
            let sum = sources.map(|&source| shares[source as usize]).sum::<f32>();
            let before = std::mem::replace(rank, base + DAMPING * sum);
            f64::from((*rank - before).abs())
        };
        let change: f64 = ranks.par_iter_mut().enumerate().map(pull).sum();
        if change <= tolerance {
            break;
        }
    }
    ranks
}
