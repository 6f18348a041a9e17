//! Vertices in the order of their degrees, the largest first.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::atomic::Ordering;

use rayon::prelude::*;

use crate::build::as_atomic;
use crate::pieces::InPieces;

/// Vertices with at least this many arcs are few, and are sorted by comparison.
const MANY: usize = 1 << 12;
/// The fewest vertices that one thread counts.
pub(super) const LEAST: usize = 1 << 16;
/// Pieces for each thread.
const PIECES: usize = 4;

/// Among few vertices, a counting sort is used if all degrees are below this.
const SMALL: usize = 256;

/// As [`sort_by_degree`], for few vertices and on one thread.
pub(super) fn sort_few_by_degree(
    vertices: Range<u32>,
    degree: impl Fn(u32) -> u64,
    places: &mut [u32],
) {
    let first = vertices.start;
    let mut degrees: Vec<u64> = vertices.clone().map(degree).collect();
    let most = degrees.iter().max().map_or(0, |&most| most as usize);
    if most >= SMALL {
        places.iter_mut().zip(vertices).for_each(|(place, vertex)| *place = vertex);
        places.sort_by_key(|&vertex| Reverse(degrees[(vertex - first) as usize]));
        return;
    }
    // The largest degree comes first.
    let mut begins = [0u32; SMALL + 1];
    for degree in &mut degrees {
        *degree = (most - *degree as usize) as u64;
        begins[*degree as usize + 1] += 1;
    }
    for digit in 0..most {
        begins[digit + 1] += begins[digit];
    }
    for (vertex, digit) in vertices.zip(degrees) {
        let begin = &mut begins[digit as usize];
        places[*begin as usize] = vertex;
        *begin += 1;
    }
}

/// Fills `places` with the ids of `vertices` in the order of their degrees, those with equal
/// degrees in the order of ids: a counting sort.
pub(super) fn sort_by_degree(
    vertices: Range<u32>,
    degree: impl Fn(u32) -> u64 + Sync,
    places: &mut [u32],
) {
    // The largest degree comes first.
    let digit = |vertex| MANY - (degree(vertex).min(MANY as u64) as usize);
    let piece = (places.len() / (PIECES * rayon::current_num_threads())).max(LEAST);
    let pieces = || {
        let firsts = vertices.clone().into_par_iter().step_by(piece);
        firsts.map(|first| first..vertices.end.min(first.saturating_add(piece as u32)))
    };
    let count = |its: Range<u32>| {
        let mut counts = vec![0u32; MANY + 1];
        its.for_each(|vertex| counts[digit(vertex)] += 1);
        counts
    };
    let mut begins: Vec<Vec<u32>> = pieces().map(count).collect();
    let mut begin = 0;
    let mut rich = 0;
    for digit in 0..=MANY {
        for counts in &mut begins {
            begin += std::mem::replace(&mut counts[digit], begin);
        }
        rich = if digit == 0 { begin as usize } else { rich };
    }
    let cells = as_atomic(places);
    pieces().zip(begins).for_each(|(its, mut begins)| {
        for vertex in its {
            let begin = &mut begins[digit(vertex)];
            // Relaxed: the end of the parallel loop orders the stores.
            cells[*begin as usize].store(vertex, Ordering::Relaxed);
            *begin += 1;
        }
    });
    let mut rich: Vec<_> = places[..rich]
        .par_iter()
        .in_pieces()
        .map(|&vertex| (Reverse(degree(vertex)), vertex))
        .collect();
    rich.par_sort_unstable();
    places.iter_mut().zip(rich).for_each(|(place, (_, vertex))| *place = vertex);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_arcs_come_first_and_equally_many_in_order() {
        let many = MANY as u64;
        let degree = |vertex: u32| match vertex % 1000 {
            7 => many - 1,
            8 => many,
            9 => many + 1,
            10 => u64::MAX - u64::from(vertex % 3),
            rest => u64::from(rest) % 17,
        };
        for vertices in [0..0, 5..6, 3..LEAST as u32 * 3 + 1000] {
            let mut places = vec![0; vertices.len()];
            sort_by_degree(vertices.clone(), degree, &mut places);
            let mut expected: Vec<u32> = vertices.collect();
            expected.sort_by_key(|&vertex| Reverse(degree(vertex)));
            assert!(places == expected);
        }
    }

    #[test]
    fn so_they_do_where_vertices_are_few() {
        for most in [0, 1, SMALL as u64 - 1, SMALL as u64, u64::MAX] {
            let degree = |vertex: u32| match vertex % 100 {
                7 => most,
                rest => (u64::from(rest) % 17).min(most),
            };
            for vertices in [0..0, 5..6, 300..1324] {
                let mut places = vec![0; vertices.len()];
                sort_few_by_degree(vertices.clone(), degree, &mut places);
                let mut expected: Vec<u32> = vertices.collect();
                expected.sort_by_key(|&vertex| Reverse(degree(vertex)));
                assert_eq!(places, expected, "{most}");
            }
        }
    }
}
