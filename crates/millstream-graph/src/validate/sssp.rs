//! Are these the shortest distances?

use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use crate::pieces::{InPieces, first_position, rows_of};
use crate::reference::{Distances, SsspError};
use crate::{CsrGraph, Weights};

/// What is wrong with distances or predecessors.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SsspFault {
    /// The question has no answer: no weights, a wrong weight or source.
    #[error(transparent)]
    Question(#[from] SsspError),
    /// Distances that are not of the weights' type.
    #[error("distances and weights are of different types")]
    Type,
    /// Not one value for each vertex.
    #[error("{values} values for {vertices} vertices")]
    Length {
        /// Values given.
        values: usize,
        /// Vertices of the graph.
        vertices: usize,
    },
    /// A source that is not at distance 0.
    #[error("source {vertex} is at distance {distance}")]
    Source {
        /// The source.
        vertex: u32,
        /// Its distance.
        distance: f64,
    },
    /// Negative, or not a number.
    #[error("vertex {vertex} is at distance {distance}")]
    NotADistance {
        /// The vertex.
        vertex: u32,
        /// Its distance.
        distance: f64,
    },
    /// An arc that makes the distance of its target smaller, or finite.
    #[error("arc {from} -> {to} relaxes distance {distance} of vertex {to}")]
    Relaxable {
        /// Source of the arc.
        from: u32,
        /// Target of the arc.
        to: u32,
        /// The target's distance.
        distance: f64,
    },
    /// A finite distance beyond the cutoff.
    #[error("vertex {vertex} at distance {distance} lies beyond the cutoff")]
    TooFar {
        /// The vertex.
        vertex: u32,
        /// Its distance.
        distance: f64,
    },
    /// A finite distance that is no path's length.
    #[error("no path from the source is as long as distance {distance} of vertex {vertex}")]
    Unsupported {
        /// The vertex.
        vertex: u32,
        /// Its distance.
        distance: f64,
    },
    /// A predecessor without a tight arc, one where none belongs, or none where one
    /// belongs.
    #[error("vertex {predecessor} is not a predecessor of vertex {vertex}")]
    Predecessor {
        /// The vertex.
        vertex: u32,
        /// What was said to precede it.
        predecessor: u32,
    },
    /// Predecessors that lead back to where they start.
    #[error("the predecessors of vertex {vertex} form a cycle")]
    Cycle {
        /// A vertex of the cycle.
        vertex: u32,
    },
}

/// Checks distances from the nearest of several sources: sources are at 0, no arc
/// can be relaxed, and every finite vertex is reached from a source by a walk over
/// tight arcs (those that give their target exactly its distance, in the arithmetic
/// of its type). Zero weights are allowed.
///
/// With a `cutoff`, all of this holds for the vertices within it, and no other vertex has a finite
/// distance. Without one, a path that overflows is a fault, and so is a distance of
/// [`Distances::TOO_FAR`].
///
/// ```
/// use millstream_graph::CsrGraph;
/// use millstream_graph::reference::Distances;
/// use millstream_graph::validate::sssp_distances;
///
/// let path = CsrGraph::from_weighted_edges(3, &[(0, 1, 2u32), (1, 2, 3)])?;
/// let near = Distances::Integer(vec![0, 2, u32::MAX]);
/// assert!(sssp_distances(&path, &[0], Some(4.0), &near).is_ok());
/// assert!(sssp_distances(&path, &[0], None, &near).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// A fault found.
pub fn sssp_distances(
    graph: &CsrGraph,
    sources: &[u32],
    cutoff: Option<f64>,
    distances: &Distances,
) -> Result<(), SsspFault> {
    match (graph.weights().ok_or(SsspError::NoWeights)?, distances) {
        (Weights::Integer(weights), Distances::Integer(distances)) => {
            Paths::new(graph, sources, weights, distances)?.check(sources, cutoff)
        }
        (Weights::Real(weights), Distances::Real(distances)) => {
            Paths::new(graph, sources, weights, distances)?.check(sources, cutoff)
        }
        _ => Err(SsspFault::Type),
    }
}

/// The arithmetic of a type of weights and distances.
pub(super) trait Distance: Copy + PartialOrd + Default + Into<f64> + Send + Sync {
    const UNREACHED: Self;

    /// Whether a vertex may be at this distance.
    fn is_valid(self) -> bool;

    /// The distance at the end of an arc; `None` if it overflows.
    fn extended(self, weight: Self) -> Option<Self>;
}

impl Distance for u32 {
    const UNREACHED: u32 = u32::MAX;

    fn is_valid(self) -> bool {
        true
    }

    fn extended(self, weight: u32) -> Option<u32> {
        self.checked_add(weight).filter(|&sum| sum < Distances::TOO_FAR)
    }
}

impl Distance for f32 {
    const UNREACHED: f32 = f32::INFINITY;

    fn is_valid(self) -> bool {
        self >= 0.0
    }

    fn extended(self, weight: f32) -> Option<f32> {
        Some(self + weight).filter(|sum| sum.is_finite())
    }
}

/// A graph with distances of the type of its weights, all of them valid.
pub(super) struct Paths<'a, D> {
    pub(super) graph: &'a CsrGraph,
    weights: &'a [D],
    distances: &'a [D],
}

impl<'a, D: Distance> Paths<'a, D> {
    pub(super) fn new(
        graph: &'a CsrGraph,
        sources: &[u32],
        weights: &'a [D],
        distances: &'a [D],
    ) -> Result<Paths<'a, D>, SsspFault> {
        let vertices = graph.vertices();
        if distances.len() != vertices as usize {
            let (values, vertices) = (distances.len(), vertices as usize);
            return Err(SsspFault::Length { values, vertices });
        }
        if let Some(&source_vertex) = sources.iter().find(|&&source| source >= vertices) {
            return Err(SsspError::Source { source_vertex, vertices }.into());
        }
        graph.check_weights().map_err(SsspError::from)?;
        if let Some(vertex) =
            first_position(distances.len(), |vertex| !distances[vertex].is_valid())
        {
            let (vertex, distance) = (vertex as u32, distances[vertex].into());
            return Err(SsspFault::NotADistance { vertex, distance });
        }
        Ok(Paths { graph, weights, distances })
    }

    fn check(&self, sources: &[u32], cutoff: Option<f64>) -> Result<(), SsspFault> {
        if let Some(&vertex) = sources.iter().find(|&&v| self.distance(v) != D::default()) {
            return Err(SsspFault::Source { vertex, distance: self.distance(vertex).into() });
        }
        let is_beyond = |distance: f64| cutoff.is_some_and(|cutoff| distance > cutoff);
        let too_far = |&v: &u32| self.is_reached(v) && is_beyond(self.distance(v).into());
        if let Some(vertex) =
            (0..self.graph.vertices()).into_par_iter().in_pieces().find_first(too_far)
        {
            return Err(SsspFault::TooFar { vertex, distance: self.distance(vertex).into() });
        }
        rows_of(self.graph).try_for_each(|from| {
            let mut row = if self.is_reached(from) { self.graph.row(from) } else { 0..0 };
            match row.find(|&arc| self.is_relaxable(from, arc, cutoff)) {
                Some(arc) => {
                    let to = self.graph.targets()[arc];
                    Err(SsspFault::Relaxable { from, to, distance: self.distance(to).into() })
                }
                None => Ok(()),
            }
        })?;
        let walked = self.walk_tight_arcs(sources);
        let is_walked = |vertex: u32| walked[vertex as usize].load(Ordering::Relaxed);
        let unsupported = |&vertex: &u32| self.is_reached(vertex) && !is_walked(vertex);
        match (0..self.graph.vertices()).find(unsupported) {
            Some(vertex) => {
                Err(SsspFault::Unsupported { vertex, distance: self.distance(vertex).into() })
            }
            None => Ok(()),
        }
    }

    pub(super) fn distance(&self, vertex: u32) -> D {
        self.distances[vertex as usize]
    }

    pub(super) fn is_reached(&self, vertex: u32) -> bool {
        self.distance(vertex) != D::UNREACHED
    }

    /// To be called for an arc that leaves a reached vertex.
    fn is_relaxable(&self, from: u32, arc: usize, cutoff: Option<f64>) -> bool {
        let to = self.graph.targets()[arc];
        let through = self.distance(from).extended(self.weights[arc]);
        let is_beyond = |cutoff| through.is_none_or(|through| through.into() > cutoff);
        if cutoff.is_some_and(is_beyond) {
            return false;
        }
        !self.is_reached(to) || through.is_some_and(|through| through < self.distance(to))
    }

    pub(super) fn is_tight(&self, from: u32, arc: usize) -> bool {
        let to = self.graph.targets()[arc];
        self.is_reached(from)
            && self.distance(from).extended(self.weights[arc]) == Some(self.distance(to))
    }

    /// The vertices that walks over tight arcs reach from the sources, found level by level.
    fn walk_tight_arcs(&self, sources: &[u32]) -> Vec<AtomicBool> {
        let mut walked = Vec::new();
        walked.resize_with(self.distances.len(), AtomicBool::default);
        // Relaxed: whichever thread swaps first gets the vertex, and the parallel loops order the levels.
        let is_first = |vertex: u32| {
            let walked = &walked[vertex as usize];
            !walked.load(Ordering::Relaxed) && !walked.swap(true, Ordering::Relaxed)
        };
        let mut frontier: Vec<u32> = sources.iter().copied().filter(|&v| is_first(v)).collect();
        while !frontier.is_empty() {
            let next = frontier.par_iter().flat_map_iter(|&from| {
                let tight = self.graph.row(from).filter(move |&arc| self.is_tight(from, arc));
                tight.map(|arc| self.graph.targets()[arc]).filter(|&to| is_first(to))
            });
            frontier = next.collect();
        }
        walked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BadWeight, reference};

    /// 0 -2-> 1 -3-> 2, 0 -9-> 2, 2 -0-> 3 -0-> 2, and 4 -0-> 5 -0-> 4 apart.
    fn graph() -> CsrGraph {
        let arcs = [(0, 1), (0, 2), (1, 2), (2, 3), (3, 2), (4, 5), (5, 4)];
        let weights = Weights::Integer(vec![2, 9, 3, 0, 0, 0, 0]);
        CsrGraph::from_edges(6, &arcs).unwrap().with_weights(Some(weights)).unwrap()
    }

    fn real_graph() -> CsrGraph {
        let weights = Weights::Real(vec![0.1, 9.0, 0.2, 0.0, 0.0, 0.0, 0.0]);
        graph().with_weights(Some(weights)).unwrap()
    }

    const UN: u32 = u32::MAX;

    fn check(distances: [u32; 6]) -> Result<(), SsspFault> {
        sssp_distances(&graph(), &[0], None, &Distances::Integer(distances.to_vec()))
    }

    #[test]
    fn the_reference_is_valid() {
        assert_eq!(check([0, 2, 5, 5, UN, UN]), Ok(()));
        for graph in [graph(), real_graph()] {
            for sources in [&[0][..], &[1], &[0, 4], &[]] {
                let distances = reference::dijkstra(&graph, sources).unwrap();
                assert_eq!(sssp_distances(&graph, sources, None, &distances), Ok(()));
            }
        }
    }

    #[test]
    fn planted_faults_are_found() {
        use SsspFault::*;
        assert_eq!(check([1, 2, 5, 5, UN, UN]), Err(Source { vertex: 0, distance: 1.0 }));
        let longer = check([0, 2, 9, 9, UN, UN]);
        assert_eq!(longer, Err(Relaxable { from: 1, to: 2, distance: 9.0 }));
        assert!(matches!(check([0, 2, 5, UN, UN, UN]), Err(Relaxable { from: 2, to: 3, .. })));
        assert_eq!(check([0, 1, 4, 4, UN, UN]), Err(Unsupported { vertex: 1, distance: 1.0 }));
        // Vertices 2 and 3 support each other by arcs of weight 0.
        assert_eq!(check([0, 2, 4, 4, UN, UN]), Err(Unsupported { vertex: 2, distance: 4.0 }));
        // So do 4 and 5, which no path reaches.
        assert_eq!(check([0, 2, 5, 5, 7, 7]), Err(Unsupported { vertex: 4, distance: 7.0 }));
        assert_eq!(check([0, 2, 5, 5, 0, 0]), Err(Unsupported { vertex: 4, distance: 0.0 }));
        let short = sssp_distances(&graph(), &[0], None, &Distances::Integer(vec![0]));
        assert_eq!(short, Err(Length { values: 1, vertices: 6 }));
        assert_eq!(sssp_distances(&graph(), &[0], None, &Distances::Real(vec![0.0; 6])), Err(Type));
        let source = sssp_distances(&graph(), &[6], None, &Distances::Integer(vec![UN; 6]));
        let expected = SsspError::Source { source_vertex: 6, vertices: 6 };
        assert_eq!(source, Err(Question(expected)));
        let weights = graph().with_weights(None).unwrap();
        let unweighted = sssp_distances(&weights, &[0], None, &Distances::Integer(vec![0; 6]));
        assert_eq!(unweighted, Err(Question(SsspError::NoWeights)));
    }

    #[test]
    fn reals_are_tight_as_they_are_rounded() {
        let far = f32::INFINITY;
        let check = |distances: [f32; 6]| {
            sssp_distances(&real_graph(), &[0], None, &Distances::Real(distances.to_vec()))
        };
        let sum = 0.1f32 + 0.2;
        assert_eq!(check([0.0, 0.1, sum, sum, far, far]), Ok(()));
        let less = sum.next_down();
        let below = check([0.0, 0.1, less, less, far, far]);
        assert!(matches!(below, Err(SsspFault::Unsupported { vertex: 2, .. })));
        let more = sum.next_up();
        let above = check([0.0, 0.1, more, more, far, far]);
        assert!(matches!(above, Err(SsspFault::Relaxable { from: 1, to: 2, .. })));
        for wrong in [f32::NAN, -1.0] {
            let fault = check([0.0, 0.1, sum, wrong, far, far]);
            assert!(matches!(fault, Err(SsspFault::NotADistance { vertex: 3, .. })));
        }
        let weights = Weights::Real(vec![0.1, 9.0, 0.2, 0.0, 0.0, 0.0, -1.0]);
        let graph = graph().with_weights(Some(weights)).unwrap();
        let fault = sssp_distances(&graph, &[0], None, &Distances::Real(vec![far; 6]));
        let expected = SsspError::Weight(BadWeight { from: 5, to: 4, weight: -1.0 });
        assert_eq!(fault, Err(SsspFault::Question(expected)));
    }

    #[test]
    fn overflow_does_not_hide_a_path() {
        let far = Distances::TOO_FAR - 1;
        let weights = Some(Weights::Integer(vec![far, 1]));
        let path = CsrGraph::from_edges(3, &[(0, 1), (1, 2)]).unwrap().with_weights(weights);
        let path = path.unwrap();
        let overflow = reference::dijkstra(&path, &[0]);
        assert_eq!(overflow, Err(SsspError::Overflow { vertex: 2 }));
        for wrong in [0, Distances::TOO_FAR, UN] {
            let distances = Distances::Integer(vec![0, far, wrong]);
            assert!(sssp_distances(&path, &[0], None, &distances).is_err());
        }
    }

    #[test]
    fn a_cutoff_bounds_what_must_be_reached() {
        let check = |cutoff, distances: [u32; 6]| {
            sssp_distances(&graph(), &[0], Some(cutoff), &Distances::Integer(distances.to_vec()))
        };
        for (cutoff, distances) in [
            (0.0, [0, UN, UN, UN, UN, UN]),
            (4.5, [0, 2, UN, UN, UN, UN]),
            (5.0, [0, 2, 5, 5, UN, UN]),
            (f64::INFINITY, [0, 2, 5, 5, UN, UN]),
        ] {
            assert_eq!(check(cutoff, distances), Ok(()), "{cutoff}");
        }
        let beyond = check(4.0, [0, 2, 5, 5, UN, UN]);
        assert_eq!(beyond, Err(SsspFault::TooFar { vertex: 2, distance: 5.0 }));
        let missing = check(5.0, [0, 2, UN, UN, UN, UN]);
        assert!(matches!(missing, Err(SsspFault::Relaxable { from: 1, to: 2, .. })));
        let longer = check(9.0, [0, 2, 9, 9, UN, UN]);
        assert!(matches!(longer, Err(SsspFault::Relaxable { from: 1, to: 2, .. })));
        let shorter = check(3.5, [0, 1, UN, UN, UN, UN]);
        assert_eq!(shorter, Err(SsspFault::Unsupported { vertex: 1, distance: 1.0 }));
        let reals = Distances::Real([&[0.0, 0.1][..], &[f32::INFINITY; 4]].concat());
        assert_eq!(sssp_distances(&real_graph(), &[0], Some(0.25), &reals), Ok(()));
    }

    #[test]
    fn what_overflows_lies_beyond_any_cutoff() {
        let path = CsrGraph::from_weighted_edges(3, &[(0, 1, 7), (1, 2, u32::MAX)]).unwrap();
        let distances = Distances::Integer(vec![0, 7, UN]);
        assert_eq!(sssp_distances(&path, &[0], Some(7.0), &distances), Ok(()));
        assert!(sssp_distances(&path, &[0], None, &distances).is_err());
    }
}
