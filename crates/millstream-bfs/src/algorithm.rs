//! Which way to search.

use millstream_graph::{CsrGraph, partition};

/// Which way to search; the levels do not depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Algorithm {
    /// Level by level where the graph is not mesh-like
    /// ([`is_mesh_like`](partition::is_mesh_like): no vertex has more than 32 arcs), or
    /// where there is only one device, and the devices can; else asynchronous. A
    /// mesh-like graph has so many levels with so few vertices that devices would mostly
    /// wait for each other; on all others few levels have nearly all vertices.
    #[default]
    Auto,
    /// On the distributed worklist \[G §4.6.1\].
    Asynchronous,
    /// Level by level, top-down or bottom-up, the devices meeting after each. Needs
    /// host devices, or up to eight GPUs with NVLink, all of which reach each other.
    LevelSynchronous,
}

/// What of a graph decides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Properties {
    is_mesh_like: bool,
}

impl Properties {
    pub(crate) fn of(graph: &CsrGraph) -> Properties {
        Properties { is_mesh_like: partition::is_mesh_like(graph) }
    }

    /// Whether going bottom-up is worth having the arcs that enter vertices.
    pub(crate) fn is_shallow(self) -> bool {
        !self.is_mesh_like
    }

    /// The algorithm for so many devices, which can go level by level or not.
    pub(crate) fn choose(self, devices: usize, is_possible: bool) -> Algorithm {
        match is_possible && (!self.is_mesh_like || devices == 1) {
            true => Algorithm::LevelSynchronous,
            false => Algorithm::Asynchronous,
        }
    }
}
