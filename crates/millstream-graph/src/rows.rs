//! Parallel work on all rows, on slices, while a graph is built.

use std::mem::replace;
use std::ops::Range;

use rayon::prelude::*;

use crate::build::ArcWeight;
use crate::pieces::{InPieces, LEAST};
use crate::sort::sort;

/// One thread handles rows that have fewer arcs than this together.
const GRAIN: u64 = 1 << 16;

/// Sorts each row by target, then by weight. `weights` is empty or has one for each target.
pub(crate) fn sort_rows_by_target<W: ArcWeight>(
    offsets: &[u64],
    targets: &mut [u32],
    weights: &mut [W],
) {
    in_each_row(offsets, targets, weights, &|_, targets, weights, scratch| {
        sort_by_target(targets, weights, scratch);
    });
}

/// Has `fill` write or sort the targets of each row, and the values beside them, if there are any.
/// It gets the row's number, and scratch memory.
pub(crate) fn in_each_row<B: Send, S>(
    offsets: &[u64],
    targets: &mut [u32],
    beside: &mut [B],
    fill: &(impl Fn(usize, &mut [u32], &mut [B], &mut Vec<S>) + Sync),
) {
    in_rows(offsets, 0..offsets.len() - 1, targets, beside, fill);
}

fn in_rows<B: Send, S>(
    offsets: &[u64],
    rows: Range<usize>,
    targets: &mut [u32],
    beside: &mut [B],
    fill: &(impl Fn(usize, &mut [u32], &mut [B], &mut Vec<S>) + Sync),
) {
    let first = offsets[rows.start];
    let arcs = offsets[rows.end] - first;
    if rows.len() > 1 && arcs.max(rows.len() as u64) > GRAIN {
        let middle = match arcs > GRAIN {
            // At half of the arcs, but with at least one row on either side.
            true => {
                let half = first + arcs / 2;
                let before = offsets[rows.clone()].partition_point(|&offset| offset < half);
                (rows.start + before).clamp(rows.start + 1, rows.end - 1)
            }
            false => rows.start + rows.len() / 2,
        };
        let split = (offsets[middle] - first) as usize;
        let (left, right) = targets.split_at_mut(split);
        let (beside_left, beside_right) = beside.split_at_mut(split.min(beside.len()));
        rayon::join(
            || in_rows(offsets, rows.start..middle, left, beside_left, fill),
            || in_rows(offsets, middle..rows.end, right, beside_right, fill),
        );
        return;
    }
    let mut scratch = Vec::new();
    for row in rows {
        let arcs = (offsets[row] - first) as usize..(offsets[row + 1] - first) as usize;
        let beside = if beside.is_empty() { &mut [][..] } else { &mut beside[arcs.clone()] };
        fill(row, &mut targets[arcs], beside, &mut scratch);
    }
}

/// Sorts a row by target, then by weight if there are weights.
pub(crate) fn sort_by_target<W: ArcWeight>(
    targets: &mut [u32],
    weights: &mut [W],
    scratch: &mut Vec<u64>,
) {
    match weights.is_empty() {
        true => sort(targets),
        false => sort_pairs(targets, weights, scratch),
    }
}

/// Sorts a row by weight, then by target.
pub(crate) fn sort_by_weight<W: ArcWeight>(
    targets: &mut [u32],
    weights: &mut [W],
    scratch: &mut Vec<u64>,
) {
    sort_pairs(weights, targets, scratch);
}

/// Sorts pairs as single integers, which compare faster. Targets serve as their own keys.
fn sort_pairs<A: ArcWeight, B: ArcWeight>(
    firsts: &mut [A],
    seconds: &mut [B],
    scratch: &mut Vec<u64>,
) {
    if firsts.len() < 2 {
        return;
    }
    let packed =
        |(first, second): (&A, &B)| u64::from(first.to_key()) << 32 | u64::from(second.to_key());
    scratch.clear();
    scratch.extend(firsts.iter().zip(&*seconds).map(packed));
    sort(scratch);
    for ((first, second), &pair) in firsts.iter_mut().zip(seconds).zip(&*scratch) {
        (*first, *second) = (A::from_key((pair >> 32) as u32), B::from_key(pair as u32));
    }
}

/// Keeps the first arc to each target in sorted rows, and frees the memory of the other arcs.
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

/// Moves what remains of a block of rows to the beginning of the block. Returns the rows' new
/// lengths, which fit 32 bits as targets do.
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

/// The row index from the lengths of rows: where each row begins, and the end of the last.
pub(crate) fn offsets(lengths: impl IndexedParallelIterator<Item = u64>) -> Vec<u64> {
    let mut offsets = Vec::with_capacity(lengths.len() + 1);
    offsets.par_extend(lengths.in_pieces());
    let arcs = sum_before(&mut offsets);
    offsets.push(arcs);
    offsets
}

/// Replaces each number with the sum of all before it (an exclusive prefix sum), and returns the sum of all.
pub(crate) fn sum_before(numbers: &mut [u64]) -> u64 {
    let sum = |numbers: &[u64]| numbers.iter().sum::<u64>();
    let sums: Vec<u64> = numbers.par_chunks(LEAST).map(sum).collect();
    let mut all = 0;
    let begin = |sum| {
        all += sum;
        all - sum
    };
    let begins: Vec<u64> = sums.iter().map(begin).collect();
    numbers.par_chunks_mut(LEAST).zip(begins).for_each(|(numbers, mut end)| {
        for number in numbers {
            end += replace(number, end);
        }
    });
    all
}

/// Cuts `values`, one for each arc or none at all, into blocks of whole rows for parallel work.
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
        let offsets = offsets((0..40_000usize).into_par_iter().map(|row| row as u64 % 7));
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
    fn long_and_short_rows_and_many_without_arcs_are_sorted() {
        let mut degrees = vec![0u64; 200_000];
        degrees[..7].copy_from_slice(&[0, 1, 70_000, 3, 0, 90_000, 2]);
        let offsets = offsets(degrees.into_par_iter());
        let arcs = offsets[200_000] as u32;
        let targets: Vec<u32> = (0..arcs).map(|arc| arc * 7919 % 50_000).collect();
        let weights: Vec<f32> = (0..arcs).map(|arc| (arc * 31 % 1000) as f32 - 500.0).collect();
        let row = |row: usize| offsets[row] as usize..offsets[row + 1] as usize;
        let (mut sorted, mut sorted_weights) = (targets.clone(), weights.clone());
        sort_rows_by_target(&offsets, &mut sorted, &mut sorted_weights);
        let arcs = |arcs: Range<usize>, targets: &[u32], weights: &[f32]| -> Vec<(u32, i32)> {
            arcs.map(|arc| (targets[arc], weights[arc] as i32)).collect()
        };
        for row in (0..200_000).map(row) {
            let mut expected = arcs(row.clone(), &targets, &weights);
            expected.sort_unstable();
            assert!(arcs(row, &sorted, &sorted_weights) == expected);
        }
        in_each_row(
            &offsets,
            &mut sorted,
            &mut sorted_weights,
            &|number, targets, weights, all| {
                assert_eq!(targets.len(), row(number).len());
                sort_by_weight(targets, weights, all);
            },
        );
        for row in (0..200_000).map(row) {
            let mut expected = arcs(row.clone(), &targets, &weights);
            expected.sort_unstable_by_key(|&(target, weight)| (weight, target));
            assert!(arcs(row, &sorted, &sorted_weights) == expected);
        }
    }
}
