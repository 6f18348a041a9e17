//! Blocks of consecutive vertices.

use super::Partition;
use crate::{CsrGraph, Degrees};

/// Parts with equally many vertices.
pub fn contiguous_blocks(graph: &CsrGraph, parts: usize) -> Partition {
    let (vertices, parts) = (u64::from(graph.vertices()), parts.max(1) as u64);
    let boundary = |part: u64| (vertices * part / parts) as u32;
    Partition::contiguous((0..=parts).map(boundary).collect())
}

/// Parts whose vertices have equally many arcs, each vertex counted as one more.
pub fn edge_balanced_blocks(degrees: &impl Degrees, parts: usize) -> Partition {
    let (vertices, parts) = (degrees.vertices(), parts.max(1) as u64);
    let weight_before = |vertex: u32| degrees.offsets()[vertex as usize] + u64::from(vertex);
    let total = weight_before(vertices);
    let boundary = |part: u64| {
        let wanted = u128::from(total) * u128::from(part) / u128::from(parts);
        let (mut low, mut high) = (0, vertices);
        while low < high {
            let middle = low + (high - low) / 2;
            if u128::from(weight_before(middle)) < wanted {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    };
    Partition::contiguous((0..=parts).map(boundary).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn star(leaves: u32) -> CsrGraph {
        let edges: Vec<_> = (1..=leaves).flat_map(|leaf| [(0, leaf), (leaf, 0)]).collect();
        CsrGraph::from_edges(leaves + 1, &edges).unwrap()
    }

    #[test]
    fn boundaries_cover_every_vertex_once() {
        for leaves in [0, 1, 5, 100] {
            let graph = star(leaves);
            for parts in 1..10 {
                for partition in
                    [contiguous_blocks(&graph, parts), edge_balanced_blocks(&graph, parts)]
                {
                    assert_eq!(partition.parts(), parts);
                    assert_eq!(partition.boundaries()[0], 0);
                    assert_eq!(partition.vertices(), leaves + 1);
                    assert!(partition.boundaries().is_sorted());
                }
            }
        }
    }

    #[test]
    fn a_hub_fills_its_part() {
        let partition = edge_balanced_blocks(&star(100), 2);
        // The hub weighs 101 of 301.
        assert_eq!(partition.boundaries(), [0, 26, 101]);
    }
}
