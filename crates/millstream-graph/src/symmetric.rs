//! Symmetric graphs from edges that can be enumerated twice, and tests of whether a graph is symmetric.

use rayon::prelude::*;

use crate::build::{ArcSource, Duplicates, from_arcs};
use crate::changed::rebuild_graph;
use crate::pieces::rows_of;
use crate::random::hash;
use crate::read::ReadOptions;
use crate::{CsrGraph, GraphError, Weights};

/// Undirected edges, which can be enumerated item by item, in any order and repeatedly.
pub(crate) trait EdgeSource: Sync {
    /// Number of items, each of which stands for any number of edges.
    fn items(&self) -> u64;

    /// Calls `emit` for each edge of `item`: the same ones every time.
    fn edges(&self, item: u64, emit: impl FnMut(u32, u32));
}

/// Both arcs of every edge, and none from a vertex to itself.
struct Symmetric<'a, S>(&'a S);

/// How much a quick look covers: about this many rows, the first arcs of each, and rows of at most
/// so many arcs in which a reverse arc is looked for.
const LOOKS: u32 = 256;
const MOST_ARCS: usize = 4;
const MOST_BACK: usize = 1024;
/// Items that one thread enumerates at a time.
const CHUNK: u64 = 1 << 14;

impl<S: EdgeSource> ArcSource for Symmetric<'_, S> {
    type Weight = ();

    fn chunks(&self) -> usize {
        self.0.items().div_ceil(CHUNK) as usize
    }

    fn for_each(&self, chunk: usize, mut emit: impl FnMut(u32, u32, ())) {
        let first = chunk as u64 * CHUNK;
        for item in first..self.0.items().min(first + CHUNK) {
            self.0.edges(item, |one, other| {
                if one != other {
                    emit(one, other, ());
                    emit(other, one, ());
                }
            });
        }
    }
}

/// Stores both arcs of every edge once, except self-loops; rows are sorted.
///
/// # Errors
/// More arcs than fit into memory.
pub(crate) fn symmetric_graph(
    vertices: u32,
    source: &impl EdgeSource,
) -> Result<CsrGraph, GraphError> {
    from_arcs(vertices, &Symmetric(source), Duplicates::KeepLightest)
}

impl CsrGraph {
    /// Whether every arc occurs as often as its reverse. Compares fingerprints of the arcs and of
    /// their reverses in one pass: a graph that is not symmetric passes with a probability of
    /// 2^-64.
    ///
    /// ```
    /// use millstream_graph::CsrGraph;
    ///
    /// assert!(CsrGraph::from_edges(3, &[(0, 1), (1, 0), (2, 2)])?.is_symmetric());
    /// assert!(!CsrGraph::from_edges(3, &[(0, 1), (1, 0), (1, 2)])?.is_symmetric());
    /// # Ok::<(), millstream_graph::GraphError>(())
    /// ```
    pub fn is_symmetric(&self) -> bool {
        self.equals_reverse(|_| None)
    }

    /// Whether every arc occurs as often as its reverse with the same weight. Compares
    /// fingerprints, as [`is_symmetric`](CsrGraph::is_symmetric).
    ///
    /// ```
    /// use millstream_graph::CsrGraph;
    ///
    /// let graph = |there: u32, back: u32| {
    ///     CsrGraph::from_weighted_edges(2, &[(0, 1, there), (1, 0, back)])
    /// };
    /// assert!(graph(5, 5)?.is_symmetric_with_weights());
    /// assert!(!graph(5, 6)?.is_symmetric_with_weights());
    /// # Ok::<(), millstream_graph::GraphError>(())
    /// ```
    pub fn is_symmetric_with_weights(&self) -> bool {
        match self.weights() {
            None => self.is_symmetric(),
            Some(Weights::Integer(weights)) => self.equals_reverse(|arc| Some(weights[arc])),
            Some(Weights::Real(weights)) => self.equals_reverse(|arc| Some(weights[arc].to_bits())),
        }
    }

    /// The first vertex whose outgoing arcs, or their weights, differ from its incoming ones.
    ///
    /// # Errors
    /// There is no memory for two more copies of the graph.
    pub(crate) fn first_asymmetric(&self) -> Result<Option<u32>, GraphError> {
        let rows = rebuild_graph(self, &ReadOptions::default())?;
        let columns = self.transposed()?;
        // Rows are sorted in both graphs.
        let differs = |&vertex: &u32| !same_row(&rows, &columns, vertex);
        Ok(rows_of(self).find_first(differs))
    }

    /// A quick check for symmetry: looks at some arcs of some hundred rows, and returns whether
    /// each of these arcs has its reverse (with the same weight, if `weighted`); one that leads to a
    /// row of more than 1,024 arcs is taken to have one. Every [symmetric](CsrGraph::is_symmetric)
    /// graph passes; most others do not.
    ///
    /// ```
    /// use millstream_graph::CsrGraph;
    ///
    /// let graph = CsrGraph::from_weighted_edges(2, &[(0, 1, 5u32), (1, 0, 6)])?;
    /// assert!(graph.looks_symmetric(false) && !graph.looks_symmetric(true));
    /// # Ok::<(), millstream_graph::GraphError>(())
    /// ```
    pub fn looks_symmetric(&self, weighted: bool) -> bool {
        let step = (self.vertices() / LOOKS).max(1);
        let arcs = |vertex| self.row(vertex).take(MOST_ARCS).map(move |arc| (vertex, arc));
        let weights = self.weights().filter(|_| weighted);
        let is_same = |one: usize, other: usize| match weights {
            None => true,
            Some(Weights::Integer(all)) => all[one] == all[other],
            Some(Weights::Real(all)) => all[one].to_bits() == all[other].to_bits(),
        };
        let has_reverse = |(from, arc): (u32, usize)| {
            let mut back = self.row(self.targets()[arc]);
            // The longest rows are not searched: that would take longer.
            back.len() > MOST_BACK
                || back.any(|back| self.targets()[back] == from && is_same(arc, back))
        };
        (0..self.vertices()).step_by(step as usize).flat_map(arcs).all(has_reverse)
    }

    fn equals_reverse(&self, weight: impl Fn(usize) -> Option<u32> + Sync) -> bool {
        let difference = |vertex: u32| {
            let arc = |arc: usize| imbalance(vertex, self.targets()[arc], weight(arc));
            self.row(vertex).map(arc).fold(0, u64::wrapping_add)
        };
        rows_of(self).map(difference).reduce(|| 0, u64::wrapping_add) == 0
    }
}

fn same_row(one: &CsrGraph, other: &CsrGraph, vertex: u32) -> bool {
    let has_row = one.neighbors(vertex) == other.neighbors(vertex);
    let (row, column) = (one.row(vertex), other.row(vertex));
    has_row
        && match (one.weights(), other.weights()) {
            (Some(Weights::Integer(one)), Some(Weights::Integer(other))) => {
                one[row] == other[column]
            }
            (Some(Weights::Real(one)), Some(Weights::Real(other))) => one[row] == other[column],
            _ => true,
        }
}

/// A fingerprint of the two ends of an arc and of its weight, which is added for one direction and
/// subtracted for the other. Over arcs that occur as often as their reverses, these sum up to 0.
///
/// ```
/// use millstream_graph::imbalance;
///
/// assert_eq!(imbalance(3, 5, Some(7)).wrapping_add(imbalance(5, 3, Some(7))), 0);
/// assert_ne!(imbalance(3, 5, Some(7)).wrapping_add(imbalance(5, 3, None)), 0);
/// assert_eq!(imbalance(3, 3, None), 0);
/// ```
pub fn imbalance(from: u32, to: u32, weight: Option<u32>) -> u64 {
    let ends = hash(u64::from(from.min(to)) << 32 | u64::from(from.max(to)));
    let print = weight.map_or(ends, |weight| hash(ends ^ u64::from(weight)));
    // 0 if the arc is its own reverse. A product, since the processor would often mispredict a branch.
    print.wrapping_mul(from.cmp(&to) as i64 as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Listed(Vec<(u32, u32)>);

    impl EdgeSource for Listed {
        fn items(&self) -> u64 {
            self.0.len() as u64
        }

        fn edges(&self, item: u64, mut emit: impl FnMut(u32, u32)) {
            let (one, other) = self.0[item as usize];
            emit(one, other);
        }
    }

    #[test]
    fn edges_become_sorted_rows_without_loops_and_repeats() {
        let source = Listed(vec![(3, 0), (1, 1), (0, 1), (0, 3), (1, 0), (3, 1)]);
        let graph = symmetric_graph(5, &source).unwrap();
        assert_eq!(graph.offsets(), [0, 2, 4, 4, 6, 6]);
        assert_eq!(graph.targets(), [1, 3, 0, 3, 0, 1]);
        assert_eq!(symmetric_graph(0, &Listed(vec![])).unwrap().arcs(), 0);
    }

    #[test]
    fn a_reverse_for_every_arc() {
        let graph = |arcs: &[(u32, u32)]| CsrGraph::from_edges(4, arcs).unwrap();
        for symmetric in [&[][..], &[(1, 1)], &[(0, 1), (1, 0)], &[(0, 3), (0, 3), (3, 0), (3, 0)]]
        {
            assert!(graph(symmetric).is_symmetric(), "{symmetric:?}");
            assert!(graph(symmetric).looks_symmetric(false), "{symmetric:?}");
        }
        for directed in [&[(0, 1)][..], &[(0, 1), (1, 2), (2, 0)], &[(0, 3), (0, 3), (3, 0)]] {
            assert!(!graph(directed).is_symmetric(), "{directed:?}");
        }
    }
}
