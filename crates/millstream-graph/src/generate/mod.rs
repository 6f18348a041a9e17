//! Graphs of any size from a few numbers: symmetric (both arcs stored), without
//! self-loops and repeated arcs, rows sorted, the same for a seed whatever the
//! number of threads.
//!
//! ```
//! use millstream_graph::generate::{self, GenerateOptions};
//!
//! let options = GenerateOptions { max_weight: Some(64), ..GenerateOptions::default() };
//! let graph = generate::kron(10, 16, &options)?;
//! assert_eq!(graph.vertices(), 1024);
//! # Ok::<(), millstream_graph::generate::GenerateError>(())
//! ```

mod grid;
mod kron;
mod random;
mod rmat;
mod road;
mod social;
mod weights;

pub use grid::grid;
pub use kron::kron;
pub use random::random;
pub use road::{KEEP_PERMILLE, road};
pub use social::social;
pub use weights::{random_real_weights, random_weights, unit_weights};

use crate::symmetric::{EdgeSource, symmetric_graph};
use crate::{CsrGraph, GraphError, Weights};

/// What every generator takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GenerateOptions {
    /// Another seed gives another graph.
    pub seed: u64,
    /// Weights from 1 to this number, the same for both arcs of an edge; `None` for a graph without
    /// weights.
    pub max_weight: Option<u32>,
}

/// Why there is no such graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// More vertices than 32-bit ids can name.
    #[error("{vertices} vertices do not fit 32-bit ids")]
    TooManyVertices {
        /// Number of vertices asked for.
        vertices: u64,
    },
    /// More than 2^31 vertices: 2^32 are more than 32-bit ids can name.
    #[error("scale {scale} is more than 31: 2^{scale} vertices do not fit 32-bit ids")]
    Scale {
        /// Logarithm to base 2 of the number of vertices.
        scale: u32,
    },
    /// More draws than 2^37: while the graph is made, the arcs of each take eight bytes.
    #[error("{edges} edges to draw are more than 2^37, whose arcs take 2^40 bytes")]
    TooManyEdges {
        /// Edges to draw.
        edges: u128,
    },
    /// More edges to keep than the lattice has.
    #[error("cannot keep {permille} of 1000 edges")]
    Keep {
        /// Edges to keep of 1000.
        permille: u32,
    },
    /// A largest weight of 0, since weights begin at 1.
    #[error("the largest weight must be at least 1")]
    NoWeight,
    /// Too large a graph.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

/// The most draws of a graph. Repeats are dropped only after all draws, so a small number of
/// vertices does not reduce memory.
const MOST_DRAWS: u64 = 1 << 37;

/// Refuses, before the first draw, a number of draws that cannot reasonably be held.
fn check_draws(edges: u128) -> Result<u64, GenerateError> {
    let draws = u64::try_from(edges).ok().filter(|&draws| draws <= MOST_DRAWS);
    draws.ok_or(GenerateError::TooManyEdges { edges })
}

fn build(
    vertices: u64,
    source: &impl EdgeSource,
    options: &GenerateOptions,
) -> Result<CsrGraph, GenerateError> {
    // The largest id means "none" in results.
    let count = u32::try_from(vertices).ok().filter(|&vertices| vertices < u32::MAX);
    let count = count.ok_or(GenerateError::TooManyVertices { vertices })?;
    if options.max_weight == Some(0) {
        return Err(GenerateError::NoWeight);
    }
    let graph = symmetric_graph(count, source)?;
    let weight =
        |max| weights::random_integers(graph.offsets(), graph.targets(), max, options.seed);
    let weights = options.max_weight.map(weight).map(Weights::Integer);
    Ok(graph.with_weights(weights)?)
}

#[cfg(test)]
mod tests;
