//! The layout of the rows that sweeps read: long rows one by one, then sliced ELLPACK.
//!
//! The rows of a part are numbered by length, the longest first. In a symmetric graph this also
//! brings the vertices together that most arcs enter, so their shares stay in the caches. If no
//! vertex is a hub, or the graph is [deep](DepthProbe::is_deep), vertices near each other
//! usually have ids near each other, and keep them: short rows are then sorted only within
//! windows of consecutive vertices. 32 successive short rows are a *slice*: the first arc of
//! each row, then the second of each, and so on; shorter rows are padded with [`NO_SOURCE`]. So
//! 32 threads with a row each read adjacent words, and the only row index needed is where each
//! slice begins.

use std::cmp::Reverse;
use std::ops::Range;

use millstream_graph::pieces::InPieces;
use millstream_graph::{CsrGraph, Degrees, DepthProbe, Partition, partition};
use rayon::prelude::*;

/// Rows of a slice: the threads of a warp.
pub(crate) const SLICE: usize = 32;
/// Fills the places of a slice that have no source.
pub(crate) const NO_SOURCE: u32 = u32::MAX;
/// Rows of this many arcs or more are long: a warp takes each, not a thread.
const LONG_ROW: u64 = 256;
/// Rows of this many arcs or more are taken by a block each, not by a warp.
const BLOCK_ROW: u64 = 16384;
/// A slice of this many columns or more is enough work for a warp to draw by itself.
const WIDE: u64 = 32;
/// Rows of this many arcs or more are shared by all blocks, piece by piece,
const SHARED_ROW: u64 = 1 << 17;
/// if they have at least one in this many of a part's arcs. One block would take half as long as the
/// whole sweep for such a row, or all of that time; shorter rows are done beside others.
const ARCS_FOR_SHARED: u64 = 48;
/// The fewest slices that a thread measures.
const CHUNKS: usize = 1 << 10;
/// Vertices of a window.
const WINDOW: u32 = 256;

/// The order that slices need inside each part (see the module), for rows of the arcs that enter the
/// vertices of `graph`; `entering` says how many enter each.
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
    /// How many of the first rows all blocks of a GPU share.
    pub(crate) shared_rows: u32,
    /// How many of the first rows are shared or taken by a block each.
    pub(crate) block_rows: u32,
    /// How many rows are long, and so not in slices.
    pub(crate) long_rows: u32,
    /// How many slices precede the first that is not wide.
    pub(crate) wide_slices: u32,
}

impl Slices {
    /// For the vertices of a part, by original id, in the order of [`sorted`]; `degrees` gives their arcs.
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

    /// The number of places for arcs, including padding.
    pub(crate) fn places(&self) -> usize {
        self.offsets[self.offsets.len() - 1] as usize
    }
}

/// The original ids of a part's vertices, in their order.
pub(crate) fn originals(partition: &Partition, part: usize) -> Vec<u32> {
    let own = partition.range(part).into_par_iter().in_pieces();
    own.map(|new| partition.to_original(new)).collect()
}

/// The rows of `item`, out of `all` rows.
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

    /// How many of the rows with these lengths, the longest first, are shared.
    fn shared_rows(lengths: &[u32]) -> u32 {
        let arcs = (0..).zip(lengths).flat_map(|(row, &arcs)| (0..arcs).map(move |to| (row, to)));
        let rows = CsrGraph::from_edges(1 << 18, &arcs.collect::<Vec<_>>()).unwrap();
        Slices::new(&rows, &(0..1 << 18).collect::<Vec<_>>()).shared_rows
    }

    /// A lattice, whose vertices stay in their windows, except one that arcs from all others enter.
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
