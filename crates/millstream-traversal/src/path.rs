//! Paths from trees of predecessors.

use std::iter::successors;

use crate::value::UNREACHED;

/// The vertices from a source to one that is reached, along its predecessors, which are [`UNREACHED`] for
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
/// If it, or a predecessor, is no vertex.
pub fn path_to(predecessors: &[u32], vertex: u32) -> Vec<u32> {
    let before = |&vertex: &u32| {
        Some(predecessors[vertex as usize]).filter(|&predecessor| predecessor != UNREACHED)
    };
    let mut path: Vec<u32> = successors(Some(vertex), before).collect();
    path.reverse();
    path
}
