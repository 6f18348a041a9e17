//! What ends a command, and with which exit code.

use std::path::PathBuf;
use std::process::ExitCode;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A file that is not a graph.
    #[error(transparent)]
    Input(#[from] millstream::graph::read::ReadError),
    /// Options that do not fit the input.
    #[error("{0}")]
    Usage(String),
    /// The devices could not be opened, or failed.
    #[error(transparent)]
    Flow(#[from] millstream::flow::Error),
    /// The search failed.
    #[error(transparent)]
    Bfs(#[from] millstream::bfs::Error),
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
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// 1 runtime, 2 usage or bad input, 3 not verified, 130 interrupted.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Error::Input(_) | Error::Usage(_) => ExitCode::from(2),
            Error::Bfs(millstream::bfs::Error::SourceOutOfRange { .. }) => ExitCode::from(2),
            Error::NotVerified(_) => ExitCode::from(3),
            Error::Interrupted => ExitCode::from(130),
            Error::Flow(_) | Error::Bfs(_) | Error::Output { .. } => ExitCode::from(1),
        }
    }
}
