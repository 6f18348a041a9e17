//! What streams are for.

use std::fmt;

/// What a stream is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StreamKind {
    /// Kernels.
    Compute,
    /// Kernels that run before others: split-receive \[G §4.3\].
    HighPriority,
    /// Copies.
    Copy,
    /// Copies that do not wait behind large ones.
    SmallCopy,
    /// Kernels that wait for kernels on other devices: up to eight at once on one
    /// GPU, none of which waits for another's stream: see
    /// [`Stream::of_gang`](crate::Stream::of_gang).
    Gang,
}

impl fmt::Display for StreamKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            StreamKind::Compute => "compute",
            StreamKind::HighPriority => "high priority",
            StreamKind::Copy => "copy",
            StreamKind::SmallCopy => "small copy",
            StreamKind::Gang => "gang",
        })
    }
}
