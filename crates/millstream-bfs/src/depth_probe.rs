//! Whether the levels of a graph are many and thin, as a road map's are: found out by
//! searching the neighbourhoods of a few vertices on the host.

use std::collections::HashSet;

use millstream_graph::CsrGraph;

/// Vertices whose neighbourhoods are searched.
const CENTERS: u32 = 4;
/// Vertices of a neighbourhood at most. A mesh has hundreds of levels in so many, a
/// graph in which everything is near has one or two dozen.
const NEIGHBOURHOOD: usize = 1 << 15;
/// Levels of a neighbourhood are thin if they have fewer vertices, on average.
const THIN: usize = 512;

/// Whether the largest neighbourhood that was searched has thin levels.
pub(crate) fn is_deep(graph: &CsrGraph) -> bool {
    let step = graph.vertices() / CENTERS;
    let centers = (0..CENTERS).map(|place| place * step + step / 2);
    let searched = centers.filter(|&center| center < graph.vertices());
    let largest = searched.map(|center| neighbourhood(graph, center)).max();
    largest.is_some_and(|(vertices, levels)| vertices < THIN * levels)
}

/// Vertices around one, up to [`NEIGHBOURHOOD`] or a little more, and their levels.
fn neighbourhood(graph: &CsrGraph, center: u32) -> (usize, usize) {
    let mut seen = HashSet::from([center]);
    let (mut frontier, mut levels) = (vec![center], 0);
    while !frontier.is_empty() && seen.len() < NEIGHBOURHOOD {
        levels += 1;
        let mut next = Vec::new();
        for &vertex in &frontier {
            for &target in graph.neighbors(vertex) {
                // A hub's row may be as long as the graph.
                if seen.len() == NEIGHBOURHOOD {
                    break;
                }
                if seen.insert(target) {
                    next.push(target);
                }
            }
        }
        frontier = next;
    }
    (seen.len(), levels)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use millstream_graph::generate::{self, GenerateOptions};

    use super::*;

    #[test]
    fn roads_are_deep_and_kronecker_graphs_are_not() {
        let options = GenerateOptions::default();
        let road = generate::road(300, 300, generate::KEEP_PERMILLE, &options).unwrap();
        assert!(is_deep(&road));
        assert!(!is_deep(&generate::kron(15, 8, &options).unwrap()));
        assert!(!is_deep(&generate::social(15, 9, &options).unwrap()));
    }

    #[test]
    fn sparse_graphs_without_far_ends_are_not_deep() {
        let random = generate::random(1 << 17, 3 << 17, &GenerateOptions::default()).unwrap();
        assert!(!is_deep(&random));
    }

    #[test]
    fn graphs_with_nothing_to_search() {
        assert!(!is_deep(&CsrGraph::from_edges(0, &[]).unwrap()));
        let path = CsrGraph::from_edges(2, &[(0, 1)]).unwrap();
        assert!(is_deep(&path), "one vertex a level");
    }
}
