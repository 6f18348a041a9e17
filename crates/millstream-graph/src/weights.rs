//! Weights of arcs, and which of them are valid as lengths.

use crate::CsrGraph;
use crate::pieces::first_position;

/// Arc weights, as the file or the generator gave them.
#[derive(Clone, Debug, PartialEq)]
pub enum Weights {
    /// Unsigned integers stay integers.
    Integer(Vec<u32>),
    /// Everything else (reals, negative integers).
    Real(Vec<f32>),
}

impl Weights {
    /// Integer weights; `None` of reals.
    ///
    /// ```
    /// use millstream_graph::Weights;
    ///
    /// let weights = Weights::Integer(vec![9, 2]);
    /// assert_eq!((weights.as_integers(), weights.as_reals()), (Some(&[9, 2][..]), None));
    /// ```
    pub fn as_integers(&self) -> Option<&[u32]> {
        match self {
            Weights::Integer(weights) => Some(weights),
            Weights::Real(_) => None,
        }
    }

    /// Real weights; `None` of integers.
    pub fn as_reals(&self) -> Option<&[f32]> {
        match self {
            Weights::Integer(_) => None,
            Weights::Real(weights) => Some(weights),
        }
    }

    /// Number of weights; one for each arc.
    pub fn len(&self) -> usize {
        match self {
            Weights::Integer(weights) => weights.len(),
            Weights::Real(weights) => weights.len(),
        }
    }

    /// Whether there is no weight at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// An arc whose weight is negative, infinite or not a number.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("arc {from} -> {to} weighs {weight}; weights must be finite and not negative")]
pub struct BadWeight {
    /// Where the arc begins.
    pub from: u32,
    /// Where it ends.
    pub to: u32,
    /// Its weight.
    pub weight: f32,
}

impl CsrGraph {
    /// Checks that every weight is finite and not negative, as shortest paths and weighted ranks
    /// need them. A graph without weights passes.
    ///
    /// ```
    /// use millstream_graph::{BadWeight, CsrGraph, Weights};
    ///
    /// let graph = CsrGraph::from_edges(3, &[(0, 1), (1, 2)])?;
    /// let graph = graph.with_weights(Some(Weights::Real(vec![1.0, -0.5])))?;
    /// assert_eq!(graph.check_weights(), Err(BadWeight { from: 1, to: 2, weight: -0.5 }));
    /// # Ok::<(), millstream_graph::GraphError>(())
    /// ```
    ///
    /// # Errors
    /// The first arc whose weight is negative, infinite or not a number.
    pub fn check_weights(&self) -> Result<(), BadWeight> {
        let Some(Weights::Real(weights)) = self.weights() else { return Ok(()) };
        let is_weight = |weight: &f32| weight.is_finite() && *weight >= 0.0;
        let Some(arc) = first_position(weights.len(), |arc| !is_weight(&weights[arc])) else {
            return Ok(());
        };
        let from = self.offsets().partition_point(|&row| row <= arc as u64) - 1;
        Err(BadWeight { from: from as u32, to: self.targets()[arc], weight: weights[arc] })
    }
}
