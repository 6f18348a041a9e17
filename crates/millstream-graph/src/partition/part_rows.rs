//! The rows of a part, as they are in the graph.

use std::ops::Range;

use rayon::prelude::*;

use super::Partition;
use crate::CsrGraph;
use crate::pieces::InPieces;
use crate::rows::offsets;

/// The rows of a part's vertices, in the order of their new ids. Their targets still have their
/// original ids, and their original places in the row: see [`Partition::rows`].
#[derive(Debug)]
pub struct PartRows<'a> {
    graph: &'a CsrGraph,
    partition: &'a Partition,
    vertices: Range<u32>,
    offsets: Vec<u64>,
}

impl<'a> PartRows<'a> {
    pub(super) fn new(graph: &'a CsrGraph, partition: &'a Partition, part: usize) -> PartRows<'a> {
        let vertices = partition.range(part);
        let new_ids = vertices.clone().into_par_iter().in_pieces();
        let offsets = offsets(new_ids.map(|new| graph.degree(partition.to_original(new))));
        PartRows { graph, partition, vertices, offsets }
    }

    /// Row index, from 0.
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// The row index alone.
    pub fn into_offsets(self) -> Vec<u64> {
        self.offsets
    }

    /// Arcs of all rows.
    pub fn arcs(&self) -> usize {
        self.offsets[self.vertices.len()] as usize
    }

    /// Copies from `all`, which has an entry for each arc of the graph, the entries of these rows'
    /// arcs, from the rows' arc `first` on.
    ///
    /// # Panics
    /// If fewer arcs follow than `into` has places.
    pub fn copy<T: Copy>(&self, all: &[T], first: usize, mut into: &mut [T]) {
        let mut skipped = first as u64;
        let mut row = self.offsets.partition_point(|&offset| offset <= skipped).saturating_sub(1);
        skipped -= self.offsets[row];
        while !into.is_empty() {
            let new = self.vertices.start + row as u32;
            let arcs = &all[self.graph.row(self.partition.to_original(new))][skipped as usize..];
            let (its, rest) = into.split_at_mut(arcs.len().min(into.len()));
            its.copy_from_slice(&arcs[..its.len()]);
            (into, row, skipped) = (rest, row + 1, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{self, GenerateOptions};
    use crate::partition;

    #[test]
    fn any_stretch_is_copied() {
        let kron = generate::kron(8, 3, &GenerateOptions::default()).unwrap();
        let partition = partition::random(&kron, 3, 1).by_degree(&kron, 16);
        for part in 0..3 {
            let rows = partition.rows(&kron, part);
            let neighbors = |new| kron.neighbors(partition.to_original(new));
            let expected: Vec<u32> = partition.range(part).flat_map(neighbors).copied().collect();
            assert_eq!(rows.arcs(), expected.len());
            for (first, len) in
                [(0, expected.len()), (expected.len(), 0), (1, 1), (7, 100), (63, 9)]
            {
                let mut copied = vec![0; len];
                rows.copy(kron.targets(), first, &mut copied);
                assert_eq!(copied, expected[first..first + len]);
            }
        }
    }

    #[test]
    fn a_part_without_vertices_has_no_rows() {
        let graph = CsrGraph::from_edges(2, &[(0, 1)]).unwrap();
        let partition = Partition::from_parts(3, &[0, 2]).unwrap();
        let rows = partition.rows(&graph, 1);
        assert_eq!((rows.offsets(), rows.arcs()), (&[0][..], 0));
        rows.copy(graph.targets(), 0, &mut []);
    }
}
