//! Rows of arcs on their way from the host: 4 bytes an arc and 4 a row, where a list of edges takes 8 bytes
//! an edge. The twin of `sent_rows.cuh`.
//!
//! A packet begins with two words: the vertex of its first row, and its number of rows. Then come, for each
//! row, the number of the packet's arcs up to the row's end; then the targets of all arcs. The packet's first
//! and last rows may be parts of rows of the graph.

use std::ops::Range;

use millstream_device::{Grid, Kernel, KernelFault, Value, Write};
use millstream_graph::CsrGraph;
use rayon::prelude::*;

/// Words before the ends of rows.
pub(crate) const HEAD: usize = 2;
/// The fewest words of a packet with room for an arc.
pub(crate) const LEAST_WORDS: usize = HEAD + 2;
/// The fewest words that a thread fills in.
const PIECE: usize = 1 << 14;
/// Arcs of a block.
const ARCS: usize = 1 << 14;

/// Arcs that go in one packet, and their rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) rows: Range<usize>,
    pub(crate) arcs: Range<usize>,
}

impl Stretch {
    /// As many arcs, from `arc` on, as fit with their rows into `words` words; at least one, if any is left.
    /// `offsets` are those of the graph.
    pub(crate) fn from(offsets: &[u64], arc: usize, words: usize) -> Stretch {
        let (room, vertices) = (words.max(LEAST_WORDS) - HEAD, offsets.len() - 1);
        // The last row that begins at `arc` or before.
        let first = offsets.partition_point(|&offset| offset <= arc as u64) - 1;
        let arcs_to = |row: usize| offsets[row] as usize - arc;
        let fits = |&row: &usize| row + 1 - first + arcs_to(row + 1) <= room;
        let (mut end, mut beyond) = (first, vertices);
        while end < beyond {
            let middle = end + (beyond - end) / 2;
            match fits(&middle) {
                true => end = middle + 1,
                false => beyond = middle,
            }
        }
        let arcs = if end == first { 0 } else { arcs_to(end) };
        // How many arcs of one more row fit.
        let left = (room - (end - first) - arcs).saturating_sub(1);
        match end < vertices && left > 0 {
            true => Stretch { rows: first..end + 1, arcs: arc..arc + arcs + left },
            false => Stretch { rows: first..end, arcs: arc..arc + arcs },
        }
    }

    /// The words that the stretch takes.
    pub(crate) fn words(&self) -> usize {
        HEAD + self.rows.len() + self.arcs.len()
    }

    /// Writes the stretch of a graph into `words`.
    fn write(&self, graph: &CsrGraph, words: &mut [u32]) {
        let Stretch { rows, arcs } = self;
        let (head, words) = words.split_at_mut(HEAD);
        head.copy_from_slice(&[rows.start as u32, rows.len() as u32]);
        let (ends, targets) = words.split_at_mut(rows.len());
        let offsets = &graph.offsets()[rows.start + 1..=rows.end];
        let end = |offset: u64| ((offset as usize).min(arcs.end) - arcs.start) as u32;
        let copy = |ends: &mut [u32], offsets: &[u64]| {
            ends.iter_mut().zip(offsets).for_each(|(to, &offset)| *to = end(offset));
        };
        ends.par_chunks_mut(PIECE)
            .zip(offsets.par_chunks(PIECE))
            .for_each(|(ends, offsets)| copy(ends, offsets));
        targets
            .par_chunks_mut(PIECE)
            .zip(graph.targets()[arcs.clone()].par_chunks(PIECE))
            .for_each(|(to, from)| to.copy_from_slice(from));
    }
}

/// A kernel that fills a packet with the stretch of a graph that begins at a given arc.
pub(crate) fn filling(graph: CsrGraph) -> Kernel<(Write<u32>, Value<u64>)> {
    Kernel::from_closure("fill in rows", move |_: &Grid, (words, arc): (&mut [u32], u64)| {
        Stretch::from(graph.offsets(), arc as usize, words.len()).write(&graph, words);
        Ok(())
    })
}

/// The rows of a packet.
#[derive(Clone, Copy)]
pub(crate) struct SentRows<'a> {
    first: u32,
    ends: &'a [u32],
    pub(crate) targets: &'a [u32],
}

impl<'a> SentRows<'a> {
    pub(crate) fn of(words: &'a [u32]) -> SentRows<'a> {
        let (ends, targets) = words[HEAD..].split_at(words[1] as usize);
        SentRows { first: words[0], ends, targets }
    }

    /// Calls `visit(vertex, target)` for each arc.
    pub(crate) fn for_each_arc(&self, visit: impl Fn(u32, u32) + Sync) -> Result<(), KernelFault> {
        Grid::of_blocks(self.targets.len(), ARCS).for_each_block(|block| {
            let Range { start: mut arc, end } = block.range;
            let mut row = self.ends.partition_point(|&end| end as usize <= arc);
            while arc < end {
                let stop = end.min(self.ends[row] as usize);
                let vertex = self.first + row as u32;
                self.targets[arc..stop].iter().for_each(|&target| visit(vertex, target));
                (row, arc) = (row + 1, stop);
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn graph(degrees: &[u32]) -> CsrGraph {
        let rows = degrees.iter().zip(0..).flat_map(|(&degree, from)| {
            (0..degree).map(move |to| (from, (from + to) % degrees.len() as u32))
        });
        CsrGraph::from_edges(degrees.len() as u32, &rows.collect::<Vec<_>>()).unwrap()
    }

    /// All arcs of a graph, after they have been sent in packets of `words` words.
    fn sent(graph: &CsrGraph, words: usize) -> Vec<(u32, u32)> {
        let mut all = Vec::new();
        let mut arc = 0;
        while arc < graph.targets().len() {
            let stretch = Stretch::from(graph.offsets(), arc, words);
            assert!(stretch.arcs.start == arc && stretch.arcs.end > arc, "{stretch:?}");
            assert!(stretch.words() <= words.max(LEAST_WORDS), "{stretch:?}");
            let mut packet = vec![7; stretch.words()];
            stretch.write(graph, &mut packet);
            let again = Stretch::from(graph.offsets(), arc, packet.len());
            assert_eq!(again, stretch, "who fills it in finds the same");
            let arcs = Mutex::new(Vec::new());
            let rows = SentRows::of(&packet);
            rows.for_each_arc(|from, to| arcs.lock().unwrap().push((from, to))).unwrap();
            all.extend(arcs.into_inner().unwrap());
            arc = stretch.arcs.end;
        }
        all
    }

    #[test]
    fn packets_of_any_size_have_all_arcs_once() {
        for degrees in
            [&[][..], &[0, 0], &[1], &[0, 3, 0, 0, 5, 1, 0], &[40, 0, 0, 1, 2, 90, 0], &[9; 50]]
        {
            let graph = graph(degrees);
            let row = |from: u32| graph.neighbors(from).iter().map(move |&to| (from, to));
            let expected: Vec<_> = (0..graph.vertices()).flat_map(row).collect();
            for words in [0, 4, 5, 6, 7, 8, 11, 16, 40, 100, 10_000] {
                assert_eq!(sent(&graph, words), expected, "{degrees:?} in {words} words");
            }
        }
    }

    #[test]
    fn rows_of_many_blocks_are_whole() {
        let degrees: Vec<u32> = (0..3000).map(|at| at * 7919 % 41 * (at % 3)).collect();
        let graph = graph(&degrees);
        assert!(graph.targets().len() > 3 * ARCS);
        let row = |from: u32| graph.neighbors(from).iter().map(move |&to| (from, to));
        let expected: Vec<_> = (0..graph.vertices()).flat_map(row).collect();
        for words in [20_011, 200_000] {
            assert!(sent(&graph, words) == expected, "in {words} words");
        }
    }

    #[test]
    fn many_rows_without_arcs_are_not_sent_before_those_with_some() {
        let mut degrees = vec![0; 10_000];
        degrees[9_000] = 2;
        let graph = graph(&degrees);
        let stretch = Stretch::from(graph.offsets(), 0, 100);
        assert_eq!((stretch.rows.start, stretch.arcs), (9_000, 0..2));
    }
}
