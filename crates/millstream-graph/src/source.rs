//! Where a search starts if no source is named.

use rayon::prelude::*;

use crate::CsrGraph;
use crate::pieces::InPieces;

/// The vertex that most arcs leave; if there are several, the smallest of them. `None` if there is
/// no vertex.
///
/// ```
/// use millstream_graph::{CsrGraph, source};
///
/// let graph = CsrGraph::from_edges(3, &[(1, 0), (1, 2), (2, 0)])?;
/// assert_eq!(source::max_degree(&graph), Some(1));
/// # Ok::<(), millstream_graph::GraphError>(())
/// ```
pub fn max_degree(graph: &CsrGraph) -> Option<u32> {
    let key = |&vertex: &u32| (graph.degree(vertex), std::cmp::Reverse(vertex));
    (0..graph.vertices()).into_par_iter().in_pieces().max_by_key(key)
}

/// A vertex in the middle of a road-like lattice: the first with three arcs or more
/// from index `n / 2 + W / 2` on, where `W` is the
/// [`lattice_width`](CsrGraph::lattice_width) or 0. If there is none up to the last
/// vertex the search goes on from vertex 0, and if there is none at all the answer
/// is [`max_degree`].
pub fn center(graph: &CsrGraph) -> Option<u32> {
    let vertices = graph.vertices();
    let middle = (vertices / 2).saturating_add(graph.lattice_width().unwrap_or(0) / 2);
    let middle = middle.min(vertices);
    let mut candidates = (middle..vertices).chain(0..middle);
    candidates.find(|&vertex| graph.degree(vertex) >= 3).or_else(|| max_degree(graph))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{self, GenerateOptions};

    #[test]
    fn the_smallest_of_several_largest_degrees_is_taken() {
        let graph = CsrGraph::from_edges(4, &[(3, 0), (3, 1), (2, 0), (2, 1), (0, 1)]).unwrap();
        assert_eq!(max_degree(&graph), Some(2));
        assert_eq!(max_degree(&CsrGraph::from_edges(0, &[]).unwrap()), None);
        assert_eq!(center(&CsrGraph::from_edges(0, &[]).unwrap()), None);
    }

    #[test]
    fn a_lattice_is_searched_from_its_middle() {
        let graph = generate::grid(5, 5, &GenerateOptions::default()).unwrap();
        // Index 12 + 2 is the end of the middle row, and has three arcs.
        assert_eq!(center(&graph), Some(14));
        let unlabelled =
            CsrGraph::from_csr(graph.offsets().to_vec(), graph.targets().to_vec(), None);
        assert_eq!(center(&unlabelled.unwrap()), Some(12));
    }

    #[test]
    fn the_search_wraps_around_and_falls_back() {
        let star = CsrGraph::from_edges(6, &[(0, 1), (0, 2), (0, 3)]).unwrap();
        assert_eq!(center(&star), Some(0));
        let path = CsrGraph::from_edges(4, &[(2, 1), (2, 3)]).unwrap();
        assert_eq!(center(&path), Some(2));
    }
}
