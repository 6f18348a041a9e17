//! The halo of each part of a graph: the vertices of other parts from which few arcs lead
//! to its own. With their rows a device searches several levels without a word from
//! others (`NEAR_FAR.md`).

use std::ops::Range;

use millstream_graph::pieces::InPieces;
use millstream_graph::{CsrGraph, Partition};
use rayon::prelude::*;

/// A halo has at most an owned vertex in so many.
const OWNED_FOR_HALO: usize = 2;

/// The halos of all parts, by new ids.
///
/// ```
/// use millstream_graph::{CsrGraph, partition};
/// use millstream_traversal::internals::Halos;
///
/// let arcs: Vec<_> = (0..99).flat_map(|at| [(at, at + 1), (at + 1, at)]).collect();
/// let path = CsrGraph::from_edges(100, &arcs)?;
/// let blocks = partition::contiguous_blocks(&path, 2);
/// // The vertices of the other part that are next to each one.
/// let beside = vec![vec![50], vec![49]];
/// let halos = Halos::new(&path, &blocks, beside, 64).expect("few neighbours");
/// // At most half as many vertices as a part has.
/// assert_eq!(halos.depth, 25);
/// assert_eq!(halos.of[0], (50..75).collect::<Vec<_>>());
/// assert_eq!(Halos::neighbours(&path, &blocks, 50).collect::<Vec<_>>(), [49, 51]);
/// # Ok::<(), millstream_graph::GraphError>(())
/// ```
#[derive(Debug)]
pub struct Halos {
    /// From how many arcs away vertices are in a halo; not 0.
    pub depth: u32,
    /// The vertices of each part's, in ascending order.
    pub of: Vec<Vec<u32>>,
}

impl Halos {
    /// Of a graph in one part, or in one memory.
    pub fn of_one() -> Halos {
        Halos { depth: u32::MAX, of: vec![Vec::new()] }
    }

    /// Halos of a symmetric graph, `deepest` arcs deep or as deep as they may be in all parts; `None` if
    /// parts have too many neighbours for any. `beside` has the vertices that are next to each part.
    pub fn new(
        graph: &CsrGraph,
        partition: &Partition,
        beside: Vec<Vec<u32>>,
        deepest: usize,
    ) -> Option<Halos> {
        let around: Vec<_> = beside
            .into_par_iter()
            .enumerate()
            .map(|(part, beside)| around(graph, partition, (part, beside), deepest))
            .collect();
        let depth = around.iter().map(|(_, ends)| ends.len()).min().filter(|&depth| depth > 0)?;
        let of = around.into_par_iter().map(|(mut vertices, ends)| {
            vertices.truncate(ends[depth - 1]);
            vertices.sort_unstable();
            vertices
        });
        Some(Halos { depth: depth as u32, of: of.collect() })
    }

    /// The places in the halo of `part` of vertices that `owned` has.
    pub fn places(&self, part: usize, owned: Range<u32>) -> Range<usize> {
        let before = |vertex| self.of[part].partition_point(|&other| other < vertex);
        before(owned.start)..before(owned.end)
    }

    /// New ids of the neighbours of a vertex.
    pub fn neighbours<'a>(
        graph: &'a CsrGraph,
        partition: &'a Partition,
        vertex: u32,
    ) -> impl Iterator<Item = u32> + 'a {
        let targets = graph.neighbors(partition.to_original(vertex)).iter();
        targets.map(|&target| partition.to_new(target))
    }
}

/// The vertices around a part, nearest first, and how many there are up to each distance, of `deepest`
/// at most, as long as they are not too many.
fn around(
    graph: &CsrGraph,
    partition: &Partition,
    (part, mut nearest): (usize, Vec<u32>),
    deepest: usize,
) -> (Vec<u32>, Vec<usize>) {
    let own = partition.range(part);
    let most = own.len() / OWNED_FOR_HALO;
    let mut is_seen = vec![false; graph.vertices() as usize];
    is_seen[own.start as usize..own.end as usize].fill(true);
    nearest.iter().for_each(|&vertex| is_seen[vertex as usize] = true);
    let beside = |vertex| Halos::neighbours(graph, partition, vertex);
    let (mut vertices, mut ends) = (Vec::new(), Vec::new());
    while ends.len() < deepest && vertices.len() + nearest.len() <= most {
        let next = nearest.par_iter().copied().in_pieces().flat_map_iter(beside);
        let next = unseen(next, &mut is_seen);
        vertices.append(&mut nearest);
        ends.push(vertices.len());
        nearest = next;
    }
    (vertices, ends)
}

/// Those that were not seen before, each once; they have been seen now.
fn unseen(vertices: impl ParallelIterator<Item = u32>, is_seen: &mut [bool]) -> Vec<u32> {
    let mut unseen: Vec<_> = vertices.filter(|&vertex| !is_seen[vertex as usize]).collect();
    unseen.retain(|&vertex| !std::mem::replace(&mut is_seen[vertex as usize], true));
    unseen
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]

    use millstream_graph::generate::{self, GenerateOptions};
    use millstream_graph::partition;

    use super::*;

    const DEEPEST: usize = 64;

    /// The vertices that are next to each part, found one by one.
    pub(crate) fn beside(graph: &CsrGraph, partition: &Partition) -> Vec<Vec<u32>> {
        let beside = |part| {
            let own = partition.range(part);
            let targets =
                own.clone().flat_map(|vertex| Halos::neighbours(graph, partition, vertex));
            let mut beside: Vec<_> = targets.filter(|target| !own.contains(target)).collect();
            beside.sort_unstable();
            beside.dedup();
            beside
        };
        (0..partition.parts()).map(beside).collect()
    }

    /// Halos up to `deepest` arcs deep.
    pub(crate) fn halos(graph: &CsrGraph, partition: &Partition, deepest: usize) -> Option<Halos> {
        Halos::new(graph, partition, beside(graph, partition), deepest)
    }

    fn road(seed: u64) -> CsrGraph {
        let options = GenerateOptions { seed, ..GenerateOptions::default() };
        generate::road(60, 50, generate::KEEP_PERMILLE, &options).unwrap()
    }

    /// Rows of the lattice, columns, and corners.
    fn partitions(graph: &CsrGraph) -> Vec<Partition> {
        let place = |vertex: u32| (vertex % 60, vertex / 60);
        let columns: Vec<_> = (0..graph.vertices()).map(|vertex| place(vertex).0 / 20).collect();
        let corners = (0..graph.vertices()).map(place).map(|(x, y)| x / 30 + y / 25 * 2);
        let corners: Vec<_> = corners.collect();
        vec![
            partition::edge_balanced_blocks(graph, 3),
            Partition::from_parts(3, &columns).unwrap(),
            Partition::from_parts(4, &corners).unwrap(),
        ]
    }

    /// Arcs from every vertex to the nearest owned one, one round for each.
    fn distances(graph: &CsrGraph, partition: &Partition, part: usize) -> Vec<u32> {
        let is_own = |vertex| partition.range(part).contains(&vertex);
        let mut distances: Vec<_> =
            (0..graph.vertices()).map(|vertex| if is_own(vertex) { 0 } else { u32::MAX }).collect();
        for distance in 1..=DEEPEST as u32 + 1 {
            for vertex in 0..graph.vertices() {
                let is_next = Halos::neighbours(graph, partition, vertex)
                    .any(|target| distances[target as usize] == distance - 1);
                if is_next && distances[vertex as usize] == u32::MAX {
                    distances[vertex as usize] = distance;
                }
            }
        }
        distances
    }

    #[test]
    fn a_halo_is_what_is_near() {
        let graph = road(1);
        for partition in partitions(&graph) {
            let halos = halos(&graph, &partition, DEEPEST).unwrap();
            assert!((3..=DEEPEST as u32).contains(&halos.depth), "{}", halos.depth);
            for (part, halo) in halos.of.iter().enumerate() {
                let distances = distances(&graph, &partition, part);
                let is_near =
                    |&vertex: &u32| (1..=halos.depth).contains(&distances[vertex as usize]);
                assert!((0..graph.vertices()).filter(is_near).eq(halo.iter().copied()));
                assert!(halo.len() <= partition.range(part).len() / OWNED_FOR_HALO);
            }
        }
    }

    #[test]
    fn places_are_those_of_an_owner() {
        let graph = road(2);
        for partition in partitions(&graph) {
            let halos = halos(&graph, &partition, DEEPEST).unwrap();
            for (part, halo) in halos.of.iter().enumerate() {
                let owners = (0..partition.parts()).map(|owner| partition.range(owner));
                let places: Vec<_> =
                    owners.clone().map(|owned| halos.places(part, owned)).collect();
                assert!(places.iter().cloned().flatten().eq(0..halo.len()));
                for (owned, places) in owners.zip(places) {
                    assert!(halo[places].iter().all(|vertex| owned.contains(vertex)));
                }
            }
        }
    }

    #[test]
    fn halos_are_as_deep_as_asked_for() {
        let road = road(4);
        let partition = partition::edge_balanced_blocks(&road, 2);
        for deepest in [1, 4] {
            let halos = halos(&road, &partition, deepest).unwrap();
            assert_eq!(halos.depth, deepest as u32);
            assert!(halos.of.iter().all(|halo| halo.len() < 60 * (deepest + 1)));
        }
    }

    #[test]
    fn parts_that_touch_everywhere_have_no_halo() {
        let graph = road(3);
        assert!(halos(&graph, &partition::random(&graph, 4, 1), DEEPEST).is_none());
        // Nothing at all is near, as far as anybody looks.
        let apart = CsrGraph::from_edges(4, &[(0, 1), (1, 0), (2, 3), (3, 2)]).unwrap();
        let halos = halos(&apart, &partition::contiguous_blocks(&apart, 2), DEEPEST).unwrap();
        assert_eq!((halos.depth, halos.of), (DEEPEST as u32, vec![vec![]; 2]));
    }
}
