//! Which way to search.

use std::fmt;

/// Which way to search; the levels do not depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Algorithm {
    /// Level by level where the devices can, which was faster wherever both were measured
    /// but for one case (`docs/measurements/h200.md`): on several GPUs a graph with many
    /// thin levels is searched asynchronously, since meeting takes longer than the levels
    /// do, unless they need not meet after each, as on a road map in compact parts. Whether levels may be bottom-up depends on the
    /// graph: see [`Bfs::with_partition`](crate::Bfs::with_partition).
    #[default]
    Auto,
    /// On the distributed worklist \[G §4.6.1\].
    Asynchronous,
    /// Level by level, top-down or bottom-up, the devices meeting after each. Needs
    /// host devices, or up to eight GPUs with NVLink, all of which reach each other.
    LevelSynchronous,
}

impl fmt::Display for Algorithm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Algorithm::Auto => "auto",
            Algorithm::Asynchronous => "asynchronous",
            Algorithm::LevelSynchronous => "level-synchronous",
        })
    }
}
