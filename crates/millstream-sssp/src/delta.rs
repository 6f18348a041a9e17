//! Steps of the priority threshold \[G §4.4\].

use millstream_graph::{CsrGraph, Weights};

use crate::{Error, Result};

/// Steps of the priority threshold, in distance: vertices nearer than the
/// threshold go first, the others are deferred \[G §4.4\].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Delta {
    /// From the mean weight and the mean degree of the graph.
    #[default]
    Auto,
    /// No priorities: everything goes at once.
    Off,
    /// This much.
    Step(f64),
}

/// Measured: see `docs/decisions/0009-automatic-delta.md`.
const FACTOR: f64 = 80.0;
/// On GPUs, to which a step costs more and repeated work less.
const GPU_FACTOR: f64 = 640.0;

impl Delta {
    /// The step; `None` without priorities.
    pub(crate) fn step(self, automatic: Option<f64>) -> Result<Option<f64>> {
        match self {
            Delta::Off => Ok(None),
            Delta::Auto => Ok(automatic),
            Delta::Step(delta) if delta > 0.0 && (1.0 / delta as f32).is_normal() => {
                Ok(Some(delta))
            }
            Delta::Step(delta) => Err(Error::Delta { delta }),
        }
    }
}

/// The automatic step of a graph with weights that are distances: the longer the
/// arcs and the fewer, the larger. `None` if all weights are 0.
///
/// The more arcs leave a vertex, the shorter shortest paths are, and the more
/// vertices a step of the same distance holds.
pub(crate) fn automatic(graph: &CsrGraph, on_gpus: bool) -> Option<f64> {
    let sum: f64 = match graph.weights()? {
        Weights::Integer(weights) => weights.iter().map(|&weight| f64::from(weight)).sum(),
        Weights::Real(weights) => weights.iter().map(|&weight| f64::from(weight)).sum(),
    };
    let arcs = graph.arcs() as f64;
    let (weight, degree) = (sum / arcs, arcs / f64::from(graph.vertices()));
    let factor = if on_gpus { GPU_FACTOR } else { FACTOR };
    let step = factor * weight / (degree * degree);
    // Also refuses what has no mean: a graph without arcs.
    (step > 0.0 && (1.0 / step as f32).is_normal()).then_some(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_and_fewer_arcs_make_larger_steps() {
        let star = |leaves: u32, weight: u32| {
            let edges: Vec<_> = (1..leaves).map(|leaf| (0, leaf, weight)).collect();
            automatic(&CsrGraph::from_weighted_edges(leaves, &edges).unwrap(), false)
        };
        assert_eq!(star(2, 10), Some(3200.0));
        assert!(star(2, 20) > star(2, 10) && star(9, 10) < star(2, 10));
        assert_eq!((star(5, 0), star(1, 1)), (None, None));
    }

    #[test]
    fn steps_that_are_none_are_refused() {
        for delta in [0.0, -1.0, f64::NAN, 1e-60, f64::INFINITY] {
            assert!(matches!(Delta::Step(delta).step(None), Err(Error::Delta { .. })), "{delta}");
        }
        assert_eq!(Delta::Step(2.5).step(None).unwrap(), Some(2.5));
        assert_eq!(Delta::Off.step(Some(3.0)).unwrap(), None);
        assert_eq!(Delta::Auto.step(Some(3.0)).unwrap(), Some(3.0));
    }
}
