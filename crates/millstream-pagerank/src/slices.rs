//! How rows of arcs lie as sweeps read them: sliced ELLPACK, after long rows one by one.
//!
//! The rows of a part are numbered by length, the longest first. That also brings the
//! vertices together that most arcs lead to, if arcs have both directions: they stay in
//! the caches. Where vertices near each other have ids near each other as a rule, since no vertex is a hub or the
//! graph is [deep](DepthProbe::is_deep), they stay so: short rows are
//! sorted inside windows of consecutive vertices. 32 short rows that follow each other
//! are a *slice*: the first arc of each, then the second of each, and so on, short ones
//! padded with [`NO_SOURCE`]. So 32 threads with a row each read what lies side by side,
//! and no row index is needed but where each slice begins.

use std::cmp::Reverse;
use std::ops::Range;

use millstream_graph::pieces::InPieces;
use millstream_graph::{CsrGraph, Degrees, Partition, partition};
use millstream_traversal::DepthProbe;
use rayon::prelude::*;

/// Rows of a slice: the threads of a warp.
pub(crate) const SLICE: usize = 32;
/// In the place of a source where there is none.
pub(crate) const NO_SOURCE: u32 = u32::MAX;
/// Rows of this many arcs are long: a warp's, not a thread's.
const LONG_ROW: u64 = 256;
/// Rows of this many arcs are a block's, not a warp's.
const BLOCK_ROW: u64 = 16384;
/// A slice of this many columns is work enough for a warp to draw.
const WIDE: u64 = 32;
/// Rows of this many arcs are all blocks', piece by piece,
const SHARED_ROW: u64 = 1 << 17;
/// if they have one in so many of a part's. A block takes as long for such a row alone as all blocks
/// take for a sweep, or half as long; shorter ones are done beside others.
const ARCS_FOR_SHARED: u64 = 48;
/// Slices that one thread measures at least.
const CHUNKS: usize = 1 << 10;
/// Vertices of a window.
const WINDOW: u32 = 256;

/// The order that slices need inside each part, for rows of the arcs that enter the vertices of `graph`, of which
/// there are as many as `entering` says: see the module.
pub(crate) fn sorted(
    partition: &Partition,
    graph: &CsrGraph,
    entering: &impl Degrees,
) -> Partition {
    if !partition::have_hubs(graph, entering) {
        return partition.by_degree(entering, WINDOW);
    }
    match DepthProbe::new(graph).is_deep() {
        true => partition.longest_first(entering, LONG_ROW).by_degree(entering, WINDOW),
        false => partition.by_degree(entering, u32::MAX),
    }
}

/// Where the rows of one part are.
#[derive(Debug)]
pub(crate) struct Slices {
    /// Where the arcs of each long row and then of each slice begin, and the end.
    pub(crate) offsets: Vec<u64>,
    /// The first of the long rows: those that all blocks of a GPU share.
    pub(crate) shared_rows: u32,
    /// Those, and the next, each for a block.
    pub(crate) block_rows: u32,
    /// Rows that are not in slices.
    pub(crate) long_rows: u32,
    /// Wide slices before the first that is not.
    pub(crate) wide_slices: u32,
}

impl Slices {
    /// Of the vertices of a part by their original ids, in the order of [`sorted`], with so many arcs each.
    pub(crate) fn new(degrees: &impl Degrees, originals: &[u32]) -> Slices {
        let length = |&original: &u32| degrees.degree(original);
        let rows_of = |least: u64| originals.partition_point(|row| length(row) >= least);
        let (long, short) = originals.split_at(rows_of(LONG_ROW));
        debug_assert!(long.is_sorted_by_key(|row| Reverse(length(row))));
        debug_assert!(short.iter().all(|row| length(row) < LONG_ROW));
        let width = |rows: &[u32]| rows.iter().map(length).max().unwrap_or(0);
        let widths: Vec<u64> = short.par_chunks(SLICE).with_min_len(CHUNKS).map(width).collect();
        let wide_slices = widths.iter().take_while(|&&width| width >= WIDE).count() as u32;
        let items = long.iter().map(length).chain(widths.iter().map(|width| width * SLICE as u64));
        let mut offsets = vec![0];
        offsets.extend(items.scan(0, |end, arcs| {
            *end += arcs;
            Some(*end)
        }));
        let places = offsets[offsets.len() - 1];
        let shared_row = SHARED_ROW.max(places / ARCS_FOR_SHARED);
        let [shared_rows, block_rows] = [shared_row, BLOCK_ROW].map(|least| rows_of(least) as u32);
        let long_rows = long.len() as u32;
        Slices { offsets, shared_rows, block_rows, long_rows, wide_slices }
    }

    /// Places of arcs, padded ones too.
    pub(crate) fn places(&self) -> usize {
        self.offsets[self.offsets.len() - 1] as usize
    }
}

/// The original ids of a part's vertices, in their order.
pub(crate) fn originals(partition: &Partition, part: usize) -> Vec<u32> {
    let own = partition.range(part).into_par_iter().in_pieces();
    own.map(|new| partition.to_original(new)).collect()
}

/// Rows of `item`, of `all` that there are.
pub(crate) fn rows_of(item: usize, long_rows: usize, all: usize) -> Range<usize> {
    match item.checked_sub(long_rows) {
        None => item..item + 1,
        Some(slice) => {
            let first = long_rows + slice * SLICE;
            first..(first + SLICE).min(all)
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use millstream_graph::generate::{self, GenerateOptions};

    use super::*;

    /// Rows of these lengths, the longest first.
    fn shared_rows(lengths: &[u32]) -> u32 {
        let arcs = (0..).zip(lengths).flat_map(|(row, &arcs)| (0..arcs).map(move |to| (row, to)));
        let rows = CsrGraph::from_edges(1 << 18, &arcs.collect::<Vec<_>>()).unwrap();
        Slices::new(&rows, &(0..1 << 18).collect::<Vec<_>>()).shared_rows
    }

    /// A lattice, whose vertices stay in their windows but for one that all others lead to.
    #[test]
    fn long_rows_come_first_where_vertices_stay_near_each_other() {
        let lattice = generate::grid(100, 100, &GenerateOptions::default()).unwrap();
        let (sink, all) = (5_003, lattice.vertices());
        let entering =
            (0..all).flat_map(|to| lattice.neighbors(to).iter().map(move |&from| (to, from)));
        let kept = entering.filter(|&(to, from)| to != sink && from != sink);
        let arcs: Vec<_> = kept.chain((0..all).map(|from| (sink, from))).collect();
        let entering = CsrGraph::from_edges(all, &arcs).unwrap();
        let (graph, blocks) =
            (entering.transposed().unwrap(), partition::contiguous_blocks(&entering, 1));
        assert!(DepthProbe::new(&graph).is_deep() && !partition::is_mesh_like(&graph));
        let parts = sorted(&blocks, &graph, &entering);
        let slices = Slices::new(&entering, &originals(&parts, 0));
        assert_eq!((parts.to_original(0), slices.long_rows), (sink, 1));
        assert!(parts.to_original(300) < 600, "all are sorted together");
        assert!(slices.places() < arcs.len() * 5 / 4);
    }

    #[test]
    fn rows_are_shared_that_are_long_and_a_large_part() {
        let least = 1 << 17;
        assert_eq!(shared_rows(&[least + 1, least, least - 1]), 2);
        // A 48th of all arcs, and less.
        assert_eq!(shared_rows(&[&[least; 1][..], &[least / 2; 94]].concat()), 1);
        assert_eq!(shared_rows(&[&[least; 1][..], &[least / 2; 95]].concat()), 0);
    }
}
