//! Which way to search.

use std::fmt;

/// Which way to search; the levels do not depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Algorithm {
    /// Level by level where the devices can, unless the graph has thin levels. Such a graph is searched by
    /// near and far piles where that is possible; else asynchronously on several GPUs if it is
    /// [deep](millstream_graph::DepthProbe::is_deep), and on several host devices if it is
    /// [chain-like](millstream_graph::DepthProbe::is_chain_like), since meeting after each level would
    /// take longer than the level (`docs/decisions/0025-near-and-far-piles.md`). Whether levels may be
    /// bottom-up depends on the graph: see [`Bfs::with_options`](crate::Bfs::with_options).
    #[default]
    Auto,
    /// On the distributed worklist \[G §4.6.1\].
    Asynchronous,
    /// Level by level, top-down or bottom-up, the devices meeting after each. Needs
    /// up to 16 host devices, or up to eight GPUs with NVLink, all of which reach each other.
    LevelSynchronous,
    /// By near and far piles (Davidson, Baxter, Garland and Owens, IPDPS 2014): levels are
    /// distances of arcs of length 1, found in no strict order. Needs devices as
    /// `LevelSynchronous` does, and a graph of up to 256 arcs a vertex and thin levels; for several
    /// GPUs it must be symmetric, in parts that few arcs leave. If too many vertices have to wait
    /// on a GPU, the search goes level by level.
    NearFar,
}

impl fmt::Display for Algorithm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Algorithm::Auto => "auto",
            Algorithm::Asynchronous => "asynchronous",
            Algorithm::LevelSynchronous => "level-synchronous",
            Algorithm::NearFar => "near-far",
        })
    }
}
