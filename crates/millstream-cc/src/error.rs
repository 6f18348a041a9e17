//! What can go wrong with connected components.

/// The result of a search for components.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a search refused to start, or failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The graph does not fit, or something below failed.
    #[error(transparent)]
    Traversal(#[from] millstream_traversal::Error),
    /// An edge of a stream that names a vertex that does not exist.
    #[error("edge {edge} names vertex {vertex}, but there are only {vertices} vertices")]
    VertexOutOfRange {
        /// Position of the edge in the stream.
        edge: u64,
        /// The offending id.
        vertex: u32,
        /// Number of vertices.
        vertices: u32,
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
