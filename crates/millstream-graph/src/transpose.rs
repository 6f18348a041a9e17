//! Graphs with every arc the other way round.

use crate::changed::{rebuild_graph, rebuild_structure};
use crate::read::ReadOptions;
use crate::{CsrGraph, GraphError};

fn turned() -> ReadOptions {
    ReadOptions { transpose: true, ..ReadOptions::default() }
}

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
        rebuild_graph(self, &turned())
    }

    /// As [`transposed`](CsrGraph::transposed), without weights.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn transposed_structure(&self) -> Result<CsrGraph, GraphError> {
        rebuild_structure(self, &turned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Weights;

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
