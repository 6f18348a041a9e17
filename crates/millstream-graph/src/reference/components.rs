//! Weak components by union-find, on all threads at once.

use std::sync::atomic::{AtomicU32, Ordering};

use rayon::prelude::*;

use crate::CsrGraph;
use crate::pieces::rows_of;

/// For each vertex the smallest vertex of its weak component, in which directions
/// of arcs do not count.
///
/// ```
/// use millstream_graph::{CsrGraph, reference::weak_components};
///
/// let graph = CsrGraph::from_edges(5, &[(1, 0), (3, 2), (4, 3)])?;
/// assert_eq!(weak_components(&graph), [0, 0, 2, 2, 2]);
/// # Ok::<(), millstream_graph::GraphError>(())
/// ```
pub fn weak_components(graph: &CsrGraph) -> Vec<u32> {
    let vertices = rows_of(graph);
    let parents = Parents(vertices.clone().map(AtomicU32::new).collect());
    vertices.for_each(|from| {
        graph.neighbors(from).iter().for_each(|&to| parents.unite(from, to));
    });
    // Reuses the memory of the parents.
    let mut labels: Vec<u32> = parents.0.into_iter().map(AtomicU32::into_inner).collect();
    // In ascending order: a parent is smaller than its child, and so has its label already.
    for vertex in 0..labels.len() {
        labels[vertex] = labels[labels[vertex] as usize];
    }
    labels
}

/// A forest. Parents are never larger than their children, so a root is its component's label.
/// Relaxed accesses: whatever has become a vertex's parent stays in the same component, and the end
/// of the parallel loop orders the rest.
struct Parents(Vec<AtomicU32>);

impl Parents {
    fn parent(&self, vertex: u32) -> u32 {
        self.0[vertex as usize].load(Ordering::Relaxed)
    }

    /// Finds the root, and halves the path on the way.
    fn root(&self, mut vertex: u32) -> u32 {
        loop {
            let parent = self.parent(vertex);
            let grandparent = self.parent(parent);
            if parent == grandparent {
                return parent;
            }
            // If this overwrites a nearer ancestor, the path only becomes longer.
            self.0[vertex as usize].store(grandparent, Ordering::Relaxed);
            vertex = grandparent;
        }
    }

    fn unite(&self, one: u32, other: u32) {
        let (mut one, mut other) = (self.root(one), self.root(other));
        while one != other {
            let (small, large) = (one.min(other), one.max(other));
            let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
            // Fails if another thread has meanwhile put this root below another one.
            match self.0[large as usize].compare_exchange(large, small, success, failure) {
                Ok(_) => return,
                Err(parent) => (one, other) = (self.root(parent), self.root(small)),
            }
        }
    }
}
