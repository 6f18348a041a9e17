//! The numbers of arcs of vertices, without their targets: all that most partitions need.

use crate::CsrGraph;
use crate::rows::sum_before;
use crate::storage::Storage;

/// How many arcs each vertex has; for a graph, the arcs that leave the vertex.
pub trait Degrees: Sync {
    /// Row index: the arcs of `v` are `offsets()[v]..offsets()[v + 1]`, and `offsets()[0]` is 0.
    fn offsets(&self) -> &[u64];

    /// Number of vertices.
    fn vertices(&self) -> u32 {
        (self.offsets().len() - 1) as u32
    }

    /// Number of arcs of `vertex`.
    ///
    /// # Panics
    /// If `vertex` is out of range.
    fn degree(&self, vertex: u32) -> u64 {
        let offsets = self.offsets();
        offsets[vertex as usize + 1] - offsets[vertex as usize]
    }
}

impl Degrees for CsrGraph {
    #[inline]
    fn offsets(&self) -> &[u64] {
        self.offsets()
    }
}

/// A row index by itself, of arcs that are stored elsewhere or have not been put into rows yet.
/// Clones share it.
///
/// ```
/// use millstream_graph::{Degrees, RowIndex, partition};
///
/// let entering = RowIndex::new(vec![2, 0, 3]);
/// assert_eq!(entering.offsets(), [0, 2, 2, 5]);
/// assert_eq!((entering.vertices(), entering.degree(2)), (3, 3));
/// assert_eq!(partition::edge_balanced_blocks(&entering, 2).boundaries(), [0, 2, 3]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RowIndex {
    offsets: Storage<u64>,
}

impl RowIndex {
    /// The row index of rows with these lengths, at most 2^32 - 1 of them. Nothing is copied if the
    /// vector has room for one more number.
    pub fn new(mut lengths: Vec<u64>) -> RowIndex {
        let arcs = sum_before(&mut lengths);
        lengths.push(arcs);
        RowIndex { offsets: lengths.into() }
    }

    /// The row index of a graph.
    pub(crate) fn shared(offsets: Storage<u64>) -> RowIndex {
        RowIndex { offsets }
    }
}

impl Degrees for RowIndex {
    #[inline]
    fn offsets(&self) -> &[u64] {
        &self.offsets
    }
}
