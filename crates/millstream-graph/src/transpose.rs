//! Graphs with every arc the other way round.

use crate::build::{ArcSource, ArcWeight, Duplicates, from_arcs};
use crate::{CsrGraph, GraphError, Weights};

impl CsrGraph {
    /// The graph with every arc, and its weight, the other way round; rows are
    /// sorted. Vertices keep their ids.
    ///
    /// # Errors
    /// There is no memory for it.
    ///
    /// ```
    /// use millstream_graph::CsrGraph;
    ///
    /// let graph = CsrGraph::from_edges(3, &[(0, 1), (2, 1)])?;
    /// assert_eq!(graph.transposed()?.neighbors(1), [0, 2]);
    /// # Ok::<(), millstream_graph::GraphError>(())
    /// ```
    pub fn transposed(&self) -> Result<CsrGraph, GraphError> {
        match self.weights() {
            None => reversed(self, &vec![(); self.targets().len()]),
            Some(Weights::Integer(weights)) => reversed(self, weights),
            Some(Weights::Real(weights)) => reversed(self, weights),
        }
    }

    /// As [`transposed`](CsrGraph::transposed), without weights.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn transposed_structure(&self) -> Result<CsrGraph, GraphError> {
        reversed(self, &vec![(); self.targets().len()])
    }
}

fn reversed<W: ArcWeight>(graph: &CsrGraph, weights: &[W]) -> Result<CsrGraph, GraphError> {
    from_arcs(graph.vertices(), &Reversed { graph, weights }, Duplicates::Keep)
}

/// The arcs of a graph, the other way round.
struct Reversed<'a, W> {
    graph: &'a CsrGraph,
    weights: &'a [W],
}

/// Rows of a chunk.
const CHUNK: u32 = 1 << 12;

impl<W: ArcWeight> ArcSource for Reversed<'_, W> {
    type Weight = W;

    fn chunks(&self) -> usize {
        self.graph.vertices().div_ceil(CHUNK) as usize
    }

    fn for_each(&self, chunk: usize, mut emit: impl FnMut(u32, u32, W)) {
        let first = chunk as u32 * CHUNK;
        for from in first..self.graph.vertices().min(first.saturating_add(CHUNK)) {
            for arc in self.graph.row(from) {
                emit(self.graph.targets()[arc], from, self.weights[arc]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_go_with_their_arcs_and_twice_is_as_before() {
        let graph =
            CsrGraph::from_weighted_edges(4, &[(0, 1, 7u32), (2, 1, 5), (1, 0, 3)]).unwrap();
        let transposed = graph.transposed().unwrap();
        assert_eq!(transposed.neighbors(1), [0, 2]);
        assert_eq!(transposed.weights(), Some(&Weights::Integer(vec![3, 7, 5])));
        assert!(transposed.transposed().unwrap() == graph);
    }
}
