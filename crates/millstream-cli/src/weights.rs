//! `--weights`: other weights than a graph's own.

use millstream::graph::{CsrGraph, generate};

use crate::error::Error;

/// Weights of all arcs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WeightsOption {
    None,
    Unit,
    /// Random integers from 1 to this.
    Random(u32),
    /// Random reals above 0, up to this.
    RandomReal(f32),
}

/// `unit`, or `random:MAX`.
pub(crate) fn weights(text: &str) -> Result<WeightsOption, String> {
    let random = text.strip_prefix("random:").and_then(random);
    match (text, random) {
        ("unit", _) => Ok(WeightsOption::Unit),
        (_, Some(random)) => Ok(random),
        _ => Err(format!(
            "neither unit nor random:MAX with MAX from 1 to {}, or with a decimal point for reals",
            u32::MAX
        )),
    }
}

/// The same, or `none`.
pub(crate) fn weights_or_none(text: &str) -> Result<WeightsOption, String> {
    match text {
        "none" => Ok(WeightsOption::None),
        text => weights(text).map_err(|reason| format!("not none, and {reason}")),
    }
}

/// The largest weight says by its decimal point that weights are reals.
fn random(max: &str) -> Option<WeightsOption> {
    if !max.contains('.') {
        return max.parse().ok().filter(|&max| max > 0).map(WeightsOption::Random);
    }
    let max: f32 = max.parse().ok()?;
    (max.is_normal() && max > 0.0).then_some(WeightsOption::RandomReal(max))
}

impl WeightsOption {
    /// The graph with these weights.
    pub(crate) fn given_to(self, graph: CsrGraph) -> Result<CsrGraph, Error> {
        let weights = match self {
            WeightsOption::None => None,
            WeightsOption::Unit => Some(generate::unit_weights(&graph)),
            WeightsOption::Random(max) => Some(generate::random_weights(&graph, max, 0)),
            WeightsOption::RandomReal(max) => Some(generate::random_real_weights(&graph, max, 0)),
        };
        Ok(graph.with_weights(weights)?)
    }
}
