//! Do these predecessors form a tree of shortest paths?

use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use super::sssp::{Distance, Paths};
use super::{BfsFault, SsspFault};
use crate::pieces::{InPieces, rows_of};
use crate::reference::{Distances, SsspError, UNREACHED};
use crate::{CsrGraph, Weights};

/// Checks predecessors against valid levels. Each reached vertex except the sources must have a
/// predecessor that is one level above and has an arc to it; all other vertices must have
/// [`UNREACHED`].
///
/// # Errors
/// A fault found.
pub fn bfs_predecessors(
    graph: &CsrGraph,
    levels: &[u32],
    predecessors: &[u32],
) -> Result<(), BfsFault> {
    let vertices = graph.vertices() as usize;
    for values in [levels.len(), predecessors.len()] {
        if values != vertices {
            return Err(BfsFault::Length { values, vertices });
        }
    }
    // Each predecessor is one level lower, so there are no cycles.
    let is_tight = |from: u32, arc: usize| {
        let (above, below) = (levels[from as usize], levels[graph.targets()[arc] as usize]);
        above != UNREACHED && below == above + 1
    };
    let has_predecessor = |vertex: u32| !matches!(levels[vertex as usize], 0 | UNREACHED);
    match first_misled(graph, predecessors, is_tight, has_predecessor) {
        Some((vertex, predecessor)) => Err(BfsFault::Predecessor { vertex, predecessor }),
        None => Ok(()),
    }
}

/// Checks predecessors against valid distances. Each reached vertex except the sources must have a
/// predecessor with a tight arc to it; all other vertices must have [`UNREACHED`]. There must be no
/// cycle, which weights of 0 would allow.
///
/// # Errors
/// A fault found.
pub fn sssp_predecessors(
    graph: &CsrGraph,
    sources: &[u32],
    distances: &Distances,
    predecessors: &[u32],
) -> Result<(), SsspFault> {
    match (graph.weights().ok_or(SsspError::NoWeights)?, distances) {
        (Weights::Integer(weights), Distances::Integer(distances)) => {
            tree(&Paths::new(graph, sources, weights, distances)?, sources, predecessors)
        }
        (Weights::Real(weights), Distances::Real(distances)) => {
            tree(&Paths::new(graph, sources, weights, distances)?, sources, predecessors)
        }
        _ => Err(SsspFault::Type),
    }
}

fn tree<D: Distance>(
    paths: &Paths<'_, D>,
    sources: &[u32],
    predecessors: &[u32],
) -> Result<(), SsspFault> {
    let vertices = paths.graph.vertices() as usize;
    if predecessors.len() != vertices {
        return Err(SsspFault::Length { values: predecessors.len(), vertices });
    }
    let mut is_source = vec![false; vertices];
    sources.iter().for_each(|&source| is_source[source as usize] = true);
    let is_tight = |from: u32, arc: usize| paths.is_tight(from, arc);
    let has_predecessor = |vertex: u32| paths.is_reached(vertex) && !is_source[vertex as usize];
    if let Some((vertex, predecessor)) =
        first_misled(paths.graph, predecessors, is_tight, has_predecessor)
    {
        return Err(SsspFault::Predecessor { vertex, predecessor });
    }
    match cycle(predecessors) {
        Some(vertex) => Err(SsspFault::Cycle { vertex }),
        None => Ok(()),
    }
}

/// The first vertex, with its predecessor, that has a predecessor it should not have, or none where
/// it should have one. A predecessor must have a tight arc to its vertex.
fn first_misled(
    graph: &CsrGraph,
    predecessors: &[u32],
    is_tight: impl Fn(u32, usize) -> bool + Sync,
    has_predecessor: impl Fn(u32) -> bool + Sync,
) -> Option<(u32, u32)> {
    let led: Vec<AtomicBool> = predecessors.iter().map(|_| AtomicBool::new(false)).collect();
    // Goes once over all arcs. To search the predecessor's row for each vertex would read the row
    // of a hub once for each of its many children.
    rows_of(graph).for_each(|from| {
        for arc in graph.row(from) {
            let to = graph.targets()[arc] as usize;
            if predecessors[to] == from && is_tight(from, arc) {
                led[to].store(true, Ordering::Relaxed);
            }
        }
    });
    let is_misled = |vertex: u32| match has_predecessor(vertex) {
        true => !led[vertex as usize].load(Ordering::Relaxed),
        false => predecessors[vertex as usize] != UNREACHED,
    };
    let vertex = (0..graph.vertices())
        .into_par_iter()
        .in_pieces()
        .find_first(|&vertex| is_misled(vertex))?;
    Some((vertex, predecessors[vertex as usize]))
}

/// A vertex from which the predecessors lead back to it, if there is one.
fn cycle(predecessors: &[u32]) -> Option<u32> {
    const NOT_WALKED: u32 = UNREACHED;
    let mut walked_from = vec![NOT_WALKED; predecessors.len()];
    for start in 0..predecessors.len() as u32 {
        let mut vertex = start;
        while vertex != UNREACHED && walked_from[vertex as usize] == NOT_WALKED {
            walked_from[vertex as usize] = start;
            vertex = predecessors[vertex as usize];
        }
        // The walk has met itself, and not an earlier walk.
        if vertex != UNREACHED && walked_from[vertex as usize] == start {
            return Some(vertex);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference;

    const UN: u32 = UNREACHED;

    #[test]
    fn planted_faults_of_a_breadth_first_tree_are_found() {
        // 0 -> 1 -> 2 -> 3, 0 -> 2, and 4 on its own.
        let graph = CsrGraph::from_edges(5, &[(0, 1), (1, 2), (2, 3), (0, 2)]).unwrap();
        let levels = reference::bfs_levels(&graph, &[0], None);
        assert_eq!(bfs_predecessors(&graph, &levels, &[UN, 0, 0, 2, UN]), Ok(()));
        for (wrong, vertex) in [
            ([0, 0, 0, 2, UN], 0),
            ([UN, UN, 0, 2, UN], 1),
            ([UN, 0, 1, 2, UN], 2),
            ([UN, 0, 0, 1, UN], 3),
            ([UN, 0, 0, 2, 3], 4),
            ([UN, 0, 0, 99, UN], 3),
        ] {
            let predecessor = wrong[vertex as usize];
            let fault = BfsFault::Predecessor { vertex, predecessor };
            assert_eq!(bfs_predecessors(&graph, &levels, &wrong), Err(fault), "{wrong:?}");
        }
        let short = bfs_predecessors(&graph, &levels, &[UN]);
        assert_eq!(short, Err(BfsFault::Length { values: 1, vertices: 5 }));
    }

    #[test]
    fn planted_faults_of_a_shortest_path_tree_are_found() {
        // 0 -1-> 1 -0-> 2 -0-> 3 -0-> 1, 0 -5-> 3, and 4 on its own.
        let arcs = [(0, 1), (0, 3), (1, 2), (2, 3), (3, 1)];
        let weights = Some(Weights::Integer(vec![1, 5, 0, 0, 0]));
        let graph = CsrGraph::from_edges(5, &arcs).unwrap().with_weights(weights).unwrap();
        let distances = reference::dijkstra(&graph, &[0]).unwrap();
        let check =
            |predecessors: &[u32]| sssp_predecessors(&graph, &[0], &distances, predecessors);
        assert_eq!(check(&[UN, 0, 1, 2, UN]), Ok(()));
        for (wrong, vertex) in [
            ([0, 0, 1, 2, UN], 0),
            ([UN, UN, 1, 2, UN], 1),
            ([UN, 2, 1, 2, UN], 1),
            ([UN, 0, 1, 0, UN], 3),
            ([UN, 0, 1, 2, 4], 4),
            ([UN, 0, 1, 77, UN], 3),
        ] {
            let predecessor = wrong[vertex as usize];
            let fault = SsspFault::Predecessor { vertex, predecessor };
            assert_eq!(check(&wrong), Err(fault), "{wrong:?}");
        }
        // Every arc is tight, but no path starts at the source.
        let fault = check(&[UN, 3, 1, 2, UN]).unwrap_err();
        assert!(matches!(fault, SsspFault::Cycle { vertex: 1..=3 }));
        assert_eq!(check(&[UN]), Err(SsspFault::Length { values: 1, vertices: 5 }));
    }

    #[test]
    fn cycles_are_found_wherever_the_walk_begins() {
        assert_eq!(cycle(&[UN, 0, 1, 1]), None);
        assert_eq!(cycle(&[0]), Some(0));
        assert_eq!(cycle(&[1, 2, 1]), Some(1));
        assert_eq!(cycle(&[UN, 2, 1, 0]), Some(1));
    }
}
