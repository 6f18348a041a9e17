//! PageRank by power iteration.

use std::ops::Range;

use rayon::prelude::*;

use crate::pieces::{InPieces, rows_of};
use crate::{BadWeight, CsrGraph, Weights};

/// What is asked of [`pagerank`], and of its [validator](crate::validate::pagerank).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PageRankQuestion {
    /// Probability to follow an arc, from 0 up to but not including 1.
    pub damping: f64,
    /// Iteration ends when the L1 norm of one sweep's change is at most this.
    pub tolerance: f64,
    /// Iteration ends after so many sweeps, converged or not.
    pub max_iterations: u32,
    /// The vertices that a step leads to if it follows no arc: each equally likely, or twice as
    /// likely if it is named twice. If empty, any vertex.
    pub personalization: Vec<u32>,
    /// Whether arcs are followed in proportion to their weights, rather than each equally likely.
    pub weighted: bool,
}

impl Default for PageRankQuestion {
    fn default() -> PageRankQuestion {
        PageRankQuestion {
            damping: 0.85,
            tolerance: 1e-6,
            max_iterations: 1000,
            personalization: Vec::new(),
            weighted: false,
        }
    }
}

impl PageRankQuestion {
    /// Checks that this can be asked of `graph`.
    ///
    /// # Errors
    /// Damping, a tolerance, a personalization or weights without a meaning; no weights although
    /// they count.
    pub fn check(&self, graph: &CsrGraph) -> Result<(), PageRankError> {
        self.check_for(graph.vertices())?;
        if self.weighted {
            graph.weights().ok_or(PageRankError::NoWeights)?;
            graph.check_weights()?;
        }
        Ok(())
    }

    /// Checks that this can be asked of a graph with `vertices` vertices. Does not check weights.
    ///
    /// # Errors
    /// Damping, a tolerance or a personalization that has no meaning.
    pub fn check_for(&self, vertices: u32) -> Result<(), PageRankError> {
        self.check_numbers()?;
        match self.personalization.iter().find(|&&vertex| vertex >= vertices) {
            Some(&vertex) => Err(PageRankError::Personalization { vertex, vertices }),
            None => Ok(()),
        }
    }

    /// Checks that damping and tolerance have a meaning.
    ///
    /// # Errors
    /// Damping or a tolerance that has no meaning.
    pub fn check_numbers(&self) -> Result<(), PageRankError> {
        let PageRankQuestion { damping, tolerance, .. } = *self;
        if !(0.0..1.0).contains(&damping) {
            return Err(PageRankError::Damping { damping });
        }
        if !(0.0..f64::INFINITY).contains(&tolerance) {
            return Err(PageRankError::Tolerance { tolerance });
        }
        Ok(())
    }
}

/// Ranks, and how they came about.
#[derive(Clone, Debug, PartialEq)]
pub struct PageRankAnswer {
    /// One rank for each vertex; they sum to 1.
    pub ranks: Vec<f64>,
    /// Sweeps made.
    pub iterations: u32,
    /// L1 norm of the last sweep's change.
    pub change: f64,
    /// Whether that is at most the tolerance.
    pub converged: bool,
}

/// Why there are no ranks.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PageRankError {
    /// Damping outside of its range.
    #[error("damping {damping} is not at least 0 and less than 1")]
    Damping {
        /// The damping asked for.
        damping: f64,
    },
    /// A tolerance that is negative or not a number.
    #[error("tolerance {tolerance} is not a number from 0 on")]
    Tolerance {
        /// The tolerance asked for.
        tolerance: f64,
    },
    /// A personalization that is not a vertex.
    #[error("personalization names {vertex}, which is not one of {vertices} vertices")]
    Personalization {
        /// The id named.
        vertex: u32,
        /// Number of vertices.
        vertices: u32,
    },
    /// A weighted rank of a graph without weights.
    #[error("the graph has no weights")]
    NoWeights,
    /// A weight that is negative, infinite or not a number.
    #[error(transparent)]
    Weight(#[from] BadWeight),
}

/// Ranks of all vertices: the chance to be at a vertex after many steps. A step follows any arc of
/// its vertex with probability `damping`, and otherwise leads to a vertex of the personalization.
/// From a vertex that no arc leaves (or, if weighted, whose arcs weigh nothing), a step leads to
/// any vertex. Parallel arcs count separately.
///
/// # Errors
/// A question or weights that have no meaning.
///
/// ```
/// use millstream_graph::CsrGraph;
/// use millstream_graph::reference::{PageRankQuestion, pagerank};
///
/// let cycle = CsrGraph::from_edges(4, &[(0, 1), (1, 2), (2, 3), (3, 0)])?;
/// assert_eq!(pagerank(&cycle, &PageRankQuestion::default())?.ranks, [0.25; 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn pagerank(
    graph: &CsrGraph,
    question: &PageRankQuestion,
) -> Result<PageRankAnswer, PageRankError> {
    let sweep = Sweep::new(graph, question)?;
    let vertices = graph.vertices() as usize;
    let mut ranks = vec![1.0 / vertices as f64; vertices];
    let (mut iterations, mut change) = (0, if vertices == 0 { 0.0 } else { f64::INFINITY });
    while change > question.tolerance && iterations < question.max_iterations {
        let next = sweep.apply(&ranks);
        change = next.iter().zip(&ranks).map(|(next, rank)| (next - rank).abs()).sum();
        ranks = next;
        iterations += 1;
    }
    Ok(PageRankAnswer { ranks, iterations, change, converged: change <= question.tolerance })
}

/// One iteration, of which the ranks are the fixed point. It reduces the L1 distance of any two
/// vectors to at most `damping` times what it was.
#[derive(Debug)]
pub(crate) struct Sweep<'a> {
    graph: &'a CsrGraph,
    question: &'a PageRankQuestion,
    /// For each row, the sum of its weights, or its length.
    row_weights: Vec<f64>,
}

impl<'a> Sweep<'a> {
    pub(crate) fn new(
        graph: &'a CsrGraph,
        question: &'a PageRankQuestion,
    ) -> Result<Sweep<'a>, PageRankError> {
        question.check(graph)?;
        let mut sweep = Sweep { graph, question, row_weights: Vec::new() };
        let row_weight = |vertex| graph.row(vertex).map(|arc| sweep.weight(arc)).sum();
        sweep.row_weights = rows_of(graph).map(row_weight).collect();
        Ok(sweep)
    }

    fn weight(&self, arc: usize) -> f64 {
        match self.graph.weights() {
            Some(Weights::Integer(weights)) if self.question.weighted => f64::from(weights[arc]),
            Some(Weights::Real(weights)) if self.question.weighted => f64::from(weights[arc]),
            _ => 1.0,
        }
    }

    /// The ranks after one iteration from `ranks`, which has one for each vertex.
    pub(crate) fn apply(&self, ranks: &[f64]) -> Vec<f64> {
        let PageRankQuestion { damping, personalization, .. } = self.question;
        let is_dangling = |&(_, weight): &(&f64, &f64)| *weight == 0.0;
        let dangling: f64 =
            ranks.iter().zip(&self.row_weights).filter(is_dangling).map(|(rank, _)| rank).sum();
        let mut to_any = damping * dangling;
        if personalization.is_empty() {
            to_any += 1.0 - damping;
        }
        let mut next = vec![to_any / ranks.len() as f64; ranks.len()];
        for &vertex in personalization {
            next[vertex as usize] += (1.0 - damping) / personalization.len() as f64;
        }
        let slabs = self.slabs();
        let pushed: Vec<Vec<f64>> =
            slabs.into_par_iter().map(|rows| self.pushed(ranks, rows)).collect();
        for pushed in pushed {
            next.par_iter_mut()
                .in_pieces()
                .zip(pushed)
                .for_each(|(next, pushed)| *next += damping * pushed);
        }
        next
    }

    /// Groups of rows with equally many arcs, one for each thread. Their number depends on the
    /// graph only, so that sums do not depend on the number of threads; it is small, since each
    /// group needs sums for all vertices.
    fn slabs(&self) -> Vec<Range<u32>> {
        const MOST: u64 = 16;
        const ARCS: u64 = 1 << 20;
        let (vertices, arcs) = (self.graph.vertices(), self.graph.arcs());
        let slabs = (arcs / ARCS).clamp(1, MOST);
        let first_row = |slab: u64| {
            let first_arc = arcs / slabs * slab;
            self.graph.offsets().partition_point(|&offset| offset < first_arc) as u32
        };
        let end = |slab| if slab == slabs { vertices } else { first_row(slab) };
        (0..slabs).map(|slab| first_row(slab)..end(slab + 1)).collect()
    }

    /// What each vertex gets along the arcs of `rows`, without damping.
    fn pushed(&self, ranks: &[f64], rows: Range<u32>) -> Vec<f64> {
        let mut pushed = vec![0.0; ranks.len()];
        for vertex in rows.filter(|&vertex| self.row_weights[vertex as usize] != 0.0) {
            let share = ranks[vertex as usize] / self.row_weights[vertex as usize];
            for arc in self.graph.row(vertex) {
                pushed[self.graph.targets()[arc] as usize] += share * self.weight(arc);
            }
        }
        pushed
    }
}
