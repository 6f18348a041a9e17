//! Partitions: each part owns a contiguous range of vertices, renumbered if need
//! be \[G §4.6.1\].
//!
//! | partitioner | parts | for |
//! |---|---|---|
//! | [`contiguous_blocks`] | equally many consecutive vertices | graphs whose ids have locality and whose degrees are alike |
//! | [`edge_balanced_blocks`] | consecutive vertices with equally many arcs | all graphs: the default |
//! | [`random`] | a hash of the vertex | comparison: balanced, and almost everything is cut |
//! | [`region_blocks`] | neighbouring regions with equally many arcs | meshes and road maps whose ids have no locality |
//! | [`metis`] (feature `metis`) | few arcs between parts | the same, many runs of one upload over slow links |
//! | [`automatic`] | consecutive vertices or regions | searches on several GPUs |

mod automatic;
mod blocks;
mod by_degree;
#[cfg(feature = "metis")]
mod metis;
mod part_rows;
mod random;
mod regions;
mod renumber;

pub use automatic::{automatic, have_hubs, is_mesh_like, suits_regions};
pub use blocks::{contiguous_blocks, edge_balanced_blocks};
#[cfg(feature = "metis")]
pub use metis::metis;
pub use part_rows::PartRows;
pub use random::random;
pub use regions::region_blocks;

use std::ops::Range;
use std::sync::atomic::Ordering;

use rayon::prelude::*;

use crate::build::as_atomic;
use crate::pieces::{InPieces, LEAST, rows_of};
use crate::{CsrGraph, Degrees, GraphError};
use by_degree::{sort_by_degree, sort_few_by_degree};
use renumber::{SortedBy, renumbered};

/// One thread handles up to this many vertices.
const ALONE: usize = 1 << 12;
/// The fewest vertices that a thread sorts.
const SORTED: usize = 1 << 14;

/// Why there is no such partition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PartitionError {
    /// A vertex was given a part that does not exist.
    #[error("vertex {vertex} is in part {part}, but there are only {parts} parts")]
    PartOutOfRange {
        /// The vertex.
        vertex: u32,
        /// Its part.
        part: u32,
        /// Number of parts.
        parts: usize,
    },
    /// More vertices or parts than 32-bit numbers tell apart.
    #[error("{vertices} vertices in {parts} parts: there may be at most {} of each", u32::MAX)]
    TooLarge {
        /// Number of vertices.
        vertices: usize,
        /// Number of parts.
        parts: usize,
    },
    /// METIS counts vertices plus arcs, and parts, in 31 bits.
    #[error(
        "METIS cannot divide {vertices} vertices and {arcs} arcs into {parts} parts: its numbers have 31 bits"
    )]
    TooLargeForMetis {
        /// Number of vertices.
        vertices: u32,
        /// Number of arcs once the graph is symmetric and without self-loops.
        arcs: u64,
        /// Number of parts.
        parts: usize,
    },
    /// METIS gave up, most likely for want of memory.
    #[error("METIS failed: {reason}")]
    Metis {
        /// Its reason.
        reason: String,
    },
    /// The graph without directions is too large.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

/// Vertices spread over parts, of which some may be empty. Inside the partition a
/// part's vertices are consecutive, in the order of their original ids unless they are
/// [regions](region_blocks) or [sorted](Partition::sorted_by_key); [`to_new`](Partition::to_new) and [`to_original`](Partition::to_original)
/// translate.
///
/// ```
/// use millstream_graph::{CsrGraph, Partition};
///
/// let path = CsrGraph::from_edges(4, &[(0, 1), (1, 2), (2, 3)])?;
/// let odd_and_even = Partition::from_parts(2, &[1, 0, 1, 0])?;
/// assert_eq!(odd_and_even.boundaries(), [0, 2, 4]);
/// assert_eq!(odd_and_even.to_original(0), 1);
/// assert_eq!(odd_and_even.renumber(&path).neighbors(2), [0]);
/// assert_eq!(odd_and_even.restore(vec!["one", "three", "zero", "two"])[0], "zero");
/// assert_eq!(odd_and_even.edge_cut(&path), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// First new id of each part, and the number of vertices at the end.
    boundaries: Vec<u32>,
    /// `None` if new ids are the original ones.
    order: Option<Order>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Order {
    /// Original id of each new id.
    originals: Vec<u32>,
    /// New id of each original id.
    renumbered: Vec<u32>,
}

impl Order {
    /// The order of new ids that have these original ids, each once.
    fn new(originals: Vec<u32>) -> Order {
        let mut renumbered = vec![0u32; originals.len()];
        let cells = as_atomic(&mut renumbered);
        originals.par_iter().in_pieces().enumerate().for_each(|(new, &original)| {
            // Relaxed: the end of the parallel loop orders the stores.
            cells[original as usize].store(new as u32, Ordering::Relaxed);
        });
        Order { originals, renumbered }
    }
}

impl Partition {
    /// Parts of consecutive original ids, from their boundaries.
    pub(crate) fn contiguous(boundaries: Vec<u32>) -> Partition {
        Partition { boundaries, order: None }
    }

    /// Parts of vertices as `part_of` says, each in ascending order of original ids. If `parts` is
    /// 0, there is one part.
    ///
    /// # Errors
    /// A part that is not below `parts`; more parts or vertices than 32-bit numbers tell apart.
    pub fn from_parts(parts: usize, part_of: &[u32]) -> Result<Partition, PartitionError> {
        let (parts, vertices) = (parts.max(1), part_of.len());
        if parts.max(vertices) > u32::MAX as usize {
            return Err(PartitionError::TooLarge { vertices, parts });
        }
        match part_of.iter().position(|&part| part as usize >= parts) {
            Some(vertex) => Err(PartitionError::PartOutOfRange {
                vertex: vertex as u32,
                part: part_of[vertex],
                parts,
            }),
            None => Ok(Partition::from_valid_parts(parts, part_of)),
        }
    }

    /// A counting sort by part, which keeps the order within each part.
    fn from_valid_parts(parts: usize, part_of: &[u32]) -> Partition {
        let mut boundaries = vec![0; parts + 1];
        for &part in part_of {
            boundaries[part as usize + 1] += 1;
        }
        for part in 0..parts {
            boundaries[part + 1] += boundaries[part];
        }
        let mut next_new = boundaries.clone();
        let mut originals = vec![0; part_of.len()];
        let mut renumbered = vec![0; part_of.len()];
        for (original, &part) in part_of.iter().enumerate() {
            let new = next_new[part as usize];
            originals[new as usize] = original as u32;
            renumbered[original] = new;
            next_new[part as usize] += 1;
        }
        Partition { boundaries, order: Some(Order { originals, renumbered }) }
    }

    /// The same parts, the vertices of each sorted by what `key` says of their new
    /// ids; those with equal keys stay in order.
    ///
    /// ```
    /// use millstream_graph::Partition;
    ///
    /// let halves = Partition::from_parts(2, &[0, 0, 1, 1])?;
    /// let turned = halves.sorted_by_key(std::cmp::Reverse);
    /// assert_eq!(turned.boundaries(), halves.boundaries());
    /// assert_eq!([0, 1, 2, 3].map(|new| turned.to_original(new)), [1, 0, 3, 2]);
    /// # Ok::<(), millstream_graph::partition::PartitionError>(())
    /// ```
    #[must_use]
    pub fn sorted_by_key<K: Ord + Send>(&self, key: impl Fn(u32) -> K + Sync) -> Partition {
        self.in_windows(u32::MAX, |window, places| sort_by_key(window, &key, places))
    }

    /// The same parts. In each window of `window` consecutive new ids, `sort` puts the ids into their places.
    fn in_windows(&self, window: u32, sort: impl Fn(Range<u32>, &mut [u32]) + Sync) -> Partition {
        let mut originals = vec![0; self.vertices() as usize];
        let (mut windows, mut rest) = (Vec::new(), &mut originals[..]);
        for part in 0..self.parts() {
            let mut own = self.range(part);
            while !own.is_empty() {
                let end = (own.start / window + 1).saturating_mul(window).min(own.end);
                let places = rest.split_off_mut(..(end - own.start) as usize).unwrap_or_default();
                windows.push((own.start..end, places));
                own.start = end;
            }
        }
        let windows = windows.into_par_iter().with_min_len((SORTED / window as usize).max(1));
        windows.for_each(|(window, places)| {
            sort(window, places);
            let places = places.par_iter_mut().with_min_len(ALONE);
            places.for_each(|place| *place = self.to_original(*place));
        });
        Partition { boundaries: self.boundaries.clone(), order: Some(Order::new(originals)) }
    }

    /// The same parts. Within each part, every `window` consecutive new ids (1 if it is 0) are
    /// sorted by the vertices' numbers of arcs, the most first; vertices with equally many stay in
    /// order. The numbers are taken from `degrees`, for example a graph, by original id.
    ///
    /// If arcs have both directions, this puts vertices that many arcs lead to side by side, and
    /// those without arcs, too. Small windows keep work spread over the part, and neighbours near
    /// each other.
    ///
    /// ```
    /// use millstream_graph::{CsrGraph, partition};
    ///
    /// let star = CsrGraph::from_edges(4, &[(3, 0), (3, 1), (1, 3)])?;
    /// let one = partition::contiguous_blocks(&star, 1);
    /// let order = |window| [0, 1, 2, 3].map(|new| one.by_degree(&star, window).to_original(new));
    /// assert_eq!(order(4), [3, 1, 0, 2]);
    /// assert_eq!(order(2), [1, 0, 3, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If the partition has more vertices than `degrees`.
    #[must_use]
    pub fn by_degree(&self, degrees: &impl Degrees, window: u32) -> Partition {
        self.largest_first(|new| degrees.degree(self.to_original(new)), window.max(1))
    }

    /// The same parts. In each, vertices with `least` arcs or more come first, the most arcs first;
    /// then the others, in order. The numbers of arcs are taken from `degrees`, by original id.
    ///
    /// ```
    /// use millstream_graph::{CsrGraph, partition};
    ///
    /// let star = CsrGraph::from_edges(4, &[(3, 0), (3, 1), (1, 3)])?;
    /// let one = partition::contiguous_blocks(&star, 1).longest_first(&star, 2);
    /// assert_eq!([0, 1, 2, 3].map(|new| one.to_original(new)), [3, 0, 1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If the partition has more vertices than `degrees`.
    #[must_use]
    pub fn longest_first(&self, degrees: &impl Degrees, least: u64) -> Partition {
        let size = |new| {
            let arcs = degrees.degree(self.to_original(new));
            if arcs >= least { arcs } else { 0 }
        };
        self.largest_first(size, u32::MAX)
    }

    /// The same parts. In each window of `window` consecutive new ids, those of the largest `size`
    /// come first.
    fn largest_first(&self, size: impl Fn(u32) -> u64 + Sync, window: u32) -> Partition {
        self.in_windows(window, |window, places| match window.len() {
            ..by_degree::LEAST => sort_few_by_degree(window, &size, places),
            _ => sort_by_degree(window, &size, places),
        })
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

    /// New ids that `part` owns.
    ///
    /// # Panics
    /// If there is no such part.
    #[inline]
    pub fn range(&self, part: usize) -> Range<u32> {
        self.boundaries[part]..self.boundaries[part + 1]
    }

    /// The part that owns a new id.
    #[inline]
    pub fn owner(&self, new: u32) -> usize {
        self.boundaries.partition_point(|&boundary| boundary <= new) - 1
    }

    /// Whether a vertex has another id inside the partition than outside.
    pub fn is_renumbered(&self) -> bool {
        self.order.is_some()
    }

    /// New id of an original id.
    ///
    /// # Panics
    /// If the vertices were renumbered and it is none of them.
    #[inline]
    pub fn to_new(&self, original: u32) -> u32 {
        self.order.as_ref().map_or(original, |order| order.renumbered[original as usize])
    }

    /// Original id of a new id.
    ///
    /// # Panics
    /// If the vertices were renumbered and it is none of them.
    #[inline]
    pub fn to_original(&self, new: u32) -> u32 {
        self.order.as_ref().map_or(new, |order| order.originals[new as usize])
    }

    /// The rows of a part. `graph` has its original ids, and its rows keep these for their targets.
    ///
    /// ```
    /// use millstream_graph::{CsrGraph, Partition};
    ///
    /// let path = CsrGraph::from_edges(4, &[(0, 1), (1, 2), (2, 3)])?;
    /// let odd_and_even = Partition::from_parts(2, &[1, 0, 1, 0])?;
    /// let rows = odd_and_even.rows(&path, 1);
    /// let mut targets = [0; 2];
    /// rows.copy(path.targets(), 0, &mut targets);
    /// assert_eq!((rows.offsets(), targets), (&[0, 1, 2][..], [1, 3]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If there is no such part, or if the partition is of a graph with more vertices.
    pub fn rows<'a>(&'a self, graph: &'a CsrGraph, part: usize) -> PartRows<'a> {
        PartRows::new(graph, self, part)
    }

    /// The graph with new ids. If the partition renumbers vertices, rows are sorted by target, then by
    /// weight.
    ///
    /// # Panics
    /// If the partition is of a graph with another number of vertices.
    pub fn renumber(&self, graph: &CsrGraph) -> CsrGraph {
        match self.is_renumbered() {
            true => renumbered(graph, graph.weights(), self, SortedBy::Target),
            false => graph.clone(),
        }
    }

    /// As [`renumber`](Partition::renumber), without the graph's weights.
    ///
    /// # Panics
    /// If the partition is of a graph with another number of vertices.
    pub fn renumber_structure(&self, graph: &CsrGraph) -> CsrGraph {
        match self.is_renumbered() {
            true => renumbered(graph, None, self, SortedBy::Target),
            false => graph.structure(),
        }
    }

    /// The graph with new ids, each row sorted by weight, then by target. A search that knows which
    /// weights are too large can then skip the rest of a row.
    ///
    /// ```
    /// use millstream_graph::{CsrGraph, partition};
    ///
    /// let star = CsrGraph::from_weighted_edges(4, &[(0, 1, 9u32), (0, 2, 4), (0, 3, 7)])?;
    /// let one = partition::contiguous_blocks(&star, 1);
    /// assert_eq!(one.renumber_by_weight(&star).neighbors(0), [2, 3, 1]);
    /// # Ok::<(), millstream_graph::GraphError>(())
    /// ```
    ///
    /// # Panics
    /// If the partition is of a graph with another number of vertices.
    pub fn renumber_by_weight(&self, graph: &CsrGraph) -> CsrGraph {
        renumbered(graph, graph.weights(), self, SortedBy::Weight)
    }

    /// Puts values that are in the order of new ids into the order of original ids.
    ///
    /// # Panics
    /// If there are fewer values than vertices.
    pub fn restore<T: Clone + Send + Sync>(&self, values: Vec<T>) -> Vec<T> {
        match &self.order {
            Some(_) => self.restore_with(|new| values[new as usize].clone()),
            None => values,
        }
    }

    /// Puts `value(new)` of all new ids into the order of original ids, while computing the values.
    ///
    /// ```
    /// use millstream_graph::Partition;
    ///
    /// let odd_and_even = Partition::from_parts(2, &[1, 0, 1, 0])?;
    /// assert_eq!(odd_and_even.restore_with(|new| new), [2, 0, 3, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn restore_with<T: Send>(&self, value: impl Fn(u32) -> T + Sync + Send) -> Vec<T> {
        let is_small = (self.vertices() as usize) < LEAST;
        match &self.order {
            // On this thread, since one of rayon's threads would have to be woken.
            _ if is_small => (0..self.vertices()).map(|id| value(self.to_new(id))).collect(),
            Some(order) => order.renumbered.par_iter().in_pieces().map(|&new| value(new)).collect(),
            None => (0..self.vertices()).into_par_iter().in_pieces().map(value).collect(),
        }
    }

    /// Number of arcs of `graph` (with its original ids) that lead from one part to another.
    ///
    /// # Panics
    /// If the partition is of a graph with another number of vertices.
    pub fn edge_cut(&self, graph: &CsrGraph) -> u64 {
        let cut = |vertex: u32| {
            let own = self.range(self.owner(self.to_new(vertex)));
            let leaves = |target: &&u32| !own.contains(&self.to_new(**target));
            graph.neighbors(vertex).iter().filter(leaves).count() as u64
        };
        rows_of(graph).map(cut).sum()
    }

    /// Vertices of the largest part, divided by the mean over all parts; 1 is perfect.
    pub fn vertex_balance(&self) -> f64 {
        balance(self.boundaries.windows(2).map(|part| u64::from(part[1] - part[0])))
    }

    /// The most arcs that leave a part, divided by the mean over all parts.
    ///
    /// # Panics
    /// If the partition is of a graph with another number of vertices.
    pub fn arc_balance(&self, graph: &CsrGraph) -> f64 {
        let degree = |new| graph.degree(self.to_original(new));
        balance((0..self.parts()).map(|part| self.range(part).map(degree).sum()))
    }
}

/// Fills `places` with ids in the order of their keys, those with equal keys in the order of ids.
fn sort_by_key<K: Ord + Send>(
    ids: Range<u32>,
    key: &(impl Fn(u32) -> K + Sync),
    places: &mut [u32],
) {
    // Computes each key only once. With their ids, all keys are different.
    let keys = ids.into_par_iter().with_min_len(ALONE).map(|id| (key(id), id));
    let mut order: Vec<(K, u32)> = keys.collect();
    order.par_sort_unstable();
    let places = places.par_iter_mut().with_min_len(ALONE);
    places.zip(order).for_each(|(place, (_, id))| *place = id);
}

fn balance(sizes: impl ExactSizeIterator<Item = u64>) -> f64 {
    let parts = sizes.len();
    let (mut largest, mut sum) = (0, 0);
    for size in sizes {
        largest = largest.max(size);
        sum += size;
    }
    // If there is nothing, it is spread evenly.
    if sum == 0 { 1.0 } else { largest as f64 * parts as f64 / sum as f64 }
}

#[cfg(test)]
mod tests;
