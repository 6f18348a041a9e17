//! Rows whose arcs come in ascending order of weight, so that whoever knows how far is
//! too far need not look at the rest of a row.

use rayon::prelude::*;

/// Rows of fewer arcs than this in all are one thread's work.
const GRAIN: u64 = 1 << 16;

/// Sorts each row by weight, and arcs of the same weight by target. `offsets` need not
/// begin at 0.
///
/// ```
/// use millstream_traversal::sort_rows;
///
/// let (mut targets, mut weights) = ([7, 8, 9, 4], [3.0f32, 1.0, 2.0, 5.0]);
/// sort_rows(&[0, 3, 4], &mut targets, &mut weights);
/// assert_eq!((targets, weights), ([8, 9, 7, 4], [1.0, 2.0, 3.0, 5.0]));
/// ```
///
/// # Panics
/// Offsets that are not those of the rows.
pub fn sort_rows<W: PartialOrd + Copy + Send>(
    offsets: &[u64],
    targets: &mut [u32],
    weights: &mut [W],
) {
    let vertices = offsets.len() - 1;
    let arcs = offsets[vertices] - offsets[0];
    if vertices > 1 && arcs > GRAIN {
        // Split where half of the arcs are, with a row on either side.
        let half = offsets[0] + arcs / 2;
        let middle = offsets.partition_point(|&offset| offset < half).clamp(1, vertices - 1);
        let split = (offsets[middle] - offsets[0]) as usize;
        let (left, right) = targets.split_at_mut(split);
        let (left_weights, right_weights) = weights.split_at_mut(split);
        rayon::join(
            || sort_rows(&offsets[..=middle], left, left_weights),
            || sort_rows(&offsets[middle..], right, right_weights),
        );
        return;
    }
    let mut row: Vec<(W, u32)> = Vec::new();
    for pair in offsets.windows(2) {
        let arcs = (pair[0] - offsets[0]) as usize..(pair[1] - offsets[0]) as usize;
        let (targets, weights) = (&mut targets[arcs.clone()], &mut weights[arcs]);
        row.clear();
        row.extend(weights.iter().copied().zip(targets.iter().copied()));
        // Weights are never NaN: no graph has such.
        let order = |one: &(W, u32), other: &(W, u32)| {
            one.partial_cmp(other).unwrap_or(std::cmp::Ordering::Equal)
        };
        match row.len() as u64 > GRAIN {
            true => row.par_sort_unstable_by(order),
            false => row.sort_unstable_by(order),
        }
        for ((target, weight), arc) in targets.iter_mut().zip(weights).zip(&row) {
            (*weight, *target) = *arc;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_short_rows() {
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
        sort_rows(&offsets, &mut sorted, &mut sorted_weights);
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
