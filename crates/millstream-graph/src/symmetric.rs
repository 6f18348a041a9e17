//! Symmetric graphs from edges that can be listed twice: once to count the rows,
//! once to fill them. No list of edges is ever in memory.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rayon::prelude::*;

/// Undirected edges, listed item by item, in any order and as often as one likes.
pub(crate) trait EdgeSource: Sync {
    /// Number of items; each stands for any number of edges.
    fn items(&self) -> u64;

    /// Calls `emit` for each edge of `item`: the same ones every time.
    fn edges(&self, item: u64, emit: impl FnMut(u32, u32));
}

/// Rows of a graph without weights.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) offsets: Vec<u64>,
    pub(crate) targets: Vec<u32>,
}

/// Memory that is not there.
#[derive(Debug)]
pub(crate) struct OutOfMemory {
    pub(crate) bytes: u64,
}

/// Stores both arcs of every edge once, and none from a vertex to itself; rows
/// are sorted.
pub(crate) fn symmetric_rows(vertices: u32, source: &impl EdgeSource) -> Result<Rows, OutOfMemory> {
    let counts = zeroed_counters(vertices)?;
    for_each_arc(source, |from, _| {
        counts[from as usize].fetch_add(1, Ordering::Relaxed);
    });
    let counted = counts.iter().map(|count| count.load(Ordering::Relaxed));
    let mut offsets = offsets(vertices, counted);
    let mut targets = zeroed(offsets[vertices as usize])?;

    let next_free = counts;
    for (next, &offset) in next_free.iter().zip(&offsets) {
        next.store(offset, Ordering::Relaxed);
    }
    let slots = as_atomic(&mut targets);
    for_each_arc(source, |from, to| {
        let slot = next_free[from as usize].fetch_add(1, Ordering::Relaxed);
        slots[slot as usize].store(to, Ordering::Relaxed);
    });
    drop(next_free);

    sort_and_dedupe(&mut offsets, &mut targets);
    Ok(Rows { offsets, targets })
}

fn for_each_arc(source: &impl EdgeSource, arc: impl Fn(u32, u32) + Sync) {
    (0..source.items()).into_par_iter().for_each(|item| {
        source.edges(item, |one, other| {
            if one != other {
                arc(one, other);
                arc(other, one);
            }
        });
    });
}

fn sort_and_dedupe(offsets: &mut Vec<u64>, targets: &mut Vec<u32>) {
    let kept: Vec<Vec<u64>> = row_blocks(offsets, targets)
        .into_par_iter()
        .map(|(rows, mut block)| {
            let keep = |row: usize| {
                let length = (offsets[row + 1] - offsets[row]) as usize;
                let (row, rest) = std::mem::take(&mut block).split_at_mut(length);
                block = rest;
                row.sort_unstable();
                dedupe(row)
            };
            rows.map(keep).collect()
        })
        .collect();
    let old = std::mem::take(offsets);
    *offsets = self::offsets(old.len() as u32 - 1, kept.into_iter().flatten());
    for (row, start) in old[..old.len() - 1].iter().enumerate() {
        let length = offsets[row + 1] - offsets[row];
        targets.copy_within(*start as usize..(start + length) as usize, offsets[row] as usize);
    }
    targets.truncate(offsets.last().map_or(0, |&arcs| arcs as usize));
    targets.shrink_to_fit();
}

/// Moves the distinct values of a sorted row to its front; says how many.
fn dedupe(row: &mut [u32]) -> u64 {
    let mut kept = 0;
    for index in 0..row.len() {
        if index == 0 || row[index] != row[kept - 1] {
            row[kept] = row[index];
            kept += 1;
        }
    }
    kept as u64
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

/// Cuts `values`, one for each arc, into blocks of whole rows that can be worked
/// on in parallel.
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
            let (block, rest) = values.split_at_mut(arcs as usize);
            blocks.push((first..row, block));
            (values, first) = (rest, row);
        }
    }
    blocks
}

fn zeroed_counters(vertices: u32) -> Result<Vec<AtomicU64>, OutOfMemory> {
    let mut counters = reserved(u64::from(vertices))?;
    counters.resize_with(vertices as usize, AtomicU64::default);
    Ok(counters)
}

fn zeroed(length: u64) -> Result<Vec<u32>, OutOfMemory> {
    let mut values = reserved(length)?;
    values.resize(length as usize, 0);
    Ok(values)
}

/// The length may be absurd: the caller hears of it instead of the process ending.
fn reserved<T>(length: u64) -> Result<Vec<T>, OutOfMemory> {
    let mut values = Vec::new();
    match values.try_reserve_exact(usize::try_from(length).unwrap_or(usize::MAX)) {
        Ok(()) => Ok(values),
        Err(_) => Err(OutOfMemory { bytes: length.saturating_mul(size_of::<T>() as u64) }),
    }
}

fn as_atomic(values: &mut [u32]) -> &[AtomicU32] {
    // SAFETY: both types have the same size and alignment (on every platform that
    // has 64-bit pointers), and the exclusive borrow becomes the only shared one.
    unsafe { std::slice::from_raw_parts(values.as_mut_ptr().cast::<AtomicU32>(), values.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Listed(Vec<(u32, u32)>);

    impl EdgeSource for Listed {
        fn items(&self) -> u64 {
            1
        }

        fn edges(&self, _: u64, mut emit: impl FnMut(u32, u32)) {
            self.0.iter().for_each(|&(one, other)| emit(one, other));
        }
    }

    #[test]
    fn edges_become_sorted_rows_without_loops_and_repeats() {
        let source = Listed(vec![(3, 0), (1, 1), (0, 1), (0, 3), (1, 0), (3, 1)]);
        let rows = symmetric_rows(5, &source).unwrap();
        assert_eq!(rows.offsets, [0, 2, 4, 4, 6, 6]);
        assert_eq!(rows.targets, [1, 3, 0, 3, 0, 1]);
        let rows = symmetric_rows(0, &Listed(vec![])).unwrap();
        assert_eq!((rows.offsets, rows.targets), (vec![0], vec![]));
    }

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
}
