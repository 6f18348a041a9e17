//! Weak components by union-find.

use crate::CsrGraph;

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
    let mut parents: Vec<u32> = (0..graph.vertices()).collect();
    for from in 0..graph.vertices() {
        for &to in graph.neighbors(from) {
            let (one, other) = (root(&mut parents, from), root(&mut parents, to));
            // The smaller becomes the root, so that a root is its component's label.
            parents[one.max(other) as usize] = one.min(other);
        }
    }
    for vertex in 0..graph.vertices() {
        // Parents are smaller, so this one's is already its label.
        parents[vertex as usize] = parents[parents[vertex as usize] as usize];
    }
    parents
}

/// Halves the path on its way.
fn root(parents: &mut [u32], mut vertex: u32) -> u32 {
    while parents[vertex as usize] != vertex {
        let grandparent = parents[parents[vertex as usize] as usize];
        parents[vertex as usize] = grandparent;
        vertex = grandparent;
    }
    vertex
}
