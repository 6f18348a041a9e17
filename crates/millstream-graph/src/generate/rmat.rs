//! R-MAT (Chakrabarti, Zhan, Faloutsos, SDM 2004): every edge falls into a
//! quadrant of the adjacency matrix, then into a quadrant of that, until one entry
//! is left. Vertices are then renamed, so that an id says nothing about a degree.

use super::{GenerateError, GenerateOptions, build, check_draws};
use crate::CsrGraph;
use crate::random::{CounterRandom, Permutation, Purpose};
use crate::symmetric::EdgeSource;

/// Probabilities, in percent, of the top left, top right and bottom left quadrant.
pub(super) type Quadrants = [u32; 3];

/// Random words that belong to one edge.
const WORDS: u64 = 16;

struct RMat {
    scale: u32,
    edges: u64,
    /// A draw below the first threshold is top left, below the second top right, below the third
    /// bottom left, and otherwise bottom right.
    thresholds: [u32; 3],
    random: CounterRandom,
    labels: Permutation,
}

/// A graph of `2^scale` vertices from `edge_factor * 2^scale` draws.
pub(super) fn rmat(
    scale: u32,
    edge_factor: u64,
    quadrants: Quadrants,
    options: &GenerateOptions,
) -> Result<CsrGraph, GenerateError> {
    if scale >= u32::BITS {
        return Err(GenerateError::Scale { scale });
    }
    let vertices = 1u64 << scale;
    let edges = check_draws(u128::from(vertices) * u128::from(edge_factor))?;
    let [top_left, top_right, bottom_left] = quadrants;
    let threshold = |percent: u32| ((u64::from(percent) << 32) / 100) as u32;
    let source = RMat {
        scale,
        edges,
        thresholds: [
            threshold(top_left),
            threshold(top_left + top_right),
            threshold(top_left + top_right + bottom_left),
        ],
        random: CounterRandom::new(options.seed, Purpose::Edges),
        labels: Permutation::new(scale, CounterRandom::new(options.seed, Purpose::Labels)),
    };
    build(vertices, &source, options)
}

impl EdgeSource for RMat {
    fn items(&self) -> u64 {
        self.edges
    }

    fn edges(&self, edge: u64, mut emit: impl FnMut(u32, u32)) {
        let [left_of_top, top, bottom_left] = self.thresholds;
        let (mut from, mut to) = (0, 0);
        let mut word = 0;
        for level in 0..self.scale {
            // Each word serves for two draws.
            word = match level % 2 {
                0 => self.random.at(edge * WORDS + u64::from(level / 2)),
                _ => word >> 32,
            };
            let draw = word as u32;
            let down = draw >= top;
            let right = (draw >= left_of_top) ^ down ^ (draw >= bottom_left);
            from = from << 1 | u32::from(down);
            to = to << 1 | u32::from(right);
        }
        emit(self.labels.apply(from), self.labels.apply(to));
    }
}
