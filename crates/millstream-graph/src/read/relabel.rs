//! Dense numbers for sparse ids.

use rayon::prelude::*;

use super::Fault;
use super::arcs::Piece;

/// Numbers all ids from 0 in their order; the pieces with the numbers, and the ids.
pub(super) fn relabel(pieces: Vec<Piece<u64>>) -> Result<(Vec<Piece<u32>>, Vec<u64>), Fault> {
    let mut ids: Vec<u64> = pieces.par_iter().flat_map_iter(ids_of).collect();
    ids.par_sort_unstable();
    ids.dedup();
    ids.shrink_to_fit();
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

/// The ids that arcs of a piece name, each once.
fn ids_of(piece: &Piece<u64>) -> Vec<u64> {
    let mut ids: Vec<u64> = piece.ends.iter().flat_map(|&(from, to)| [from, to]).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Finds ids in a sorted list: their high bits tell where to begin.
struct Index<'a> {
    ids: &'a [u64],
    /// Bits of an id that are not used to look up its bucket.
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
