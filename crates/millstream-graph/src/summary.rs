//! A short description of a graph.

use rayon::prelude::*;

use crate::pieces::{InPieces, rows_of};
use crate::reference::weak_components;
use crate::symmetric::imbalance;
use crate::{CsrGraph, Weights};

/// The smallest and the largest weight, in the weights' own type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WeightRange {
    /// Of unsigned integers.
    Integer(u32, u32),
    /// Of reals.
    Real(f32, f32),
}

/// Counts that tell graphs apart.
///
/// ```
/// use millstream_graph::{CsrGraph, summary::Summary};
///
/// let path = CsrGraph::from_edges(4, &[(0, 1), (1, 0), (1, 2), (2, 1)])?;
/// let summary = Summary::of(&path);
/// assert!(summary.symmetric);
/// assert_eq!((summary.components, summary.largest_component), (2, 3));
/// # Ok::<(), millstream_graph::GraphError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// `None` if there are no weights or no arcs.
    pub weight_range: Option<WeightRange>,
    /// Arcs from a vertex to itself.
    pub self_loops: u64,
    /// Arcs beyond the first between the same two vertices.
    pub duplicate_arcs: u64,
    /// Whether every arc has its reverse, regardless of their weights and of how often each occurs.
    /// It is found by fingerprints, as in [`CsrGraph::is_symmetric`].
    pub symmetric: bool,
    /// Fewest arcs that leave a vertex; 0 without vertices.
    pub min_degree: u64,
    /// Most arcs that leave a vertex; 0 without vertices.
    pub max_degree: u64,
    /// Vertices by the number of arcs that leave them: first those that none
    /// leaves, then at place `k` those with `2^(k - 1)` to `2^k - 1`. Ends with
    /// the place of the largest degree.
    pub degree_histogram: Vec<u64>,
    /// Weak components: directions of arcs do not count.
    pub components: u64,
    /// Vertices of the largest weak component.
    pub largest_component: u64,
}

impl Summary {
    /// Counts; takes four bytes for each vertex.
    pub fn of(graph: &CsrGraph) -> Summary {
        let degrees =
            (0..graph.vertices()).into_par_iter().in_pieces().map(|vertex| graph.degree(vertex));
        let (self_loops, duplicate_arcs, symmetric) = arcs(graph);
        let (components, largest_component) = components(graph);
        Summary {
            weight_range: graph.weights().and_then(weight_range),
            self_loops,
            duplicate_arcs,
            symmetric,
            min_degree: degrees.clone().min().unwrap_or(0),
            max_degree: degrees.max().unwrap_or(0),
            degree_histogram: degree_histogram(graph),
            components,
            largest_component,
        }
    }
}

fn weight_range(weights: &Weights) -> Option<WeightRange> {
    match weights {
        Weights::Integer(weights) => {
            let weights = || weights.par_iter().in_pieces();
            let (min, max) = (weights().min()?, weights().max()?);
            Some(WeightRange::Integer(*min, *max))
        }
        Weights::Real(weights) => {
            let weights = || weights.par_iter().in_pieces().copied();
            let (min, max) = (weights().min_by(f32::total_cmp)?, weights().max_by(f32::total_cmp)?);
            Some(WeightRange::Real(min, max))
        }
    }
}

/// Self-loops, duplicates, and whether rows and columns have the same entries.
fn arcs(graph: &CsrGraph) -> (u64, u64, bool) {
    let row = |vertex: u32| {
        // A graph made from finished arrays need not have sorted rows.
        let mut targets = graph.neighbors(vertex).to_vec();
        targets.sort_unstable();
        let loops = targets.iter().filter(|&&target| target == vertex).count();
        targets.dedup();
        let duplicates = graph.neighbors(vertex).len() - targets.len();
        let imbalance = targets.iter().map(|&target| imbalance(vertex, target, None));
        (loops as u64, duplicates as u64, imbalance.fold(0, u64::wrapping_add))
    };
    let rows = rows_of(graph).map(row);
    let sum = |one: (u64, u64, u64), other: (u64, u64, u64)| {
        (one.0 + other.0, one.1 + other.1, one.2.wrapping_add(other.2))
    };
    let (loops, duplicates, imbalance) = rows.reduce(|| (0, 0, 0), sum);
    (loops, duplicates, imbalance == 0)
}

fn degree_histogram(graph: &CsrGraph) -> Vec<u64> {
    let mut histogram = Vec::new();
    for vertex in 0..graph.vertices() {
        let place = (u64::BITS - graph.degree(vertex).leading_zeros()) as usize;
        if histogram.len() <= place {
            histogram.resize(place + 1, 0);
        }
        histogram[place] += 1;
    }
    histogram
}

/// How many components there are, and the size of the largest.
fn components(graph: &CsrGraph) -> (u64, u64) {
    let sizes = sizes(weak_components(graph));
    let count = sizes.iter().filter(|&&size| size > 0).count() as u64;
    (count, sizes.into_iter().max().unwrap_or(0).into())
}

/// Sizes of components, in the memory of their labels: each size is at the place of its label.
fn sizes(mut labels: Vec<u32>) -> Vec<u32> {
    for vertex in 0..labels.len() {
        // A label is its component's first vertex, so its place already holds a size.
        let label = std::mem::take(&mut labels[vertex]);
        labels[label as usize] += 1;
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{self, GenerateOptions};

    #[test]
    fn counts_are_those_of_a_graph_drawn_by_hand() {
        // 0 -> 1 twice, 1 -> 0, 1 -> 1, 1 -> 2, 3 -> 4, and 5 on its own.
        let arcs = [(0, 1), (0, 1), (1, 0), (1, 1), (1, 2), (3, 4)];
        let weights = Weights::Integer(vec![4, 9, 2, 7, 3, 5]);
        let graph = CsrGraph::from_edges(6, &arcs).unwrap().with_weights(Some(weights)).unwrap();
        let summary = Summary::of(&graph);
        let expected = Summary {
            weight_range: Some(WeightRange::Integer(2, 9)),
            self_loops: 1,
            duplicate_arcs: 1,
            symmetric: false,
            min_degree: 0,
            max_degree: 3,
            // Three vertices without arcs, 3 with one, 0 with two and 1 with three.
            degree_histogram: vec![3, 1, 2],
            components: 3,
            largest_component: 3,
        };
        assert_eq!(summary, expected);
    }

    #[test]
    fn rows_need_not_be_sorted_nor_weights_be_positive() {
        let weights = Some(Weights::Real(vec![0.5, -2.0, 1.5, 0.0, 3.0]));
        let graph = CsrGraph::from_csr(vec![0, 3, 4, 5], vec![2, 1, 2, 0, 0], weights).unwrap();
        let summary = Summary::of(&graph);
        assert_eq!((summary.duplicate_arcs, summary.symmetric), (1, true));
        assert_eq!(summary.weight_range, Some(WeightRange::Real(-2.0, 3.0)));
    }

    #[test]
    fn generated_graphs_are_symmetric_and_simple() {
        let graph = generate::kron(10, 8, &GenerateOptions::default()).unwrap();
        let summary = Summary::of(&graph);
        assert!(summary.symmetric);
        assert_eq!((summary.self_loops, summary.duplicate_arcs), (0, 0));
        assert_eq!(summary.degree_histogram.iter().sum::<u64>(), 1024);
        assert_eq!(summary.weight_range, None);
    }

    #[test]
    fn a_graph_without_vertices_has_nothing_to_count() {
        let summary = Summary::of(&CsrGraph::from_edges(0, &[]).unwrap());
        assert_eq!((summary.components, summary.largest_component), (0, 0));
        assert_eq!((summary.min_degree, summary.max_degree), (0, 0));
        assert!(summary.degree_histogram.is_empty() && summary.symmetric);
    }
}
