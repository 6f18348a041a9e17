//! What can go wrong with an algorithm on a distributed graph.

use millstream_device::TransferWay;

/// The result of an algorithm.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an algorithm refused to start, or failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The worklist, the dataflow graph or a device failed.
    #[error(transparent)]
    Worklist(#[from] millstream_worklist::Error),
    /// A source that is not a vertex.
    #[error("source {source_vertex} is not one of the {vertices} vertices")]
    SourceOutOfRange {
        /// The source.
        source_vertex: u32,
        /// Vertices of the graph.
        vertices: u32,
    },
    /// A partition for another graph or another number of devices.
    #[error(
        "a partition of {vertices} vertices into {parts} parts does not fit a graph of {graph_vertices} vertices on {devices} devices"
    )]
    Partition {
        /// Vertices of the partition.
        vertices: u32,
        /// Its parts.
        parts: usize,
        /// Vertices of the graph.
        graph_vertices: u32,
        /// Devices of the context.
        devices: usize,
    },
    /// A vertex with more arcs than GPUs take.
    #[error(
        "vertex {row} has {arcs} arcs, and GPUs take {most} of one at most; take out duplicates, or use host devices"
    )]
    TooManyArcs {
        /// The vertex, by the id that it has in the graph that was given.
        row: u32,
        /// Its arcs.
        arcs: u64,
        /// The most arcs that a vertex may have.
        most: u64,
    },
    /// A graph with more vertices than GPUs take.
    #[error("the graph has {vertices} vertices, and GPUs take {most} at most; use host devices")]
    TooManyVertices {
        /// Its vertices.
        vertices: u32,
        /// The most vertices that a graph may have.
        most: u32,
    },
    /// A step of the priority threshold that is not positive, or too small or too large to divide by.
    #[error("delta {delta:?} is not a positive number that distances can be divided by")]
    Delta {
        /// The step.
        delta: f64,
    },
    /// Options of a later run that differ from those that the graph was uploaded for.
    #[error("the {option} is chosen when a graph is uploaded, and this one is there for another")]
    ChosenAtUpload {
        /// The option that differs.
        option: &'static str,
    },
    /// A search was asked for whose devices push what they tell each other, although the context
    /// asks for another way for packets.
    #[error(
        "transfers by {way} do not go with this search, whose devices push what they tell each other; an asynchronous one sends packets"
    )]
    NotPushed {
        /// The way that the context asks for.
        way: TransferWay,
    },
}

impl Error {
    /// Whether a device has run out of memory.
    pub fn is_out_of_memory(&self) -> bool {
        use millstream_device::Error::OutOfMemory;
        use millstream_flow::Error::Device;
        use millstream_worklist::Error::Flow;
        matches!(self, Error::Worklist(Flow(Device(OutOfMemory { .. }))))
    }

    /// Whether a layout is too much for the devices, so that another may fit: there is no room for
    /// it, or it has a longer row or more vertices than GPUs take.
    ///
    /// ```
    /// use millstream_traversal::Error;
    ///
    /// assert!(Error::TooManyArcs { row: 3, arcs: 1 << 30, most: 1 << 27 }.is_too_much());
    /// assert!(!Error::Delta { delta: 0.0 }.is_too_much());
    /// ```
    pub fn is_too_much(&self) -> bool {
        let is_beyond = matches!(self, Error::TooManyArcs { .. } | Error::TooManyVertices { .. });
        is_beyond || self.is_out_of_memory()
    }
}

impl From<millstream_device::Error> for Error {
    fn from(error: millstream_device::Error) -> Error {
        Error::Worklist(error.into())
    }
}

impl From<millstream_flow::Error> for Error {
    fn from(error: millstream_flow::Error) -> Error {
        Error::Worklist(error.into())
    }
}
