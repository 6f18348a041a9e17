//! Dense numbers for sparse ids.

use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use crate::pieces::InPieces;

use super::Fault;
use super::arcs::Piece;

/// Numbers all ids from 0 in ascending order. Returns the pieces with the numbers, and the ids.
pub(super) fn relabel(pieces: Vec<Piece<u64>>) -> Result<(Vec<Piece<u32>>, Vec<u64>), Fault> {
    let ids = distinct_ids(&pieces);
    if u32::try_from(ids.len()).is_err() {
        return Err(Fault::Whole(format!("{} vertices do not fit 32-bit ids", ids.len())));
    }
    let index = Index::new(&ids);
    let renumber = |piece: Piece<u64>| {
        let ends = piece.ends.iter().map(|&(from, to)| (index.number(from), index.number(to)));
        let ends = ends.collect();
        piece.with_ends(ends)
    };
    Ok((pieces.into_par_iter().map(renumber).collect(), ids))
}

/// All ids that arcs name, in ascending order, each once.
fn distinct_ids(pieces: &[Piece<u64>]) -> Vec<u64> {
    let largest = |piece: &Piece<u64>| piece.ends.iter().map(|&(from, to)| from.max(to)).max();
    let largest = pieces.par_iter().filter_map(largest).max().unwrap_or(0);
    let arcs: u64 = pieces.iter().map(|piece| piece.ends.len() as u64).sum();
    // Uses one bit for each possible id if these bits take no more memory than the arcs.
    match largest / u64::from(u64::BITS) <= arcs {
        true => marked_ids(pieces, largest),
        false => sorted_ids(pieces),
    }
}

/// The ids up to `largest`, marked in a table of bits.
fn marked_ids(pieces: &[Piece<u64>], largest: u64) -> Vec<u64> {
    let words = (largest / 64 + 1) as usize;
    let marks: Vec<AtomicU64> = std::iter::repeat_with(AtomicU64::default).take(words).collect();
    let mark = |id: u64| {
        let (word, bit) = (&marks[(id / 64) as usize], 1 << (id % 64));
        // Relaxed: the end of the parallel loop orders the marks. Most marks are set already, and
        // reading does not take the cache line from other threads.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    };
    pieces.par_iter().flat_map_iter(|piece| &piece.ends).for_each(|&(from, to)| {
        mark(from);
        mark(to);
    });
    let marks = marks.into_par_iter().in_pieces().map(AtomicU64::into_inner).enumerate();
    let ids_of_word = |(word, marks): (usize, u64)| {
        let bits = (0..64).filter(move |bit| marks >> bit & 1 == 1);
        bits.map(move |bit| word as u64 * 64 + bit)
    };
    marks.flat_map_iter(ids_of_word).collect()
}

/// Distinct ids of any size, by sorting.
fn sorted_ids(pieces: &[Piece<u64>]) -> Vec<u64> {
    let mut ids: Vec<u64> = pieces.par_iter().flat_map_iter(sorted_ids_of).collect();
    ids.par_sort_unstable();
    ids.dedup();
    ids.shrink_to_fit();
    ids
}

/// The ids that arcs of one piece name, each once.
fn sorted_ids_of(piece: &Piece<u64>) -> Vec<u64> {
    let mut ids: Vec<u64> = piece.ends.iter().flat_map(|&(from, to)| [from, to]).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Finds ids in a sorted list: an id's high bits tell where to begin.
struct Index<'a> {
    ids: &'a [u64],
    /// The number of low bits of an id that do not select its bucket.
    shift: u32,
    /// Where the ids of each bucket begin, and the end of the last.
    starts: Vec<u32>,
}

impl<'a> Index<'a> {
    fn new(ids: &'a [u64]) -> Index<'a> {
        let bits = |number: u64| u64::BITS - number.leading_zeros();
        let largest = ids.last().copied().unwrap_or(0);
        // About as many buckets as ids.
        let shift = bits(largest).saturating_sub(bits(ids.len() as u64));
        let buckets = (largest >> shift) + 1;
        let start = |bucket: u64| ids.partition_point(|&id| id >> shift < bucket) as u32;
        let starts = (0..=buckets).into_par_iter().map(start).collect();
        Index { ids, shift, starts }
    }

    /// Position of an id that is in the list.
    fn number(&self, id: u64) -> u32 {
        let bucket = (id >> self.shift) as usize;
        let (first, end) = (self.starts[bucket], self.starts[bucket + 1]);
        let bucket = &self.ids[first as usize..end as usize];
        first + bucket.partition_point(|&other| other < id) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marking_finds_what_sorting_finds() {
        let ids = |index: u64| (index * 7919 % 3001, index * 104_729 % 640);
        let none = Piece::<u64>::default;
        let piece = |start: u64| none().with_ends((start..start + 50).map(ids).collect());
        let pieces: Vec<Piece<u64>> = (0..10).map(|index| piece(50 * index)).collect();
        let sorted = sorted_ids(&pieces);
        assert_eq!(marked_ids(&pieces, sorted[sorted.len() - 1]), sorted);
        assert_eq!(distinct_ids(&[none()]), [0; 0]);
    }

    #[test]
    fn ids_are_found_where_they_are() {
        let dense: Vec<u64> = (0..1000).collect();
        let sparse: Vec<u64> = (0..1000).map(|id| id * id * id * 1_000_003).collect();
        let extreme = vec![0, 1, 2, u64::MAX - 1, u64::MAX];
        for ids in [dense, sparse, extreme, vec![7], vec![0], vec![]] {
            let index = Index::new(&ids);
            for (number, &id) in ids.iter().enumerate() {
                assert_eq!(index.number(id), number as u32);
            }
        }
    }
}
