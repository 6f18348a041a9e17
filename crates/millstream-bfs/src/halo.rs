//! The halo of each part of a graph: the vertices of other parts from which few arcs lead
//! to its own. With their rows a device searches several levels without a word from
//! others (`LEVELS.md`).

use std::ops::Range;

use millstream_graph::{CsrGraph, Partition};
use rayon::prelude::*;

/// Arcs from the farthest vertex of a halo, at most.
const DEEPEST: usize = 32;
/// A halo has at most an owned vertex in so many.
const OWNED_FOR_HALO: usize = 2;

/// The halos of all parts, by new ids.
#[derive(Debug)]
pub(crate) struct Halos {
    /// From how many arcs away vertices are in a halo; not 0.
    pub(crate) depth: u32,
    /// The vertices of each part's, in ascending order.
    pub(crate) of: Vec<Vec<u32>>,
}

impl Halos {
    /// Of a graph in one part.
    pub(crate) fn of_one() -> Halos {
        Halos { depth: u32::MAX, of: vec![Vec::new()] }
    }

    /// Halos as deep as they may be in all parts of a symmetric graph; `None` if parts have
    /// too many neighbours for any.
    pub(crate) fn new(graph: &CsrGraph, partition: &Partition) -> Option<Halos> {
        let around: Vec<_> =
            (0..partition.parts()).into_par_iter().map(|part| around(graph, partition, part)).collect();
        let depth = around.iter().map(|(_, ends)| ends.len()).min().filter(|&depth| depth > 0)?;
        let of = around.into_par_iter().map(|(mut vertices, ends)| {
            vertices.truncate(ends[depth - 1]);
            vertices.sort_unstable();
            vertices
        });
        Some(Halos { depth: depth as u32, of: of.collect() })
    }

    /// The places in the halo of `part` of vertices that `owned` has.
    pub(crate) fn places(&self, part: usize, owned: Range<u32>) -> Range<usize> {
        let before = |vertex| self.of[part].partition_point(|&other| other < vertex);
        before(owned.start)..before(owned.end)
    }
}

/// New ids of the neighbours of a vertex.
pub(crate) fn neighbours<'a>(
    graph: &'a CsrGraph,
    partition: &'a Partition,
    vertex: u32,
) -> impl Iterator<Item = u32> + 'a {
    let targets = graph.neighbors(partition.to_original(vertex)).iter();
    targets.map(|&target| partition.to_new(target))
}

/// The vertices around a part, nearest first, and how many there are up to each distance,
/// as long as they are not too many.
fn around(graph: &CsrGraph, partition: &Partition, part: usize) -> (Vec<u32>, Vec<usize>) {
    let own = partition.range(part);
    let mut is_seen = vec![false; graph.vertices() as usize];
    is_seen[own.start as usize..own.end as usize].fill(true);
    let mut nearest: Vec<u32> = own
        .clone()
        .into_par_iter()
        .flat_map_iter(|vertex| neighbours(graph, partition, vertex))
        .filter(|target| !own.contains(target))
        .collect();
    nearest.retain(|&vertex| !std::mem::replace(&mut is_seen[vertex as usize], true));
    let (mut vertices, mut ends) = (nearest, Vec::new());
    let mut begin = 0;
    while ends.len() < DEEPEST && vertices.len() <= own.len() / OWNED_FOR_HALO {
        ends.push(vertices.len());
        let last = begin..vertices.len();
        begin = vertices.len();
        for place in last {
            for target in neighbours(graph, partition, vertices[place]) {
                if !std::mem::replace(&mut is_seen[target as usize], true) {
                    vertices.push(target);
                }
            }
        }
    }
    (vertices, ends)
}
