//! Breadth-first search with a queue.

use std::collections::VecDeque;

use super::UNREACHED;
use crate::CsrGraph;

/// Levels from several sources (level 0), along arcs, up to `depth_limit` if there
/// is one; [`UNREACHED`] elsewhere.
///
/// # Panics
/// If a source is not a vertex.
///
/// ```
/// use millstream_graph::{CsrGraph, reference::bfs_levels};
///
/// let path = CsrGraph::from_edges(3, &[(0, 1), (1, 2)])?;
/// assert_eq!(bfs_levels(&path, &[0], None), [0, 1, 2]);
/// # Ok::<(), millstream_graph::GraphError>(())
/// ```
pub fn bfs_levels(graph: &CsrGraph, sources: &[u32], depth_limit: Option<u32>) -> Vec<u32> {
    let mut levels = vec![UNREACHED; graph.vertices() as usize];
    let mut queue = VecDeque::new();
    for &source in sources {
        if levels[source as usize] == UNREACHED {
            levels[source as usize] = 0;
            queue.push_back(source);
        }
    }
    while let Some(vertex) = queue.pop_front() {
        let next = levels[vertex as usize] + 1;
        if depth_limit.is_some_and(|limit| next > limit) {
            continue;
        }
        for &target in graph.neighbors(vertex) {
            if levels[target as usize] == UNREACHED {
                levels[target as usize] = next;
                queue.push_back(target);
            }
        }
    }
    levels
}
