//! Which way to search.

use std::fmt;

/// Which way to search; the distances do not depend on it. Each needs rows of its own on
/// the devices, so it is chosen when a graph is uploaded:
/// [`Sssp::with_options`](crate::Sssp::with_options).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Algorithm {
    /// `Stepping` where the devices can and have room for the rows, unless meeting after every step would
    /// cost more than the work between (`docs/decisions/0025-near-and-far-piles.md`). That is expected of a
    /// graph that
    ///
    /// * is [deep](millstream_graph::DepthProbe::is_deep), which takes milliseconds to find out;
    /// * or is [mesh-like](millstream_graph::partition::is_mesh_like), with up to four arcs a vertex as a
    ///   rule, on GPUs only if it is not [near](millstream_graph::DepthProbe::is_near), or is a forest
    ///   on a single GPU;
    /// * or has more arcs, up to 256 a vertex, and is not near, on several devices only if it is mesh-like.
    ///
    /// Such a graph is searched by `NearFar` where that is possible, else by `Asynchronous`.
    #[default]
    Auto,
    /// On the distributed worklist, in no order but that of the soft priority
    /// \[G §4.6.3\].
    Asynchronous,
    /// Delta-stepping (Meyer and Sanders, J. Algorithms 49, 2003), pushing and pulling
    /// (Chakaravarthy et al., IPDPS 2014): the vertices of one range of distances after
    /// the other, the devices meeting after each round. Needs up to 16 host devices, or up to
    /// eight GPUs with NVLink, all of which reach each other. Each step looks through the keys of
    /// all vertices, so that the time of a graph with one path through most of its vertices
    /// grows with their square: on host devices a chain of 300,000 takes minutes.
    Stepping,
    /// By near and far piles (Davidson, Baxter, Garland and Owens, IPDPS 2014) that blocks of
    /// threads keep to themselves. Needs devices as `Stepping` does, and a graph of up to 256 arcs a vertex;
    /// for several GPUs it must be symmetric, in parts that few arcs leave. Predecessors on several
    /// GPUs, where arcs may weigh nothing or weights are reals, come from an asynchronous search,
    /// and so does an answer for which too many vertices had to wait on a GPU, in shorter steps too
    /// ([`SsspOptions::waiting`](crate::SsspOptions::waiting)).
    NearFar,
}

impl fmt::Display for Algorithm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Algorithm::Auto => "auto",
            Algorithm::Asynchronous => "asynchronous",
            Algorithm::Stepping => "stepping",
            Algorithm::NearFar => "near-far",
        })
    }
}
