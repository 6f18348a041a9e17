//! Weights for graphs that have none.

use rayon::prelude::*;

use crate::random::{CounterRandom, Purpose};
use crate::rows::row_blocks;
use crate::{CsrGraph, Weights};

/// A weight of 1 for every arc.
pub fn unit_weights(graph: &CsrGraph) -> Weights {
    Weights::Integer(vec![1; graph.targets().len()])
}

/// Integers from 1 to `max`, each a hash of the seed and the arc's two ends: an arc
/// and its reverse weigh the same. A `max` of 0 is taken for 1.
pub fn random_weights(graph: &CsrGraph, max: u32, seed: u64) -> Weights {
    Weights::Integer(random_integers(graph.offsets(), graph.targets(), max, seed))
}

/// Reals from `max / 2^24` to `max`, in steps of that size, drawn like [`random_weights`]. `max` is not
/// checked: if it is negative, so are the weights.
///
/// ```
/// use millstream_graph::{Weights, generate};
///
/// let grid = generate::grid(10, 10, &generate::GenerateOptions::default())?;
/// let Weights::Real(weights) = generate::random_real_weights(&grid, 0.5, 0) else { unreachable!() };
/// assert!(weights.iter().all(|&weight| weight > 0.0 && weight <= 0.5));
/// # Ok::<(), generate::GenerateError>(())
/// ```
pub fn random_real_weights(graph: &CsrGraph, max: f32, seed: u64) -> Weights {
    const STEPS: u32 = 1 << f32::MANTISSA_DIGITS;
    let weigh =
        |random: &CounterRandom, pair| (1 + random.below(STEPS, pair)) as f32 / STEPS as f32 * max;
    Weights::Real(hashed(graph.offsets(), graph.targets(), seed, weigh))
}

pub(super) fn random_integers(offsets: &[u64], targets: &[u32], max: u32, seed: u64) -> Vec<u32> {
    hashed(offsets, targets, seed, |random, pair| 1 + random.below(max, pair))
}

/// What `weigh` makes of each arc's ends, in either order.
fn hashed<T: Clone + Default + Send>(
    offsets: &[u64],
    targets: &[u32],
    seed: u64,
    weigh: impl Fn(&CounterRandom, u64) -> T + Sync,
) -> Vec<T> {
    let random = CounterRandom::new(seed, Purpose::Weights);
    let mut weights = vec![T::default(); targets.len()];
    row_blocks(offsets, &mut weights).into_par_iter().for_each(|(rows, block)| {
        let first = offsets[rows.start] as usize;
        for from in rows {
            for arc in offsets[from] as usize..offsets[from + 1] as usize {
                let (from, to) = (from as u64, u64::from(targets[arc]));
                let pair = from.min(to) << 32 | from.max(to);
                block[arc - first] = weigh(&random, pair);
            }
        }
    });
    weights
}
