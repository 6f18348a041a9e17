//! What can go wrong with a search.

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
    #[error(
        "a search by near and far piles needs up to 16 host devices, or up to eight GPUs with NVLink, and a graph of about four arcs a vertex at most and many thin levels; for several devices it must be symmetric, in parts that few arcs leave"
    )]
    NotNearFar,
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
