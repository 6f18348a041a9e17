//! Shortest paths by Dijkstra's algorithm.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::{BadWeight, CsrGraph, Weights};

/// Distances in the weights' own type.
#[derive(Clone, Debug, PartialEq)]
pub enum Distances {
    /// `u32::MAX` where there is no path; all others are less than [`Distances::TOO_FAR`].
    Integer(Vec<u32>),
    /// Infinity where there is no path; each is a sum from the source on, rounded
    /// after every arc.
    Real(Vec<f32>),
}

impl Distances {
    /// Integer distances overflow from this number on. The two largest numbers are not distances,
    /// since devices use one for what is too far and one for what is not reached.
    pub const TOO_FAR: u32 = u32::MAX - 1;

    /// Integer distances; `None` of reals.
    ///
    /// ```
    /// use millstream_graph::reference::Distances;
    ///
    /// let distances = Distances::Real(vec![0.0, 2.5]);
    /// assert_eq!((distances.as_integers(), distances.as_reals()), (None, Some(&[0.0, 2.5][..])));
    /// ```
    pub fn as_integers(&self) -> Option<&[u32]> {
        match self {
            Distances::Integer(distances) => Some(distances),
            Distances::Real(_) => None,
        }
    }

    /// Real distances; `None` of integers.
    pub fn as_reals(&self) -> Option<&[f32]> {
        match self {
            Distances::Integer(_) => None,
            Distances::Real(distances) => Some(distances),
        }
    }
}

/// Why there are no distances.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SsspError {
    /// The graph has no weights.
    #[error("the graph has no weights")]
    NoWeights,
    /// A source that is not a vertex.
    #[error("source {source_vertex} is not one of {vertices} vertices")]
    Source {
        /// The source.
        source_vertex: u32,
        /// Number of vertices.
        vertices: u32,
    },
    /// A weight that is negative, infinite or not a number.
    #[error(transparent)]
    Weight(#[from] BadWeight),
    /// A shortest path that is too long for the type.
    #[error("the distance of vertex {vertex} overflows the type of the weights")]
    Overflow {
        /// The vertex at its end.
        vertex: u32,
    },
}

/// Distances from the nearest of several sources, along arcs.
///
/// # Errors
/// No weights; a weight or a source that is not valid; a shortest path that overflows.
///
/// ```
/// use millstream_graph::reference::{Distances, dijkstra};
/// use millstream_graph::{CsrGraph, Weights};
///
/// let graph = CsrGraph::from_edges(4, &[(0, 1), (0, 2), (2, 1)])?;
/// let graph = graph.with_weights(Some(Weights::Integer(vec![9, 2, 3])))?;
/// assert_eq!(dijkstra(&graph, &[0])?, Distances::Integer(vec![0, 5, 2, u32::MAX]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn dijkstra(graph: &CsrGraph, sources: &[u32]) -> Result<Distances, SsspError> {
    let vertices = graph.vertices();
    if let Some(&source_vertex) = sources.iter().find(|&&source| source >= vertices) {
        return Err(SsspError::Source { source_vertex, vertices });
    }
    match graph.weights().ok_or(SsspError::NoWeights)? {
        Weights::Integer(weights) => integer(graph, weights, sources),
        Weights::Real(weights) => real(graph, weights, sources),
    }
}

fn integer(graph: &CsrGraph, weights: &[u32], sources: &[u32]) -> Result<Distances, SsspError> {
    // A path of fewer than 2^32 arcs, each less than 2^32, fits 64 bits.
    let distances =
        search(graph, sources, 0u64, |distance, arc| distance + u64::from(weights[arc]));
    let fit = |(vertex, distance): (usize, Option<u64>)| match distance {
        None => Ok(u32::MAX),
        Some(distance) => u32::try_from(distance)
            .ok()
            .filter(|&distance| distance < Distances::TOO_FAR)
            .ok_or(SsspError::Overflow { vertex: vertex as u32 }),
    };
    Ok(Distances::Integer(distances.into_iter().enumerate().map(fit).collect::<Result<_, _>>()?))
}

fn real(graph: &CsrGraph, weights: &[f32], sources: &[u32]) -> Result<Distances, SsspError> {
    graph.check_weights()?;
    let sum = |Total(distance): Total, arc: usize| Total(distance + weights[arc]);
    let distances = search(graph, sources, Total(0.0), sum);
    let fit = |(vertex, distance): (usize, Option<Total>)| match distance {
        None => Ok(f32::INFINITY),
        Some(Total(distance)) if distance.is_finite() => Ok(distance),
        Some(_) => Err(SsspError::Overflow { vertex: vertex as u32 }),
    };
    Ok(Distances::Real(distances.into_iter().enumerate().map(fit).collect::<Result<_, _>>()?))
}

/// Rounding is monotone, so a longer path never gets a smaller sum: the algorithm is also correct
/// for sums of floating-point numbers.
fn search<D: Copy + Ord>(
    graph: &CsrGraph,
    sources: &[u32],
    zero: D,
    extend: impl Fn(D, usize) -> D,
) -> Vec<Option<D>> {
    let mut distances = vec![None; graph.vertices() as usize];
    let mut queue = BinaryHeap::new();
    for &source in sources {
        distances[source as usize] = Some(zero);
        queue.push(Reverse((zero, source)));
    }
    while let Some(Reverse((distance, vertex))) = queue.pop() {
        if distances[vertex as usize] != Some(distance) {
            continue; // A shorter path came later and left the queue earlier.
        }
        for arc in graph.row(vertex) {
            let target = graph.targets()[arc];
            let candidate = extend(distance, arc);
            if distances[target as usize].is_none_or(|known| candidate < known) {
                distances[target as usize] = Some(candidate);
                queue.push(Reverse((candidate, target)));
            }
        }
    }
    distances
}

/// A sum of non-negative reals.
#[derive(Clone, Copy, Debug)]
struct Total(f32);

impl Ord for Total {
    fn cmp(&self, other: &Total) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Total {
    fn partial_cmp(&self, other: &Total) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Total {
    fn eq(&self, other: &Total) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Total {}
