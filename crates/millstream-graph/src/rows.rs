//! Work on all rows at once, on slices, while a graph is built.

use std::ops::Range;

use rayon::prelude::*;

/// Rows of fewer arcs than this in all are one thread's work.
const GRAIN: u64 = 1 << 16;

/// Sorts each row by target, then by weight key. `keys` is empty or has one key
/// for each target.
pub(crate) fn sort_rows_by_target(offsets: &[u64], targets: &mut [u32], keys: &mut [u32]) {
    in_each_row(offsets, targets, keys, &sort_by_target);
}

/// Sorts each row by weight, and arcs of the same weight by target, so that whoever knows how far
/// is too far need not look at the rest of a row. `offsets` need not begin at 0.
///
/// ```
/// use millstream_graph::sort_rows_by_weight;
///
/// let (mut targets, mut weights) = ([7, 8, 9, 4], [3.0f32, 1.0, 2.0, 5.0]);
/// sort_rows_by_weight(&[0, 3, 4], &mut targets, &mut weights);
/// assert_eq!((targets, weights), ([8, 9, 7, 4], [1.0, 2.0, 3.0, 5.0]));
/// ```
///
/// # Panics
/// Offsets that are not those of the rows.
pub fn sort_rows_by_weight<W: PartialOrd + Copy + Send>(
    offsets: &[u64],
    targets: &mut [u32],
    weights: &mut [W],
) {
    in_each_row(offsets, targets, weights, &sort_by_weight);
}

/// Has `sort` sort the targets of each row, with what stands beside them, if anything does; with
/// memory that it may use.
fn in_each_row<B: Send, S>(
    offsets: &[u64],
    targets: &mut [u32],
    beside: &mut [B],
    sort: &(impl Fn(&mut [u32], &mut [B], &mut Vec<S>) + Sync),
) {
    let vertices = offsets.len() - 1;
    let arcs = offsets[vertices] - offsets[0];
    if vertices > 1 && arcs > GRAIN {
        // Split where half of the arcs are, with a row on either side.
        let half = offsets[0] + arcs / 2;
        let middle = offsets.partition_point(|&offset| offset < half).clamp(1, vertices - 1);
        let split = (offsets[middle] - offsets[0]) as usize;
        let (left, right) = targets.split_at_mut(split);
        let (beside_left, beside_right) = beside.split_at_mut(split.min(beside.len()));
        rayon::join(
            || in_each_row(&offsets[..=middle], left, beside_left, sort),
            || in_each_row(&offsets[middle..], right, beside_right, sort),
        );
        return;
    }
    let mut scratch = Vec::new();
    for pair in offsets.windows(2) {
        let row = (pair[0] - offsets[0]) as usize..(pair[1] - offsets[0]) as usize;
        let beside = if beside.is_empty() { &mut [][..] } else { &mut beside[row.clone()] };
        sort(&mut targets[row], beside, &mut scratch);
    }
}

fn sort_by_target(targets: &mut [u32], keys: &mut [u32], scratch: &mut Vec<u64>) {
    if keys.is_empty() {
        return if targets.len() as u64 > GRAIN {
            targets.par_sort_unstable();
        } else {
            targets.sort_unstable();
        };
    }
    if targets.len() < 2 {
        return;
    }
    let packed = |(&target, &key): (&u32, &u32)| u64::from(target) << 32 | u64::from(key);
    scratch.clear();
    scratch.extend(targets.iter().zip(&*keys).map(packed));
    match scratch.len() as u64 > GRAIN {
        true => scratch.par_sort_unstable(),
        false => scratch.sort_unstable(),
    }
    for ((target, key), arc) in targets.iter_mut().zip(keys).zip(&*scratch) {
        (*target, *key) = ((arc >> 32) as u32, *arc as u32);
    }
}

fn sort_by_weight<W: PartialOrd + Copy + Send>(
    targets: &mut [u32],
    weights: &mut [W],
    scratch: &mut Vec<(W, u32)>,
) {
    scratch.clear();
    scratch.extend(weights.iter().copied().zip(targets.iter().copied()));
    // Weights are never NaN: no graph has such.
    let order = |one: &(W, u32), other: &(W, u32)| {
        one.partial_cmp(other).unwrap_or(std::cmp::Ordering::Equal)
    };
    match scratch.len() as u64 > GRAIN {
        true => scratch.par_sort_unstable_by(order),
        false => scratch.sort_unstable_by(order),
    }
    for ((target, weight), arc) in targets.iter_mut().zip(weights).zip(&*scratch) {
        (*weight, *target) = *arc;
    }
}

/// Keeps the first arc to each target in rows that are sorted, and gives back
/// the memory of the others.
pub(crate) fn remove_duplicates(offsets: &mut [u64], targets: &mut Vec<u32>, keys: &mut Vec<u32>) {
    let blocks = row_blocks(offsets, targets).into_par_iter().zip(row_blocks(offsets, keys));
    let blocks = blocks.map(|((rows, targets), (_, keys))| {
        remove_duplicates_in_block(&offsets[rows.start..=rows.end], targets, keys)
    });
    let lengths: Vec<Vec<u32>> = blocks.collect();
    // Close the gaps between blocks.
    let (mut start, mut kept, mut row) = (0, 0, 0);
    for lengths in lengths {
        let end = offsets[row + lengths.len()] as usize;
        let block = start..start + lengths.iter().map(|&length| length as usize).sum::<usize>();
        targets.copy_within(block.clone(), kept);
        if !keys.is_empty() {
            keys.copy_within(block, kept);
        }
        for length in lengths {
            kept += length as usize;
            row += 1;
            offsets[row] = kept as u64;
        }
        start = end;
    }
    targets.truncate(kept);
    targets.shrink_to_fit();
    keys.truncate(kept);
    keys.shrink_to_fit();
}

/// Moves what stays of a block of rows to the block's begin; the rows' new lengths, which have
/// 32 bits, as targets have.
fn remove_duplicates_in_block(offsets: &[u64], targets: &mut [u32], keys: &mut [u32]) -> Vec<u32> {
    let mut kept = 0;
    let row = |pair: &[u64]| {
        let first = kept;
        for arc in (pair[0] - offsets[0]) as usize..(pair[1] - offsets[0]) as usize {
            if kept == first || targets[kept - 1] != targets[arc] {
                targets[kept] = targets[arc];
                if !keys.is_empty() {
                    keys[kept] = keys[arc];
                }
                kept += 1;
            }
        }
        (kept - first) as u32
    };
    offsets.windows(2).map(row).collect()
}

/// Row index from the length of each row.
pub(crate) fn offsets(vertices: u32, lengths: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut offsets = Vec::with_capacity(vertices as usize + 1);
    let mut sum = 0;
    offsets.push(sum);
    offsets.extend(lengths.map(|length| {
        sum += length;
        sum
    }));
    offsets
}

/// Cuts `values`, one for each arc or none, into blocks of whole rows that can be
/// worked on in parallel.
pub(crate) fn row_blocks<'a, T>(
    offsets: &[u64],
    mut values: &'a mut [T],
) -> Vec<(Range<usize>, &'a mut [T])> {
    const ARCS: u64 = 1 << 16;
    const ROWS: usize = 1 << 14;
    let (mut blocks, mut first) = (Vec::new(), 0);
    for row in 1..offsets.len() {
        let arcs = offsets[row] - offsets[first];
        if arcs >= ARCS || row - first >= ROWS || row + 1 == offsets.len() {
            let (block, rest) = values.split_at_mut((arcs as usize).min(values.len()));
            blocks.push((first..row, block));
            (values, first) = (rest, row);
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_all_rows() {
        let offsets = offsets(40_000, (0..40_000).map(|row| row % 7));
        let mut values = vec![0u32; offsets[40_000] as usize];
        let blocks = row_blocks(&offsets, &mut values);
        assert!(blocks.len() > 2);
        let mut next = 0;
        for (rows, block) in &blocks {
            assert_eq!(rows.start, next);
            assert_eq!(block.len() as u64, offsets[rows.end] - offsets[rows.start]);
            next = rows.end;
        }
        assert_eq!(next, 40_000);
    }

    #[test]
    fn long_and_short_rows_are_sorted_by_weight() {
        let degrees = [0u64, 1, 70_000, 3, 0, 90_000, 2];
        let offsets: Vec<u64> = std::iter::once(5)
            .chain(degrees.iter().scan(5, |at, degree| {
                *at += degree;
                Some(*at)
            }))
            .collect();
        let arcs: u64 = degrees.iter().sum();
        let targets: Vec<u32> = (0..arcs as u32).collect();
        let weights: Vec<u32> = targets.iter().map(|target| target * 7919 % 1000).collect();
        let (mut sorted, mut sorted_weights) = (targets.clone(), weights.clone());
        sort_rows_by_weight(&offsets, &mut sorted, &mut sorted_weights);
        for pair in offsets.windows(2) {
            let row = (pair[0] - 5) as usize..(pair[1] - 5) as usize;
            let mut expected: Vec<_> =
                row.clone().map(|arc| (weights[arc], targets[arc])).collect();
            expected.sort_unstable();
            let got: Vec<_> = row.map(|arc| (sorted_weights[arc], sorted[arc])).collect();
            assert!(got == expected);
        }
    }
}
