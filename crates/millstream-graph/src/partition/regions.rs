//! Blocks of regions that have grown side by side.

use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use super::{Order, Partition, edge_balanced_blocks};
use crate::pieces::{InPieces, rows_of};
use crate::random::{CounterRandom, Purpose};
use crate::{CsrGraph, RowIndex};

/// Vertices of a region, on average.
const REGION: u32 = 1 << 8;
/// The most regions: of each two of them a bit says whether they touch, in 8 MiB.
const MOST: u32 = 1 << 13;
/// A frontier with fewer vertices than this is one thread's.
const ALONE: usize = 1 << 10;
/// No region has reached the vertex.
const NOWHERE: u64 = u64::MAX;
/// None will.
const LOST: u64 = NOWHERE - 1;

/// Parts with equally many arcs, each vertex counted as one more, of neighbouring regions. Regions, of some
/// 256 vertices each, or more so that there are at most 8,192, grow from vertices that are spread over the
/// graph by chance, all at once and an arc a round; then they are put into the order of a breadth-first
/// search of regions that touch. This cuts few arcs of a mesh or a road map whose ids say nothing of where
/// vertices lie, in a twentieth of METIS's time, and gives neighbours near ids. Vertices of a region are in
/// the order of their original ids. The same graph has the same parts each time.
///
/// Takes some 24 bytes a vertex while it runs.
///
/// ```
/// use millstream_graph::{CsrGraph, partition};
///
/// // Two cliques, of the odd and the even vertices.
/// let arcs = (0..400).map(|arc| (arc / 20, arc % 20)).filter(|(from, to)| (from ^ to) & 1 == 0);
/// let cliques = CsrGraph::from_edges(20, &arcs.collect::<Vec<_>>())?;
/// let parts = partition::region_blocks(&cliques, 2);
/// assert_eq!(parts.boundaries(), [0, 10, 20]);
/// assert_eq!(parts.edge_cut(&cliques), 0);
/// # Ok::<(), millstream_graph::GraphError>(())
/// ```
pub fn region_blocks(graph: &CsrGraph, parts: usize) -> Partition {
    Regions::grown(graph).blocks(graph, parts)
}

/// The same, if regions reach most of the graph: one thread finds all others, which takes seconds where
/// there are very many small components.
pub(super) fn region_blocks_of_most(graph: &CsrGraph, parts: usize) -> Option<Partition> {
    let regions = Regions::grown(graph);
    regions.reach_most().then(|| regions.blocks(graph, parts))
}

struct Regions {
    count: u32,
    /// Of each vertex: the round in which a region reached it, times the number of regions, plus that region.
    /// Of the regions of one round the smallest has the vertex, whichever thread comes first.
    reached: Vec<AtomicU64>,
}

impl Regions {
    fn grown(graph: &CsrGraph) -> Regions {
        let regions = Regions::new(graph.vertices());
        regions.grow(graph);
        regions
    }

    fn new(vertices: u32) -> Regions {
        let count = (vertices / REGION).clamp(vertices.min(1), MOST);
        let nowhere = (0..vertices).into_par_iter().in_pieces().map(|_| AtomicU64::new(NOWHERE));
        Regions { count, reached: nowhere.collect() }
    }

    fn grow(&self, graph: &CsrGraph) {
        let random = CounterRandom::new(0, Purpose::Parts);
        let seed = |region: u32| random.below(graph.vertices(), region.into());
        let is_free = |&region: &u32| self.reach(seed(region), region.into());
        let mut frontier: Vec<u32> = (0..self.count).filter(is_free).map(seed).collect();
        let mut round = 0;
        while !frontier.is_empty() {
            round += u64::from(self.count);
            let next = frontier.par_iter().with_min_len(ALONE).flat_map_iter(|&vertex| {
                let place = round + u64::from(self.region(vertex));
                let targets = graph.neighbors(vertex).iter().copied();
                targets.filter(move |&target| self.reach(target, place))
            });
            frontier = next.collect();
        }
    }

    /// Notes that a region has reached a vertex. Returns whether it is the first one.
    ///
    /// Relaxed: the end of each round's parallel loop orders the accesses.
    fn reach(&self, vertex: u32, place: u64) -> bool {
        let reached = &self.reached[vertex as usize];
        reached.load(Ordering::Relaxed) > place
            && reached.fetch_min(place, Ordering::Relaxed) == NOWHERE
    }

    /// Whether they have left at most an eighth of the vertices.
    fn reach_most(&self) -> bool {
        let all = self.reached.par_iter().in_pieces();
        let left = all.filter(|reached| reached.load(Ordering::Relaxed) == NOWHERE).count();
        left <= self.reached.len() / 8
    }

    fn blocks(&self, graph: &CsrGraph, parts: usize) -> Partition {
        let order = self.order(graph);
        let degrees = order.par_iter().in_pieces().map(|&vertex| graph.degree(vertex)).collect();
        let blocks = edge_balanced_blocks(&RowIndex::new(degrees), parts);
        Partition { boundaries: blocks.boundaries, order: Some(Order::new(order)) }
    }

    fn is_reached(&self, vertex: u32) -> bool {
        self.reached[vertex as usize].load(Ordering::Relaxed) != NOWHERE
    }

    /// The region of a vertex that is reached.
    fn region(&self, vertex: u32) -> u32 {
        (self.reached[vertex as usize].load(Ordering::Relaxed) % u64::from(self.count)) as u32
    }

    /// The vertices, region by region, then those that no region has reached, component by component.
    fn order(&self, graph: &CsrGraph) -> Vec<u32> {
        let mut rank = vec![0; self.count as usize];
        let neighbours = Neighbours::new(self, graph);
        // From the rim: what a search from anywhere finds last.
        let inward = neighbours.search(neighbours.search(0..self.count).into_iter().rev());
        (0..).zip(inward).for_each(|(place, region)| rank[region as usize] = place);

        let vertices = (0..graph.vertices()).into_par_iter().in_pieces();
        let place = |vertex| match self.is_reached(vertex) {
            true => rank[self.region(vertex) as usize],
            false => u32::MAX,
        };
        let places = vertices.map(|vertex| u64::from(place(vertex)) << 32 | u64::from(vertex));
        let mut places: Vec<u64> = places.collect();
        places.par_sort_unstable();
        let mut order: Vec<u32> = places.par_iter().in_pieces().map(|&at| at as u32).collect();

        let lost = order.split_off(order.partition_point(|&vertex| self.is_reached(vertex)));
        let mut searched = order.len();
        for start in lost {
            order.extend(Some(start).filter(|&vertex| self.reach(vertex, LOST)));
            while searched < order.len() {
                let targets = graph.neighbors(order[searched]).iter().copied();
                order.extend(targets.filter(|&target| self.reach(target, LOST)));
                searched += 1;
            }
        }
        order
    }
}

/// Which regions arcs join: a row of bits for each.
struct Neighbours {
    bits: Vec<u64>,
    /// Words of a row.
    words: usize,
}

impl Neighbours {
    fn new(regions: &Regions, graph: &CsrGraph) -> Neighbours {
        let words = regions.count.div_ceil(u64::BITS) as usize;
        let size = regions.count as usize * words;
        let bits: Vec<_> = (0..size).map(|_| AtomicU64::new(0)).collect();
        let set = |region: u32, other: u32| {
            let word = &bits[region as usize * words + (other / u64::BITS) as usize];
            let bit = 1 << (other % u64::BITS);
            // Relaxed: the end of the parallel loop orders the accesses.
            if word.load(Ordering::Relaxed) & bit == 0 {
                word.fetch_or(bit, Ordering::Relaxed);
            }
        };
        // What a region has reached leads to nothing that none has.
        rows_of(graph).filter(|&vertex| regions.is_reached(vertex)).for_each(|vertex| {
            let own = regions.region(vertex);
            let others = graph.neighbors(vertex).iter().map(|&target| regions.region(target));
            others.filter(|&other| other != own).for_each(|other| {
                set(own, other);
                set(other, own);
            });
        });
        Neighbours { bits: bits.into_iter().map(AtomicU64::into_inner).collect(), words }
    }

    /// All regions in the order of a breadth-first search, from each of `starts` that it has not found yet.
    fn search(&self, starts: impl Iterator<Item = u32>) -> Vec<u32> {
        let (mut order, mut searched) = (Vec::new(), 0);
        let mut unseen = vec![u64::MAX; self.words];
        for start in starts {
            let (word, bit) = ((start / u64::BITS) as usize, 1 << (start % u64::BITS));
            if unseen[word] & bit != 0 {
                unseen[word] &= !bit;
                order.push(start);
            }
            while searched < order.len() {
                let row = order[searched] as usize * self.words;
                searched += 1;
                let row = self.bits[row..row + self.words].iter().zip(&mut unseen);
                for ((bits, unseen), first) in row.zip((0..).step_by(u64::BITS as usize)) {
                    let mut new = bits & *unseen;
                    *unseen &= !new;
                    while new != 0 {
                        order.push(first + new.trailing_zeros());
                        new &= new - 1;
                    }
                }
            }
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{self, GenerateOptions};
    use crate::partition::random;

    /// A road map whose ids say nothing of where vertices lie.
    fn shuffled(rows: u32, columns: u32) -> CsrGraph {
        let options = GenerateOptions::default();
        let road = generate::road(rows, columns, generate::KEEP_PERMILLE, &options).unwrap();
        random(&road, road.vertices() as usize, 3).renumber(&road)
    }

    #[test]
    fn regions_of_a_road_map_cut_few_arcs() {
        let road = shuffled(300, 400);
        for parts in [2, 4, 8] {
            let regions = region_blocks(&road, parts);
            let blocks = edge_balanced_blocks(&road, parts);
            assert!(blocks.edge_cut(&road) * 4 > road.arcs());
            // The shortest side of a part has 300 vertices, those of regions are not straight.
            let most = 4 * 2 * 300 * (parts as u64 - 1);
            assert!(regions.edge_cut(&road) < most, "{parts}: {}", regions.edge_cut(&road));
            assert!(regions.arc_balance(&road) < 1.05, "{parts}");
        }
    }

    #[test]
    fn parts_do_not_depend_on_threads() {
        // So large that several threads share frontiers.
        let road = shuffled(300, 400);
        let on = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| region_blocks(&road, 3))
        };
        assert!((1..4).map(on).is_sorted_by(|one, other| one == other));
    }

    /// Chains of so many vertices, `chains` ids from each other.
    fn chains(chains: u32, vertices: u32) -> CsrGraph {
        let edges = (0..(vertices - 1) * chains).map(|at| (at, at + chains));
        let arcs: Vec<_> = edges.flat_map(|(one, other)| [(one, other), (other, one)]).collect();
        CsrGraph::from_edges(vertices * chains, &arcs).unwrap()
    }

    #[test]
    fn components_without_a_region_are_not_cut() {
        let chains = chains(1000, 10);
        // Only those within which a part ends are.
        assert!(region_blocks(&chains, 4).edge_cut(&chains) <= 2 * 3);
    }

    #[test]
    fn most_of_many_components_has_no_region() {
        assert_eq!(region_blocks_of_most(&chains(1000, 10), 4), None);
        let few = chains(10, 1000);
        assert_eq!(region_blocks_of_most(&few, 4), Some(region_blocks(&few, 4)));
        let nothing = CsrGraph::from_edges(0, &[]).unwrap();
        assert!(region_blocks_of_most(&nothing, 4).is_some());
    }
}
