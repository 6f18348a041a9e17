//! What can go wrong with a PageRank.

use millstream_graph::GraphError;
use millstream_graph::reference::PageRankError;

/// The result of a PageRank.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a PageRank refused to start, or failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The graph does not fit, or something below failed.
    #[error(transparent)]
    Traversal(#[from] millstream_traversal::Error),
    /// Options or weights that have no meaning.
    #[error(transparent)]
    Question(#[from] PageRankError),
    /// Ranks that left the range of their type.
    #[error("ranks left the range of their type within {iterations} iterations")]
    NotFinite {
        /// See [`PageRankResult::iterations`](crate::PageRankResult::iterations).
        iterations: u32,
    },
    /// No memory for the graph's transpose.
    #[error(transparent)]
    Graph(#[from] GraphError),
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

impl From<millstream_worklist::Error> for Error {
    fn from(error: millstream_worklist::Error) -> Error {
        Error::Traversal(error.into())
    }
}
