//! Transposes of graphs: a parallel counting sort of arcs by target, in two steps.
//!
//! If arcs went to their rows at once, writes would be scattered all over memory, and threads would
//! wait for each other at the rows of hubs. So arcs first go to blocks of consecutive targets, each
//! chunk of arcs to places of its own, and then, block by block, to rows that fit in a cache. Both
//! steps keep the order of the arcs, so rows need no sorting, unless there are several arcs between
//! two vertices.

use std::mem::replace;
use std::ops::Range;
use std::sync::atomic::Ordering;

use rayon::prelude::*;

use crate::build::{ArcWeight, as_atomic, zeroed};
use crate::pieces::{LEAST, least_rows, visit_rows};
use crate::rows::sort_by_target;
use crate::{CsrGraph, GraphError, Weights};

/// The most blocks: a thread writes to one place in each, and a cache holds as many places.
const BLOCKS: u32 = 1 << 10;
/// Chunks of arcs for each thread.
const CHUNKS: usize = 4;
/// The most arcs that go to their blocks at once, or this fraction of all arcs, if that is more:
/// memory for all of them would be twice the graph.
const AT_ONCE: usize = 1 << 26;
const PART_AT_ONCE: usize = 4;

impl CsrGraph {
    /// The graph with every arc, and its weight, the other way round; rows are
    /// sorted. Vertices keep their ids.
    ///
    /// # Errors
    /// There is no memory for it.
    ///
    /// ```
    /// use millstream_graph::CsrGraph;
    ///
    /// let graph = CsrGraph::from_edges(3, &[(0, 1), (2, 1)])?;
    /// assert_eq!(graph.transposed()?.neighbors(1), [0, 2]);
    /// # Ok::<(), millstream_graph::GraphError>(())
    /// ```
    pub fn transposed(&self) -> Result<CsrGraph, GraphError> {
        turned(self, self.weights(), at_once(self))
    }

    /// As [`transposed`](CsrGraph::transposed), without weights.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn transposed_structure(&self) -> Result<CsrGraph, GraphError> {
        turned(self, None, at_once(self))
    }
}

fn at_once(graph: &CsrGraph) -> usize {
    AT_ONCE.max(graph.targets().len() / PART_AT_ONCE)
}

/// The transpose, with these of the graph's weights. At most `at_once` arcs, or those of a single
/// block, go to their blocks at once.
fn turned(
    graph: &CsrGraph,
    weights: Option<&Weights>,
    at_once: usize,
) -> Result<CsrGraph, GraphError> {
    match weights {
        None => Turned::<()> { graph, weights: &[] }.build(at_once),
        Some(Weights::Integer(weights)) => Turned { graph, weights }.build(at_once),
        Some(Weights::Real(weights)) => Turned { graph, weights }.build(at_once),
    }
}

/// A graph to be transposed, and its weights, if they are stored.
struct Turned<'a, W> {
    graph: &'a CsrGraph,
    weights: &'a [W],
}

impl<W: ArcWeight> Turned<'_, W> {
    fn build(&self, at_once: usize) -> Result<CsrGraph, GraphError> {
        let arcs = self.graph.arcs();
        let mut offsets = zeroed::<u64>(u64::from(self.graph.vertices()) + 1)?;
        let mut sources = zeroed::<u32>(arcs)?;
        let mut keys = zeroed::<u32>(if W::STORED { arcs } else { 0 })?;
        let mut places = Places::new(self.graph);
        let rounds = places.rounds(at_once);
        let most = rounds.iter().map(|round| places.arcs(round).len()).max().unwrap_or(0) as u64;
        let mut packed = zeroed::<u64>(most)?;
        let mut packed_keys = zeroed::<u32>(if W::STORED { most } else { 0 })?;
        let mut blocks = places.blocks(&mut offsets[1..], &mut sources, &mut keys);
        for round in rounds {
            self.pack(&round, &mut places, &mut packed, &mut packed_keys);
            let begin = places.arcs(&round).start;
            let blocks = blocks[round].par_iter_mut().with_min_len(places.least_blocks);
            blocks.for_each(|block| {
                let its = block.begin - begin..block.begin - begin + block.sources.len();
                let keys = if W::STORED { &packed_keys[its.clone()] } else { &[] };
                block.fill::<W>(&packed[its], keys);
            });
        }
        Ok(CsrGraph::from_valid_csr(offsets, sources, W::from_keys(keys)))
    }

    /// Puts the arcs that lead to blocks of `round` into these blocks, each with its target in the
    /// upper half.
    fn pack(
        &self,
        round: &Range<usize>,
        places: &mut Places,
        packed: &mut [u64],
        packed_keys: &mut [u32],
    ) {
        let (packed, packed_keys) = (as_atomic(packed), as_atomic(packed_keys));
        let begin = places.arcs(round).start;
        let (shift, chunk_arcs) = (places.shift, places.chunk_arcs);
        places.chunks.par_iter_mut().enumerate().for_each(|(chunk, places)| {
            let places = &mut places[round.clone()];
            let first = chunk * chunk_arcs;
            let end = self.graph.targets().len().min(first + chunk_arcs);
            visit_rows(self.graph.offsets(), first..end, |source, arcs| {
                for (arc, &target) in arcs.clone().zip(&self.graph.targets()[arcs]) {
                    // For blocks before the round, this wraps around to a number beyond its end.
                    let block = ((target >> shift) as usize).wrapping_sub(round.start);
                    let Some(place) = places.get_mut(block) else { continue };
                    let at = *place - begin;
                    // Relaxed: each place is taken by one arc only, and read after the parallel
                    // loop has ended.
                    packed[at].store(u64::from(target) << 32 | source as u64, Ordering::Relaxed);
                    if W::STORED {
                        packed_keys[at].store(self.weights[arc].to_key(), Ordering::Relaxed);
                    }
                    *place += 1;
                }
            });
        });
    }
}

/// Where arcs go on the way to their rows.
struct Places {
    vertices: usize,
    /// The binary logarithm of a block's vertices.
    shift: u32,
    /// The fewest blocks for one thread.
    least_blocks: usize,
    /// The first place of each block, and the end of the last.
    begins: Vec<usize>,
    /// Arcs of each chunk but the last.
    chunk_arcs: usize,
    /// For each chunk, its next place in each block.
    chunks: Vec<Vec<usize>>,
}

impl Places {
    fn new(graph: &CsrGraph) -> Places {
        let (vertices, targets) = (graph.vertices() as usize, graph.targets());
        let shift = graph.vertices().div_ceil(BLOCKS).next_power_of_two().trailing_zeros();
        let blocks = vertices.div_ceil(1 << shift);
        let chunks = (CHUNKS * rayon::current_num_threads()).min(targets.len().div_ceil(LEAST));
        let chunk_arcs = targets.len().div_ceil(chunks.max(1)).max(1);
        let count = |targets: &[u32]| {
            let mut counts = vec![0; blocks];
            targets.iter().for_each(|target| counts[(target >> shift) as usize] += 1);
            counts
        };
        let mut chunks: Vec<Vec<usize>> = targets.par_chunks(chunk_arcs).map(count).collect();
        let mut end = 0;
        let block_begin = |block: usize| {
            let begin = end;
            chunks.iter_mut().for_each(|counts| end += replace(&mut counts[block], end));
            begin
        };
        let mut begins: Vec<usize> = (0..blocks).map(block_begin).collect();
        begins.push(end);
        let least_blocks = (least_rows(vertices, end) >> shift).max(1);
        Places { vertices, shift, least_blocks, begins, chunk_arcs, chunks }
    }

    /// Consecutive blocks with at most `at_once` arcs together, or a single block with more.
    fn rounds(&self, at_once: usize) -> Vec<Range<usize>> {
        let (mut rounds, mut first) = (Vec::new(), 0);
        while first + 1 < self.begins.len() {
            let most = self.begins[first].saturating_add(at_once);
            let end = self.begins.partition_point(|&begin| begin <= most) - 1;
            let end = end.max(first + 1);
            rounds.push(first..end);
            first = end;
        }
        rounds
    }

    /// The places of a round's arcs.
    fn arcs(&self, round: &Range<usize>) -> Range<usize> {
        self.begins[round.start]..self.begins[round.end]
    }

    /// The blocks' parts of the result.
    fn blocks<'a>(
        &self,
        mut ends: &'a mut [u64],
        mut sources: &'a mut [u32],
        mut keys: &'a mut [u32],
    ) -> Vec<Block<'a>> {
        let has_keys = !keys.is_empty();
        let block = |(block, begins): (usize, &[usize])| {
            let first = block << self.shift;
            let vertices = (1 << self.shift).min(self.vertices - first);
            let arcs = begins[1] - begins[0];
            Block {
                first,
                begin: begins[0],
                ends: ends.split_off_mut(..vertices).unwrap_or_default(),
                sources: sources.split_off_mut(..arcs).unwrap_or_default(),
                keys: keys.split_off_mut(..if has_keys { arcs } else { 0 }).unwrap_or_default(),
            }
        };
        self.begins.windows(2).enumerate().map(block).collect()
    }
}

/// The rows of a block of consecutive vertices.
struct Block<'a> {
    /// The first vertex.
    first: usize,
    /// The first arc.
    begin: usize,
    /// Where each row ends.
    ends: &'a mut [u64],
    sources: &'a mut [u32],
    /// Bits of the arcs' weights, if they are stored.
    keys: &'a mut [u32],
}

impl Block<'_> {
    /// Puts arcs, in the order of their sources, into their rows.
    fn fill<W: ArcWeight>(&mut self, packed: &[u64], packed_keys: &[u32]) {
        let first = self.first;
        let row = |packed: u64| (packed >> 32) as usize - first;
        packed.iter().for_each(|&packed| self.ends[row(packed)] += 1);
        let mut arcs = self.begin as u64;
        for end in &mut *self.ends {
            // Where the row begins; each arc moves it on.
            arcs += replace(end, arcs);
        }
        for (at, &packed) in packed.iter().enumerate() {
            let end = &mut self.ends[row(packed)];
            let place = *end as usize - self.begin;
            self.sources[place] = packed as u32;
            if W::STORED {
                self.keys[place] = packed_keys[at];
            }
            *end += 1;
        }
        if W::STORED {
            self.sort_duplicates();
        }
    }

    /// Sorts arcs between the same two vertices by weight.
    fn sort_duplicates(&mut self) {
        let (mut scratch, mut first) = (Vec::new(), 0);
        for end in &*self.ends {
            let row = first..*end as usize - self.begin;
            first = row.end;
            let (sources, keys) = (&mut self.sources[row.clone()], &mut self.keys[row]);
            let is_in_order = |at| sources[at - 1] < sources[at] || keys[at - 1] <= keys[at];
            if !(1..sources.len()).all(is_in_order) {
                sort_by_target(sources, keys, &mut scratch);
            }
        }
    }
}

#[cfg(test)]
mod tests;
