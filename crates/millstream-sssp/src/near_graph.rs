//! A graph of few arcs a vertex, on devices that search it by near and far piles.

use std::time::Duration;

use millstream_graph::{CsrGraph, Weights};
use millstream_traversal::internals::{Attempt, NearFar, NearRows, Value};
use millstream_traversal::{DistributedGraph, Unsuitable};

use crate::Result;
use crate::algorithm::Algorithm;
use crate::means::Means;
use crate::rule::{DistanceRule, IntegerDistances, RealDistances};

/// The graph, and its rows once more.
#[derive(Debug)]
pub(crate) struct NearGraph {
    pub(crate) graph: DistributedGraph,
    pub(crate) rows: NearRows,
    /// The automatic step of a search on the worklist, which is what is left where this fails.
    pub(crate) other_delta: Option<f64>,
    /// Whether every arc makes a distance longer.
    grows: bool,
}

impl NearGraph {
    pub(crate) fn new(
        graph: &CsrGraph,
        distributed: DistributedGraph,
        rows: NearRows,
        (means, other_delta): (Option<Means>, Option<f64>),
    ) -> NearGraph {
        // Reals may be rounded to what they were.
        let is_integer = matches!(graph.weights(), Some(Weights::Integer(_)));
        let grows = is_integer && means.is_some_and(|means| means.lightest() > 0);
        NearGraph { graph: distributed, rows, other_delta, grows }
    }

    /// The rows, if the graph and the devices allow that and it is asked for, or the best way; else
    /// why not.
    pub(crate) async fn rows(
        graph: &CsrGraph,
        distributed: &DistributedGraph,
        is_real: bool,
        algorithm: Algorithm,
    ) -> Result<Result<NearRows, Unsuitable>> {
        let is_needed = algorithm == Algorithm::NearFar;
        let rows = match (algorithm, is_real) {
            (Algorithm::Asynchronous | Algorithm::Stepping, _) => Err(Unsuitable::Upload),
            (_, false) => NearRows::new::<IntegerDistances>(graph, distributed, is_needed).await?,
            (_, true) => NearRows::new::<RealDistances>(graph, distributed, is_needed).await?,
        };
        let is_worth_it = |rows: &NearRows| is_needed || rows.meet_seldom();
        Ok(rows.and_then(|rows| if is_worth_it(&rows) { Ok(rows) } else { Err(Unsuitable::Parts) }))
    }

    /// Searches with `waiting` vertices waiting at a time at most.
    pub(crate) async fn search<R: DistanceRule, V: Value>(
        &self,
        sources: &[u32],
        limit: u32,
        delta: Option<f64>,
        waiting: usize,
        patience: Duration,
    ) -> Result<Attempt> {
        let (NearGraph { graph, rows, .. }, grows) = (self, self.grows);
        let delta = delta.map(R::step);
        let search = NearFar::<R> { graph, rows, limit, delta, grows, waiting, patience };
        Ok(search.run::<V>(sources).await?)
    }
}
