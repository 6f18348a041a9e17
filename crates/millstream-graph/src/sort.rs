//! Sorting the arcs of a row.

use rayon::prelude::*;

/// Rows with at least this many arcs are sorted digit by digit, which is faster: half the time from
/// 512 arcs on.
const DIGITS: usize = 256;
/// Rows with at least this many arcs are sorted by all threads.
const ALL_THREADS: usize = 1 << 16;

/// Sorts integers; made for the arcs of a row, which may be few or very many.
///
/// ```
/// let mut row: Vec<u32> = (0..1000).map(|at| at * 7919 % 1009).collect();
/// millstream_graph::sort::sort(&mut row);
/// assert!(row.is_sorted());
/// ```
pub fn sort<T: Ord + Send + radsort::Key>(integers: &mut [T]) {
    match integers.len() {
        0..DIGITS => integers.sort_unstable(),
        DIGITS..=ALL_THREADS => radsort::sort(integers),
        _ => integers.par_sort_unstable(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_integers_are_sorted() {
        for len in [0, 1, 2, DIGITS - 1, DIGITS, DIGITS + 1, ALL_THREADS, ALL_THREADS + 1] {
            let integer = |at: usize| (at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mut wide: Vec<u64> = (0..len).map(integer).collect();
            let mut narrow: Vec<u32> = wide.iter().map(|&it| (it >> 40) as u32).collect();
            let (mut expected, mut narrow_expected) = (wide.clone(), narrow.clone());
            expected.sort();
            narrow_expected.sort();
            sort(&mut wide);
            sort(&mut narrow);
            assert!(wide == expected && narrow == narrow_expected, "{len}");
        }
    }
}
