//! The automatic step of a priority threshold \[G §4.4\], and of near and far piles.

use millstream_graph::pieces::InPieces;
use millstream_graph::{CsrGraph, Weights};
use rayon::prelude::*;

/// Measured: see `docs/decisions/0009-automatic-delta.md`.
const FACTOR: f64 = 80.0;
/// For GPUs, on which a step costs more and repeated work less.
const GPU_FACTOR: f64 = 640.0;
/// For near and far piles; measured: see `docs/decisions/0025-near-and-far-piles.md`.
const NEAR_FACTOR: f64 = 128.0;
const GPU_NEAR_FACTOR: f64 = 256.0;
/// The same for GPUs and graphs that spread like space, in which much is near at a time.
const GPU_SPACE_FACTOR: f64 = 7.0;

/// Weights that a thread sums up at a time.
const PIECE: usize = 1 << 16;

/// The means from which the automatic steps of a graph are computed; its weights are distances.
/// The more arcs leave a vertex, the shorter shortest paths are, and the more vertices a step of
/// the same width holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Means {
    weight: f64,
    degree: f64,
    /// The bits of the smallest weight.
    lightest: u32,
    /// The smallest weight.
    least: f64,
}

impl Means {
    /// `None` for a graph without arcs. Looks at all weights once.
    pub(crate) fn of(graph: &CsrGraph) -> Option<Means> {
        let (sum, lightest, least) = match graph.weights()? {
            Weights::Integer(weights) => {
                let all =
                    weights.par_iter().in_pieces().map(|&weight| (u128::from(weight), weight));
                let both =
                    |one: (u128, u32), other: (u128, u32)| (one.0 + other.0, one.1.min(other.1));
                let (sum, lightest) = all.reduce(|| (0, u32::MAX), both);
                (sum as f64, lightest, f64::from(lightest))
            }
            Weights::Real(weights) => {
                let piece = |its: &[f32]| {
                    let sum = its.iter().map(|&weight| f64::from(weight)).sum::<f64>();
                    (sum, its.iter().copied().fold(f32::INFINITY, f32::min))
                };
                // Pieces are summed in order, so the result is the same for any number of threads.
                let pieces: Vec<_> = weights.par_chunks(PIECE).map(piece).collect();
                let lightest = pieces.iter().map(|piece| piece.1).fold(f32::INFINITY, f32::min);
                let sum: f64 = pieces.iter().map(|piece| piece.0).sum();
                (sum, lightest.to_bits(), f64::from(lightest))
            }
        };
        let arcs = graph.arcs() as f64;
        let degree = arcs / f64::from(graph.vertices());
        (arcs > 0.0).then_some(Means { weight: sum / arcs, degree, lightest, least })
    }

    /// The bits of the smallest weight.
    pub(crate) fn lightest(self) -> u32 {
        self.lightest
    }

    /// The mean weight.
    pub(crate) fn weight(self) -> f64 {
        self.weight
    }

    /// The step of the priority threshold; `None` if all weights are 0.
    pub(crate) fn threshold(self, on_gpus: bool) -> Option<f64> {
        let factor = if on_gpus { GPU_FACTOR } else { FACTOR };
        usable_step(factor * self.weight / (self.degree * self.degree))
    }

    /// How far the threshold between near and far is beyond the nearest vertex; `None` if all
    /// weights are 0.
    pub(crate) fn near(self, on_gpus: bool) -> Option<f64> {
        let factor = if on_gpus { GPU_NEAR_FACTOR } else { NEAR_FACTOR };
        usable_step(factor * self.weight / (self.degree * self.degree))
    }

    /// The same on GPUs for a graph that spreads like space. The more alike weights are, the less often
    /// a vertex is visited again, however wide the step is.
    pub(crate) fn near_in_space(self) -> Option<f64> {
        let narrow = GPU_SPACE_FACTOR * self.weight / self.degree;
        let wide = self.near(true)?;
        let alike = self.least / self.weight;
        usable_step(alike * wide + (1.0 - alike) * narrow.min(wide))
    }
}

/// The step, if distances can be divided by it.
pub(crate) fn usable_step(step: f64) -> Option<f64> {
    (step > 0.0 && (1.0 / step as f32).is_normal()).then_some(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_and_fewer_arcs_make_larger_steps() {
        let star = |leaves: u32, weight: u32| {
            let edges: Vec<_> = (1..leaves).map(|leaf| (0, leaf, weight)).collect();
            let means = Means::of(&CsrGraph::from_weighted_edges(leaves, &edges).unwrap());
            means.and_then(|means| means.threshold(false))
        };
        assert_eq!(star(2, 10), Some(3200.0));
        assert!(star(2, 20) > star(2, 10) && star(9, 10) < star(2, 10));
        assert_eq!((star(5, 0), star(1, 1)), (None, None));
    }

    #[test]
    fn steps_in_space_are_narrow_unless_weights_are_alike() {
        let ring = |weights: [u32; 2]| {
            let edge = |at: u32| (at, (at + 1) % 100, weights[at as usize % 2]);
            let edges: Vec<_> = (0..100).map(edge).collect();
            Means::of(&CsrGraph::from_weighted_edges(100, &edges).unwrap())
        };
        let [alike, different] = [[7, 7], [0, 14]].map(|weights| ring(weights).unwrap());
        assert_eq!(alike.near_in_space(), alike.near(true));
        assert_eq!(different.near(true), alike.near(true));
        assert_eq!(different.near_in_space(), Some(7.0 * GPU_SPACE_FACTOR));
        let (few, between) = (Means { degree: 0.01, ..different }, ring([4, 10]).unwrap());
        assert!(few.near_in_space() <= few.near(true));
        assert!(between.near_in_space() > different.near_in_space());
        assert!(between.near_in_space() < alike.near_in_space());
        assert_eq!(ring([0, 0]).unwrap().near_in_space(), None);
    }

    #[test]
    fn the_smallest_weight_is_found_with_the_mean() {
        let edges: Vec<_> =
            (0..200_000u32).map(|at| (at % 7, at % 11, 3 + (at * 31) % 1009)).collect();
        let graph = CsrGraph::from_weighted_edges(11, &edges).unwrap();
        let means = Means::of(&graph).unwrap();
        let sum: u64 = edges.iter().map(|edge| u64::from(edge.2)).sum();
        assert_eq!((means.lightest(), means.weight), (3, sum as f64 / 200_000.0));
        let reals: Vec<f32> = edges.iter().map(|edge| edge.2 as f32 / 4.0).collect();
        let graph = graph.with_weights(Some(Weights::Real(reals))).unwrap();
        let means = Means::of(&graph).unwrap();
        assert_eq!((means.lightest(), means.weight), (0.75f32.to_bits(), sum as f64 / 800_000.0));
    }
}
