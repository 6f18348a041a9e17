//! Paths from trees of predecessors.

use std::iter::successors;

use crate::value::UNREACHED;

/// The path from a source to a reached vertex, by following predecessors, which are [`UNREACHED`] for
/// sources.
///
/// ```
/// use millstream_traversal::UNREACHED;
/// use millstream_traversal::internals::path_to;
///
/// assert_eq!(path_to(&[UNREACHED, 0, 1, UNREACHED], 2), [0, 1, 2]);
/// ```
///
/// # Panics
/// If `vertex`, or a predecessor, is not a vertex.
pub fn path_to(predecessors: &[u32], vertex: u32) -> Vec<u32> {
    let before = |&vertex: &u32| {
        Some(predecessors[vertex as usize]).filter(|&predecessor| predecessor != UNREACHED)
    };
    let mut path: Vec<u32> = successors(Some(vertex), before).collect();
    path.reverse();
    path
}
