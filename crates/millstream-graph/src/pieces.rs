//! Loops that all threads share, in pieces that are large enough to be worth waking a thread.

use std::ops::Range;

use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, MinLen, ParallelIterator};
use rayon::range::Iter;

use crate::CsrGraph;

/// The fewest vertices or arcs for one thread. Waking a sleeping thread takes some 50 microseconds
/// on machines with many cores, and rayon wakes all of them: a sum over 62,400 numbers took four
/// milliseconds there, where one thread needs twenty microseconds
/// (`docs/decisions/0036-small-loops-stay-on-one-thread.md`).
pub(crate) const LEAST: usize = 1 << 16;

/// Parallel loops that do little with each item.
///
/// ```
/// use millstream_graph::pieces::InPieces;
/// use rayon::prelude::*;
///
/// let squares: u64 = (0..1000_u32).into_par_iter().in_pieces().map(|at| u64::from(at * at)).sum();
/// assert_eq!(squares, 332_833_500);
/// ```
pub trait InPieces: IndexedParallelIterator {
    /// The same, in pieces of at least many thousand items: small loops stay on one thread.
    fn in_pieces(self) -> MinLen<Self> {
        self.with_min_len(LEAST)
    }
}

impl<I: IndexedParallelIterator> InPieces for I {}

/// The first position below `len` for which `is_so` is true, which may be called for all of them.
/// It is evaluated on whole pieces: with rayon's `position_first`, threads synchronize after every
/// item, which takes longer than a comparison.
pub(crate) fn first_position(len: usize, is_so: impl Fn(usize) -> bool + Sync) -> Option<usize> {
    const PIECE: usize = 1 << 12;
    let positions = |piece: usize| piece * PIECE..len.min((piece + 1) * PIECE);
    let pieces = (0..len.div_ceil(PIECE)).into_par_iter().with_min_len(LEAST / PIECE);
    let has_one = |&piece: &usize| positions(piece).fold(false, |found, at| found | is_so(at));
    let piece = pieces.find_first(has_one)?;
    positions(piece).find(|&at| is_so(at))
}

/// The vertices of a graph, for a parallel loop that looks at the arcs of each. If rows have the
/// mean length, its pieces are as much work as those of [`InPieces`].
///
/// ```
/// use millstream_graph::{CsrGraph, pieces};
/// use rayon::prelude::*;
///
/// let graph = CsrGraph::from_edges(3, &[(0, 1), (0, 2), (2, 0)])?;
/// let loops = pieces::rows_of(&graph).filter(|&from| graph.neighbors(from).contains(&from));
/// assert_eq!(loops.count(), 0);
/// # Ok::<(), millstream_graph::GraphError>(())
/// ```
pub fn rows_of(graph: &CsrGraph) -> MinLen<Iter<u32>> {
    let least = least_rows(graph.vertices() as usize, graph.targets().len());
    (0..graph.vertices()).into_par_iter().with_min_len(least)
}

/// Calls `visit(row, its_arcs)` for all rows that contain some of `arcs`; of the first and the last
/// row, `its_arcs` may be a part only. With this, threads can share out arcs rather than rows,
/// since a hub's row may have most of them.
///
/// ```
/// let mut visited = Vec::new();
/// let rows = [0, 3, 3, 8];
/// millstream_graph::pieces::visit_rows(&rows, 1..7, |row, arcs| visited.push((row, arcs)));
/// assert_eq!(visited, [(0, 1..3), (1, 3..3), (2, 3..7)]);
/// ```
#[inline]
pub fn visit_rows(offsets: &[u64], arcs: Range<usize>, mut visit: impl FnMut(usize, Range<usize>)) {
    // The last row that begins at or before the first arc.
    let mut row = offsets.partition_point(|&offset| offset <= arcs.start as u64).saturating_sub(1);
    let mut arc = arcs.start;
    while arc < arcs.end {
        let end = arcs.end.min(offsets[row + 1] as usize);
        visit(row, arc..end);
        (row, arc) = (row + 1, end);
    }
}

/// The number of rows that are as much work as [`LEAST`] items.
pub(crate) fn least_rows(vertices: usize, arcs: usize) -> usize {
    let rows = LEAST as u128 * vertices as u128 / (vertices + arcs).max(1) as u128;
    (rows as usize).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_position_is_found_wherever_it_is() {
        for len in [0, 1, 4095, 4096, 4097, 3 * LEAST + 5] {
            assert_eq!(first_position(len, |_| false), None, "{len}");
            for first in [0, 1, 4095, 4096, LEAST, 3 * LEAST + 4] {
                let found = first_position(len, |at| at >= first);
                assert_eq!(found, Some(first).filter(|&first| first < len), "{first} of {len}");
            }
        }
    }

    #[test]
    fn longer_rows_are_in_smaller_pieces() {
        assert_eq!([least_rows(1000, 0), least_rows(1000, 3000)], [LEAST, LEAST / 4]);
        assert_eq!([least_rows(10, 10 << 20), least_rows(0, 0)], [1, 1]);
        assert_eq!(least_rows(u32::MAX as usize, 1 << 40), LEAST / 257);
    }
}
