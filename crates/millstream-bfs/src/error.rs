//! What can go wrong with a search.

use millstream_traversal::Unsuitable;

/// The result of a search.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a search refused to start, or failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The graph does not fit, or something below failed.
    #[error(transparent)]
    Traversal(#[from] millstream_traversal::Error),
    /// There is no memory for the arcs that enter vertices.
    #[error(transparent)]
    Graph(#[from] millstream_graph::GraphError),
    /// The devices cannot search level by level.
    #[error(
        "a level-synchronous search needs up to 16 host devices, or up to eight GPUs with NVLink, all of which reach each other"
    )]
    NotLevelSynchronous,
    /// The devices or the graph do not allow a search by near and far piles.
    #[error("this cannot be searched by near and far piles: {reason}")]
    NotNearFar {
        /// The condition that does not hold.
        reason: Unsuitable,
    },
    /// A search by near and far piles that may not read what it needs.
    #[error("a search by near and far piles reads packed rows, which the options say not to")]
    NearFarWithoutLayouts,
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
