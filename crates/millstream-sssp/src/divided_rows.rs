//! Rows divided among devices by who owns the arcs' targets.

use millstream_graph::{CsrGraph, Partition};
use rayon::prelude::*;

/// One part's arcs, in rows of all vertices.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DividedRows<W> {
    pub(crate) offsets: Vec<u64>,
    pub(crate) targets: Vec<u32>,
    pub(crate) weights: Vec<W>,
}

/// Rows that one thread goes through at a time.
const CHUNK: usize = 1 << 12;

/// For each part of `partition` the arcs into it, in the order that they have in the graph's rows;
/// ids are the partition's. Looks at each arc twice, however many parts there are.
pub(crate) fn divide<W: Copy + Default + Send + Sync>(
    graph: &CsrGraph,
    weights: &[W],
    partition: &Partition,
) -> Vec<DividedRows<W>> {
    let mut all_offsets = counted(graph, partition);
    all_offsets.par_iter_mut().for_each(|offsets| {
        let mut end = 0;
        for offset in offsets {
            end += *offset;
            *offset = end;
        }
    });
    let lengths = all_offsets.iter().map(|offsets| offsets[offsets.len() - 1] as usize);
    let (mut all_targets, mut all_weights) = (Vec::new(), Vec::new());
    for length in lengths {
        all_targets.push(vec![0; length]);
        all_weights.push(vec![W::default(); length]);
    }
    let length = |part: usize, chunk: usize| {
        let offsets = &all_offsets[part];
        let end = (CHUNK * (chunk + 1)).min(offsets.len() - 1);
        (offsets[end] - offsets[CHUNK * chunk]) as usize
    };
    let chunks = graph.vertices().div_ceil(CHUNK as u32) as usize;
    let targets = by_chunk(&mut all_targets, chunks, length);
    let kept = by_chunk(&mut all_weights, chunks, length);
    targets.into_par_iter().zip(kept).enumerate().for_each(|(chunk, (mut targets, mut kept))| {
        let mut filled = vec![0; targets.len()];
        for arc in rows(graph, chunk).flat_map(|row| graph.row(row)) {
            let target = graph.targets()[arc];
            let part = partition.owner(target);
            targets[part][filled[part]] = target;
            kept[part][filled[part]] = weights[arc];
            filled[part] += 1;
        }
    });
    let parts = all_offsets.into_iter().zip(all_targets).zip(all_weights);
    let part = |((offsets, targets), weights)| DividedRows { offsets, targets, weights };
    parts.map(part).collect()
}

/// Of each part, behind a 0, how many arcs of each row lead into it.
fn counted(graph: &CsrGraph, partition: &Partition) -> Vec<Vec<u64>> {
    let vertices = graph.vertices() as usize;
    // Not as clones of one, which this thread would write.
    let mut all: Vec<_> = (0..partition.parts()).map(|_| vec![0; vertices + 1]).collect();
    let mut counts: Vec<_> = all.iter_mut().map(|counts| &mut counts[1..]).collect();
    let chunks = vertices.div_ceil(CHUNK);
    let length = |_, chunk| CHUNK.min(vertices - CHUNK * chunk);
    by_chunk(&mut counts, chunks, length).into_par_iter().enumerate().for_each(
        |(chunk, mut counts)| {
            for (place, row) in rows(graph, chunk).enumerate() {
                let targets = graph.neighbors(row).iter();
                targets.for_each(|&target| counts[partition.owner(target)][place] += 1);
            }
        },
    );
    all
}

/// The rows of a chunk.
fn rows(graph: &CsrGraph, chunk: usize) -> impl Iterator<Item = u32> {
    let first = CHUNK * chunk;
    first as u32..(first + CHUNK).min(graph.vertices() as usize) as u32
}

/// For each chunk the stretches of all parts, whose `length` is given by part and chunk.
fn by_chunk<T>(
    parts: &mut [impl AsMut<[T]>],
    chunks: usize,
    length: impl Fn(usize, usize) -> usize,
) -> Vec<Vec<&mut [T]>> {
    let mut all: Vec<Vec<&mut [T]>> = (0..chunks).map(|_| Vec::new()).collect();
    for (part, items) in parts.iter_mut().enumerate() {
        let mut rest = items.as_mut();
        for (chunk, stretches) in all.iter_mut().enumerate() {
            stretches.push(rest.split_off_mut(..length(part, chunk)).unwrap_or_default());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use millstream_graph::generate::{self, GenerateOptions};
    use millstream_graph::{Weights, partition};

    use super::*;

    #[test]
    fn each_part_has_the_arcs_into_it() {
        let options = GenerateOptions { max_weight: Some(9), ..GenerateOptions::default() };
        let kron = generate::kron(14, 4, &options).unwrap();
        let none = CsrGraph::from_weighted_edges(3, &[] as &[(u32, u32, u32)]).unwrap();
        let empty = CsrGraph::from_weighted_edges(0, &[] as &[(u32, u32, u32)]).unwrap();
        for graph in [kron, none, empty] {
            for parts in [1, 2, 5] {
                let partition = partition::contiguous_blocks(&graph, parts);
                let graph = partition.renumber_by_weight(&graph);
                let weights = match graph.weights() {
                    Some(Weights::Integer(weights)) => &weights[..],
                    _ => &[],
                };
                let divided = divide(&graph, weights, &partition);
                assert_eq!(divided.len(), parts);
                for (part, divided) in divided.into_iter().enumerate() {
                    let mut expected = DividedRows { offsets: vec![0], ..DividedRows::default() };
                    for row in 0..graph.vertices() {
                        for arc in graph.row(row) {
                            if partition.range(part).contains(&graph.targets()[arc]) {
                                expected.targets.push(graph.targets()[arc]);
                                expected.weights.push(weights[arc]);
                            }
                        }
                        expected.offsets.push(expected.targets.len() as u64);
                    }
                    assert!(divided == expected, "part {part} of {parts}");
                }
            }
        }
    }
}
