//! Partitions: each part owns a contiguous range of vertices, renumbered if need
//! be \[G §4.6.1\].

mod blocks;

pub use blocks::{contiguous_blocks, edge_balanced_blocks};

use crate::CsrGraph;

/// Vertices spread over parts. Inside the partition a part's vertices are
/// consecutive; [`to_new`](Partition::to_new) and
/// [`to_original`](Partition::to_original) translate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// First new id of each part, and the number of vertices at the end.
    boundaries: Vec<u32>,
    /// Original id of each new id; `None` if they are the same.
    originals: Option<Vec<u32>>,
    /// New id of each original id.
    renumbered: Option<Vec<u32>>,
}

impl Partition {
    /// Parts of consecutive original ids, from their boundaries.
    pub(crate) fn contiguous(boundaries: Vec<u32>) -> Partition {
        Partition { boundaries, originals: None, renumbered: None }
    }

    /// Parts of whatever vertices `part_of` says, in ascending order of their
    /// original ids.
    pub fn from_parts(parts: usize, part_of: &[u32]) -> Partition {
        let mut originals: Vec<u32> = (0..part_of.len() as u32).collect();
        originals.sort_by_key(|&vertex| part_of[vertex as usize]);
        let mut renumbered = vec![0; part_of.len()];
        for (new, &original) in originals.iter().enumerate() {
            renumbered[original as usize] = new as u32;
        }
        let start = |part| originals.partition_point(|&vertex| part_of[vertex as usize] < part);
        let boundaries = (0..=parts as u32).map(|part| start(part) as u32).collect();
        Partition { boundaries, originals: Some(originals), renumbered: Some(renumbered) }
    }

    /// Number of parts.
    pub fn parts(&self) -> usize {
        self.boundaries.len() - 1
    }

    /// Number of vertices.
    pub fn vertices(&self) -> u32 {
        self.boundaries[self.parts()]
    }

    /// First new id of each part, and the number of vertices at the end.
    pub fn boundaries(&self) -> &[u32] {
        &self.boundaries
    }

    /// New id of an original id.
    pub fn to_new(&self, original: u32) -> u32 {
        self.renumbered.as_ref().map_or(original, |new| new[original as usize])
    }

    /// Original id of a new id.
    pub fn to_original(&self, new: u32) -> u32 {
        self.originals.as_ref().map_or(new, |originals| originals[new as usize])
    }

    /// The graph with new ids.
    pub fn renumber(&self, graph: &CsrGraph) -> CsrGraph {
        match (&self.originals, &self.renumbered) {
            (Some(originals), Some(renumbered)) => graph.renumbered(originals, renumbered),
            _ => graph.clone(),
        }
    }

    /// Values by new id, in the order of original ids.
    pub fn restore<T: Copy>(&self, values: Vec<T>) -> Vec<T> {
        match &self.renumbered {
            Some(renumbered) => renumbered.iter().map(|&new| values[new as usize]).collect(),
            None => values,
        }
    }
}
