//! What can go wrong with shortest paths.

use millstream_graph::BadWeight;
use millstream_traversal::Unsuitable;

/// The result of a search for shortest paths.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a search refused to start, or failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The graph or the source does not fit, or something below failed.
    #[error(transparent)]
    Traversal(#[from] millstream_traversal::Error),
    /// The graph has no weights.
    #[error("the graph has no weights")]
    NoWeights,
    /// A weight that is negative, infinite or not a number.
    #[error(transparent)]
    Weight(#[from] BadWeight),
    /// A shortest path that is too long for the type of the weights.
    #[error("the distance of vertex {vertex} overflows the type of the weights")]
    Overflow {
        /// The vertex at its end.
        vertex: u32,
    },
    /// A cutoff that is negative or not a number.
    #[error("cutoff {cutoff:?} is not a distance")]
    Cutoff {
        /// The cutoff.
        cutoff: f64,
    },
    /// There is no memory for the arcs that enter vertices.
    #[error(transparent)]
    Graph(#[from] millstream_graph::GraphError),
    /// The devices cannot search in steps.
    #[error(
        "a search in steps needs up to 16 host devices, or up to eight GPUs with NVLink, all of which reach each other"
    )]
    NotStepping,
    /// The devices or the graph do not allow a search by near and far piles.
    #[error("this cannot be searched by near and far piles: {reason}")]
    NotNearFar {
        /// The condition that does not hold.
        reason: Unsuitable,
    },
}

impl From<millstream_device::Error> for Error {
    fn from(error: millstream_device::Error) -> Error {
        Error::Traversal(error.into())
    }
}

impl From<millstream_flow::Error> for Error {
    fn from(error: millstream_flow::Error) -> Error {
        Error::Traversal(error.into())
    }
}
