//! PageRank.

use millstream::graph::CsrGraph;
use rayon::prelude::*;

const DAMPING: f32 = 0.85;

/// What vertices have.
#[derive(Debug)]
pub struct Ranks {
    /// A rank for each.
    pub ranks: Vec<f32>,
    /// What each neighbor gets of a vertex's rank.
    shares: Vec<f32>,
}

impl Ranks {
    /// All vertices have the same.
    pub fn even(graph: &CsrGraph) -> Ranks {
        let vertices = graph.vertices() as usize;
        let ranks = vec![1.0 / vertices as f32; vertices];
        // A copy and not zeros, the pages of which a run would be the first to touch.
        Ranks { shares: ranks.clone(), ranks }
    }
}

/// Improves even ranks by sweeps in which all vertices pull from their predecessors, the neighbors
/// of `transposed`, until one changes them by no more than `tolerance` in all (their L1 norm), or
/// there have been `max_sweeps`.
pub fn pagerank(
    graph: &CsrGraph,
    transposed: &CsrGraph,
    tolerance: f64,
    max_sweeps: u32,
    Ranks { ranks, shares }: &mut Ranks,
) {
    let vertices = graph.vertices();
    for _ in 0..max_sweeps {
        let dangling: f32 = (shares.par_iter_mut().zip(&*ranks).enumerate())
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
}
