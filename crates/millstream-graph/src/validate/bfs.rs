//! Is this a breadth-first search?

use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use crate::CsrGraph;
use crate::pieces::{InPieces, rows_of};
use crate::reference::UNREACHED;

/// What is wrong with levels or predecessors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BfsFault {
    /// Not one value for each vertex.
    #[error("{values} values for {vertices} vertices")]
    Length {
        /// Values given.
        values: usize,
        /// Vertices of the graph.
        vertices: usize,
    },
    /// A source that is not a vertex.
    #[error("source {source_vertex} is not one of {vertices} vertices")]
    NoSuchSource {
        /// The source.
        source_vertex: u32,
        /// Vertices of the graph.
        vertices: usize,
    },
    /// A source that is not at level 0, or a vertex at level 0 that is no source.
    #[error("vertex {vertex} is at level {level}, but level 0 is for sources and only them")]
    Source {
        /// The vertex.
        vertex: u32,
        /// Its level.
        level: u32,
    },
    /// An arc that would give its target a lower level.
    #[error("arc {from} -> {to} leads from level {from_level} to level {to_level}")]
    Slack {
        /// Source of the arc.
        from: u32,
        /// Its level.
        from_level: u32,
        /// Target of the arc.
        to: u32,
        /// Its level.
        to_level: u32,
    },
    /// A reached vertex without an arc from the level above.
    #[error("vertex {vertex} at level {level} has no arc from level {}", level - 1)]
    Unsupported {
        /// The vertex.
        vertex: u32,
        /// Its level.
        level: u32,
    },
    /// A level beyond the depth limit.
    #[error("vertex {vertex} at level {level} lies beyond the depth limit")]
    TooDeep {
        /// The vertex.
        vertex: u32,
        /// Its level.
        level: u32,
    },
    /// A predecessor that is not one level above or has no arc, one where none
    /// belongs, or none where one belongs.
    #[error("vertex {predecessor} is not a predecessor of vertex {vertex}")]
    Predecessor {
        /// The vertex.
        vertex: u32,
        /// What was said to precede it.
        predecessor: u32,
    },
}

/// Checks levels: sources and only they are at level 0, no arc skips a level, and
/// every other reached vertex has an arc from the level above. Levels equal to
/// [`UNREACHED`] say that a vertex is not reached; `depth_limit` is the
/// last level, if there is one.
///
/// # Errors
/// The first fault found.
pub fn bfs_levels(
    graph: &CsrGraph,
    sources: &[u32],
    depth_limit: Option<u32>,
    levels: &[u32],
) -> Result<(), BfsFault> {
    let depth_limit = depth_limit.unwrap_or(UNREACHED);
    let vertices = graph.vertices() as usize;
    if levels.len() != vertices {
        return Err(BfsFault::Length { values: levels.len(), vertices });
    }
    if let Some(&source_vertex) = sources.iter().find(|&&source| source as usize >= vertices) {
        return Err(BfsFault::NoSuchSource { source_vertex, vertices });
    }
    let is_source: Vec<AtomicBool> = (0..vertices).map(|_| AtomicBool::new(false)).collect();
    for &source in sources {
        is_source[source as usize].store(true, Ordering::Relaxed);
    }
    let supported = is_source;
    levels.par_iter().in_pieces().enumerate().try_for_each(|(vertex, &level)| {
        let vertex = vertex as u32;
        if (level == 0) != supported[vertex as usize].load(Ordering::Relaxed) {
            return Err(BfsFault::Source { vertex, level });
        }
        if level != UNREACHED && level > depth_limit {
            return Err(BfsFault::TooDeep { vertex, level });
        }
        Ok(())
    })?;
    rows_of(graph).try_for_each(|from| {
        let from_level = levels[from as usize];
        if from_level >= depth_limit {
            return Ok(());
        }
        for &to in graph.neighbors(from) {
            let to_level = levels[to as usize];
            if to_level > from_level + 1 {
                return Err(BfsFault::Slack { from, from_level, to, to_level });
            }
            if to_level == from_level + 1 {
                supported[to as usize].store(true, Ordering::Relaxed);
            }
        }
        Ok(())
    })?;
    levels.par_iter().in_pieces().enumerate().try_for_each(|(vertex, &level)| {
        let alone = level != UNREACHED && !supported[vertex].load(Ordering::Relaxed);
        if alone { Err(BfsFault::Unsupported { vertex: vertex as u32, level }) } else { Ok(()) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference;

    /// 0 -> 1 -> 2 -> 3, 0 -> 2, and 4 on its own.
    fn graph() -> CsrGraph {
        CsrGraph::from_edges(5, &[(0, 1), (1, 2), (2, 3), (0, 2)]).unwrap()
    }

    #[test]
    fn the_reference_is_valid() {
        for depth_limit in [Some(0), Some(1), Some(2), None] {
            let levels = reference::bfs_levels(&graph(), &[0], depth_limit);
            assert_eq!(bfs_levels(&graph(), &[0], depth_limit, &levels), Ok(()));
        }
    }

    #[test]
    fn planted_faults_are_found() {
        let check = |levels: [u32; 5]| bfs_levels(&graph(), &[0], None, &levels).unwrap_err();
        let un = UNREACHED;
        assert!(matches!(check([1, 2, 2, 3, un]), BfsFault::Source { vertex: 0, .. }));
        assert!(matches!(check([0, 0, 1, 2, un]), BfsFault::Source { vertex: 1, .. }));
        assert!(matches!(check([0, 1, 2, 3, un]), BfsFault::Slack { from: 0, to: 2, .. }));
        assert!(matches!(check([0, 1, 1, un, un]), BfsFault::Slack { from: 2, to: 3, .. }));
        assert!(matches!(check([0, 1, 1, 1, un]), BfsFault::Unsupported { vertex: 3, .. }));
        assert!(matches!(check([0, 1, 1, 2, 7]), BfsFault::Unsupported { vertex: 4, .. }));
        let limited = bfs_levels(&graph(), &[0], Some(1), &[0, 1, 1, 2, un]).unwrap_err();
        assert!(matches!(limited, BfsFault::TooDeep { vertex: 3, .. }));
        let short = bfs_levels(&graph(), &[0], Some(1), &[0]).unwrap_err();
        assert!(matches!(short, BfsFault::Length { .. }));
        let source = bfs_levels(&graph(), &[5], Some(1), &[0; 5]).unwrap_err();
        assert_eq!(source, BfsFault::NoSuchSource { source_vertex: 5, vertices: 5 });
    }
}
