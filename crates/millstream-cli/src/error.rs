//! What ends a command, and with which exit code.

use std::io::ErrorKind;
use std::path::PathBuf;

use millstream::bfs::Error as BfsError;
use millstream::cc::Error as CcError;
use millstream::flow::Error as FlowError;
use millstream::graph::generate::GenerateError;
use millstream::graph::partition::PartitionError;
use millstream::graph::read::ReadError;
use millstream::graph::write::WriteError;
use millstream::pagerank::Error as RankError;
use millstream::sssp::Error as SsspError;
use millstream::traversal::Error as TraversalError;
use millstream::worklist::Error as WorklistError;

use crate::interrupt;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A file that is not a graph.
    #[error(transparent)]
    Input(#[from] millstream::graph::read::ReadError),
    /// A graph that cannot be written, or not in this format.
    #[error(transparent)]
    Destination(#[from] millstream::graph::write::WriteError),
    /// No graph has these properties.
    #[error(transparent)]
    Generate(#[from] GenerateError),
    /// A graph that does not fit in memory twice.
    #[error(transparent)]
    Graph(#[from] millstream::graph::GraphError),
    /// A graph that the partitioner cannot divide.
    #[error(transparent)]
    Partition(#[from] PartitionError),
    /// Options that do not fit the input.
    #[error("{0}")]
    Usage(String),
    /// The devices could not be opened, or failed.
    #[error(transparent)]
    Flow(#[from] FlowError),
    /// The search failed.
    #[error(transparent)]
    Bfs(#[from] BfsError),
    /// The search for shortest paths failed.
    #[error(transparent)]
    Sssp(#[from] SsspError),
    /// A weight of a file that no arc can have, by the ids of the file.
    #[error(
        "{}: arc {from} -> {to} weighs {weight}; weights must be finite and not negative",
        path.display()
    )]
    Weight {
        /// The file.
        path: PathBuf,
        /// Where the arc begins.
        from: u64,
        /// Where it ends.
        to: u64,
        /// Its weight.
        weight: f32,
    },
    /// A shortest path that is too long for the type of the weights, by the ids of the file.
    #[error(
        "{}: the distance of vertex {vertex} overflows the type of the weights; smaller weights have \
         shorter distances, and --cutoff stops before",
        path.display()
    )]
    Overflow {
        /// The file.
        path: PathBuf,
        /// The vertex at its end.
        vertex: u64,
    },
    /// The ranks could not be computed.
    #[error(transparent)]
    Rank(#[from] RankError),
    /// The search for components failed.
    #[error(transparent)]
    Cc(#[from] CcError),
    /// Ranks that are not close enough; they were output nevertheless.
    #[error("not converged{} after {iterations} iterations; {remedy}", shown_change(*change))]
    NotConverged {
        /// What would help.
        remedy: &'static str,
        /// Sweeps made, or the work in units of a sweep.
        iterations: u32,
        /// How close they are.
        change: f64,
    },
    /// The answer could not be written.
    #[error("{}: {source}", path.display())]
    Output {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The validator found a fault.
    #[error("not verified: {0}")]
    NotVerified(String),
    /// Ctrl-C, SIGTERM or SIGHUP.
    #[error("interrupted")]
    Interrupted,
}

/// The text that follows "not converged"; empty if no sweep was made.
fn shown_change(change: f64) -> String {
    if change.is_finite() { format!(": {change:e}") } else { String::new() }
}

impl Error {
    /// 1 runtime, 2 usage or bad input, 3 not verified, 130 interrupted.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Error::Generate(GenerateError::Graph(_))
            | Error::Input(ReadError::OutOfMemory { .. }) => 1,
            Error::Input(ReadError::Io { source, .. })
                if source.kind() == ErrorKind::OutOfMemory =>
            {
                1
            }
            Error::Input(_) | Error::Generate(_) | Error::Usage(_) | Error::Weight { .. } => 2,
            Error::Bfs(BfsError::Traversal(error))
            | Error::Sssp(SsspError::Traversal(error))
            | Error::Rank(RankError::Traversal(error))
            | Error::Cc(CcError::Traversal(error)) => traversal_code(error),
            Error::Bfs(BfsError::Graph(_))
            | Error::Sssp(SsspError::Graph(_))
            | Error::Rank(RankError::Graph(_) | RankError::NotFinite { .. }) => 1,
            Error::Bfs(_) | Error::Sssp(_) | Error::Rank(_) | Error::Cc(_) => 2,
            Error::Flow(error) => flow_code(error),
            Error::Destination(WriteError::Io { .. }) => 1,
            Error::Destination(_) => 2,
            Error::NotVerified(_) | Error::NotConverged { .. } => 3,
            Error::Interrupted => interrupt::EXIT_CODE,
            Error::Partition(PartitionError::TooLargeForMetis { .. }) => 2,
            Error::Graph(_)
            | Error::Partition(_)
            | Error::Output { .. }
            | Error::Overflow { .. } => 1,
        }
    }
}

fn traversal_code(error: &TraversalError) -> u8 {
    match error {
        TraversalError::SourceOutOfRange { .. }
        | TraversalError::Delta { .. }
        | TraversalError::NotPushed { .. } => 2,
        // Host devices would have accepted it.
        TraversalError::TooManyVertices { .. } | TraversalError::TooManyArcs { .. } => 2,
        TraversalError::Worklist(WorklistError::Flow(error)) => flow_code(error),
        // Another worker or routing would have been accepted.
        TraversalError::Worklist(
            WorklistError::NotFused { .. } | WorklistError::NoOwner { .. },
        ) => 2,
        _ => 1,
    }
}

/// 2 if other options would have been accepted.
fn flow_code(error: &FlowError) -> u8 {
    match error {
        FlowError::PacketTooSmall { .. } | FlowError::NoBuffers => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use millstream::device::TransferWay;
    use millstream::graph::GraphError;
    use millstream::graph::reference::PageRankError;

    use super::*;

    const OUT_OF_MEMORY: GraphError = GraphError::OutOfMemory { bytes: 1 << 40 };

    fn worklist(error: WorklistError) -> Error {
        BfsError::from(TraversalError::from(error)).into()
    }

    #[test]
    fn exit_codes_are_those_of_the_contract() {
        let small = FlowError::PacketTooSmall { bytes: 1, item_bytes: 8 };
        let file = || std::path::PathBuf::from("answer");
        for (error, code) in [
            (Error::Flow(FlowError::Cancelled), 1),
            (Error::Output { path: file(), source: std::io::ErrorKind::NotFound.into() }, 1),
            (Error::Flow(small.clone()), 2),
            (worklist(WorklistError::Flow(small)), 2),
            (worklist(WorklistError::NotFused { reason: "no GPU" }), 2),
            (worklist(WorklistError::NoOwner { item: 0 }), 2),
            (worklist(WorklistError::ProblemCount { problems: 1, devices: 2 }), 1),
            (PartitionError::Metis { reason: "no memory".into() }.into(), 1),
            (PartitionError::Graph(OUT_OF_MEMORY).into(), 1),
            (PartitionError::TooLargeForMetis { vertices: 1, arcs: 1 << 31, parts: 2 }.into(), 2),
            (GenerateError::Graph(OUT_OF_MEMORY).into(), 1),
            (BfsError::NotLevelSynchronous.into(), 2),
            (BfsError::from(TraversalError::Delta { delta: 1e-60 }).into(), 2),
            (BfsError::from(TraversalError::NotPushed { way: TransferWay::Copy }).into(), 2),
            (BfsError::from(TraversalError::TooManyVertices { vertices: 2, most: 1 }).into(), 2),
            (BfsError::from(TraversalError::TooManyArcs { row: 0, arcs: 2, most: 1 }).into(), 2),
            (BfsError::Graph(OUT_OF_MEMORY).into(), 1),
            (SsspError::NoWeights.into(), 2),
            (SsspError::NotStepping.into(), 2),
            (SsspError::Graph(OUT_OF_MEMORY).into(), 1),
            (RankError::Graph(OUT_OF_MEMORY).into(), 1),
            (RankError::NotFinite { iterations: 3 }.into(), 1),
            (RankError::Question(PageRankError::Tolerance { tolerance: -1.0 }).into(), 2),
            (Error::Overflow { path: file(), vertex: 3 }, 1),
            (Error::Weight { path: file(), from: 0, to: 1, weight: -1.0 }, 2),
            (Error::Usage("no such option".into()), 2),
            (Error::NotVerified("a wrong level".into()), 3),
            (Error::NotConverged { remedy: "wait", iterations: 1, change: 0.5 }, 3),
            (Error::Interrupted, 130),
        ] {
            assert_eq!(error.exit_code(), code, "{error}");
        }
    }
}
