//! Are these PageRanks?

use crate::CsrGraph;
use crate::reference::{PageRankError, PageRankQuestion, Sweep};

/// What is wrong with ranks.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PageRankFault {
    /// A question or weights that have no meaning.
    #[error(transparent)]
    Question(#[from] PageRankError),
    /// Not one rank for each vertex.
    #[error("{ranks} ranks for {vertices} vertices")]
    Length {
        /// Ranks given.
        ranks: usize,
        /// Vertices of the graph.
        vertices: usize,
    },
    /// A rank that is no probability.
    #[error("vertex {vertex} has rank {rank}")]
    NotARank {
        /// The vertex.
        vertex: u32,
        /// Its rank.
        rank: f64,
    },
    /// Ranks that may be too far from the true ones.
    #[error(
        "ranks may be {error_bound:e} from the true ones, more than {allowed:e}; \
         vertex {worst_vertex} changes most, by {change:e}"
    )]
    Inexact {
        /// Bound of the L1 distance to the true ranks.
        error_bound: f64,
        /// The bound asked for.
        allowed: f64,
        /// The vertex whose rank changes most in one more sweep.
        worst_vertex: u32,
        /// By how much.
        change: f64,
    },
}

/// Bounds the L1 distance between ranks, which sum to 1, and the true ranks. The bound is the
/// change that one sweep in f64 makes (the residual), divided by 1 - damping. The question's
/// tolerance and number of iterations do not matter.
///
/// # Errors
/// A bound above `allowed`, or anything that has no meaning.
pub fn pagerank(
    graph: &CsrGraph,
    question: &PageRankQuestion,
    ranks: &[f64],
    allowed: f64,
) -> Result<f64, PageRankFault> {
    let sweep = Sweep::new(graph, question)?;
    let vertices = graph.vertices() as usize;
    if ranks.len() != vertices {
        return Err(PageRankFault::Length { ranks: ranks.len(), vertices });
    }
    // A sum of many rounded ranks may end a little above 1.
    if let Some(vertex) = ranks.iter().position(|rank| !(0.0..=1.001).contains(rank)) {
        return Err(PageRankFault::NotARank { vertex: vertex as u32, rank: ranks[vertex] });
    }
    let (mut residual, mut worst_vertex, mut change) = (0.0, 0, 0.0);
    for (vertex, (next, rank)) in sweep.apply(ranks).iter().zip(ranks).enumerate() {
        let own = (next - rank).abs();
        residual += own;
        if own > change {
            (worst_vertex, change) = (vertex as u32, own);
        }
    }
    let error_bound = residual / (1.0 - question.damping);
    if error_bound <= allowed {
        Ok(error_bound)
    } else {
        Err(PageRankFault::Inexact { error_bound, allowed, worst_vertex, change })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference;

    /// A triangle with a tail that ends in a vertex without arcs.
    fn graph() -> CsrGraph {
        CsrGraph::from_edges(5, &[(0, 1), (1, 2), (2, 0), (2, 3), (3, 4)]).unwrap()
    }

    fn exact() -> (PageRankQuestion, Vec<f64>) {
        let question = PageRankQuestion { tolerance: 1e-15, ..PageRankQuestion::default() };
        let ranks = reference::pagerank(&graph(), &question).unwrap().ranks;
        (question, ranks)
    }

    #[test]
    fn the_bound_bounds_the_error() {
        let (question, exact) = exact();
        assert!(pagerank(&graph(), &question, &exact, 1e-12).unwrap() < 1e-12);
        for tolerance in [1e-2, 1e-4, 1e-8] {
            let coarse = PageRankQuestion { tolerance, ..question.clone() };
            let ranks = reference::pagerank(&graph(), &coarse).unwrap().ranks;
            let error: f64 = ranks.iter().zip(&exact).map(|(one, other)| (one - other).abs()).sum();
            let bound = pagerank(&graph(), &question, &ranks, 1.0).unwrap();
            assert!(error <= bound + 1e-14 && bound <= tolerance / 0.15, "{error} {bound}");
        }
    }

    #[test]
    fn planted_faults_are_found() {
        let (question, exact) = exact();
        let check = |change: &dyn Fn(&mut Vec<f64>)| {
            let mut ranks = exact.clone();
            change(&mut ranks);
            pagerank(&graph(), &question, &ranks, 1e-6).unwrap_err()
        };
        assert!(matches!(check(&|ranks| ranks.truncate(4)), PageRankFault::Length { .. }));
        assert!(matches!(check(&|ranks| ranks[3] = f64::NAN), PageRankFault::NotARank { .. }));
        assert!(matches!(check(&|ranks| ranks[3] = -0.1), PageRankFault::NotARank { .. }));
        let moved = check(&|ranks| {
            ranks[4] += 1e-3;
            ranks[0] -= 1e-5;
        });
        assert!(matches!(moved, PageRankFault::Inexact { worst_vertex: 4, .. }));
        let swapped = check(&|ranks| ranks.swap(1, 2));
        assert!(matches!(swapped, PageRankFault::Inexact { .. }));
        let scaled = check(&|ranks| ranks.iter_mut().for_each(|rank| *rank *= 0.999));
        assert!(matches!(scaled, PageRankFault::Inexact { .. }));
        // Zeros differ from the ranks by the sum of all ranks.
        assert!(pagerank(&graph(), &question, &[0.0; 5], 0.999).is_err());
        let other = PageRankQuestion { damping: 0.8, ..question.clone() };
        assert!(pagerank(&graph(), &other, &exact, 1e-6).is_err());
        let other = PageRankQuestion { personalization: vec![0], ..question.clone() };
        assert!(pagerank(&graph(), &other, &exact, 1e-6).is_err());
        let other = PageRankQuestion { damping: 1.0, ..question };
        let fault = pagerank(&graph(), &other, &exact, 1e-6).unwrap_err();
        assert_eq!(fault, PageRankFault::Question(PageRankError::Damping { damping: 1.0 }));
    }
}
