//! Work on all rows at once, on slices, while a graph is built.

use rayon::prelude::*;

/// Rows of fewer arcs than this in all are one thread's work.
const GRAIN: u64 = 1 << 16;

/// Sorts each row by target, then by weight key. `keys` is empty or has one key
/// for each target.
pub(crate) fn sort_rows(offsets: &[u64], targets: &mut [u32], keys: &mut [u32]) {
    let vertices = offsets.len() - 1;
    let arcs = offsets[vertices] - offsets[0];
    if vertices > 1 && arcs > GRAIN {
        // Split where half of the arcs are, with a row on either side.
        let half = offsets[0] + arcs / 2;
        let middle = offsets.partition_point(|&offset| offset < half).clamp(1, vertices - 1);
        let split = (offsets[middle] - offsets[0]) as usize;
        let (left, right) = targets.split_at_mut(split);
        let (left_keys, right_keys) = keys.split_at_mut(split.min(keys.len()));
        rayon::join(
            || sort_rows(&offsets[..=middle], left, left_keys),
            || sort_rows(&offsets[middle..], right, right_keys),
        );
        return;
    }
    let mut scratch = Vec::new();
    for pair in offsets.windows(2) {
        let row = (pair[0] - offsets[0]) as usize..(pair[1] - offsets[0]) as usize;
        let keys = if keys.is_empty() { &mut [][..] } else { &mut keys[row.clone()] };
        sort_row(&mut targets[row], keys, &mut scratch);
    }
}

fn sort_row(targets: &mut [u32], keys: &mut [u32], scratch: &mut Vec<u64>) {
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

/// Keeps the first arc to each target in rows that are sorted, and gives back
/// the memory of the others.
pub(crate) fn remove_duplicates(offsets: &mut [u64], targets: &mut Vec<u32>, keys: &mut Vec<u32>) {
    let (mut start, mut kept) = (0, 0);
    for offset in &mut offsets[1..] {
        let row = start..*offset as usize;
        start = row.end;
        let first = kept;
        for arc in row {
            if kept == first || targets[kept - 1] != targets[arc] {
                targets[kept] = targets[arc];
                if !keys.is_empty() {
                    keys[kept] = keys[arc];
                }
                kept += 1;
            }
        }
        *offset = kept as u64;
    }
    targets.truncate(kept);
    targets.shrink_to_fit();
    keys.truncate(kept);
    keys.shrink_to_fit();
}
