//! A graph without long rows, on devices that search it by near and far piles.

use std::iter::successors;
use std::time::Duration;

use millstream_graph::{CsrGraph, Weights};
use millstream_traversal::internals::{Attempt, NearFar, NearRows, RowWidth, Value};
use millstream_traversal::{DistributedGraph, Unsuitable};

use crate::Result;
use crate::algorithm::Algorithm;
use crate::means::Means;
use crate::rule::{DistanceRule, IntegerDistances, RealDistances};

/// The next attempt's step is this many times smaller.
const SHRINKS: f64 = 4.0;
/// The most attempts: the last has a 64th of the first step.
const ATTEMPTS: usize = 4;

/// The graph, and its packed rows.
#[derive(Debug)]
pub(crate) struct NearGraph {
    pub(crate) graph: DistributedGraph,
    pub(crate) rows: NearRows,
    /// The automatic step of a search on the worklist, which runs if near and far piles fail.
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
        // Adding a real weight may leave a distance unchanged, through rounding.
        let is_integer = matches!(graph.weights(), Some(Weights::Integer(_)));
        let grows = is_integer && means.is_some_and(|means| means.lightest() > 0);
        NearGraph { graph: distributed, rows, other_delta, grows }
    }

    /// The packed rows, if the graph and the devices allow near and far piles, and these are asked for or
    /// the best way; else why not.
    pub(crate) async fn rows(
        graph: &CsrGraph,
        distributed: &DistributedGraph,
        is_real: bool,
        algorithm: Algorithm,
    ) -> Result<Result<NearRows, Unsuitable>> {
        let is_needed = match algorithm {
            Algorithm::NearFar => true,
            Algorithm::Auto => false,
            Algorithm::Asynchronous | Algorithm::Stepping => return Ok(Err(Unsuitable::Upload)),
        };
        let width = RowWidth::of(graph);
        let rows = match is_real {
            false => NearRows::new::<IntegerDistances>(graph, distributed, width, is_needed).await,
            true => NearRows::new::<RealDistances>(graph, distributed, width, is_needed).await,
        }?;
        let is_worth_it = |rows: &NearRows| is_needed || rows.meet_seldom();
        Ok(rows.and_then(|rows| if is_worth_it(&rows) { Ok(rows) } else { Err(Unsuitable::Parts) }))
    }

    /// Searches with at most `waiting` vertices waiting at a time, in steps of `delta`. If too many have to
    /// wait and the step `may_shrink`, tries again with a quarter of it, then a sixteenth, and so on. Also
    /// returns the step of the attempt that succeeded.
    pub(crate) async fn search<R: DistanceRule, V: Value>(
        &self,
        sources: &[u32],
        limit: u32,
        (delta, may_shrink): (Option<f64>, bool),
        waiting: usize,
        patience: Duration,
    ) -> Result<(Attempt, Option<f64>)> {
        let (NearGraph { graph, rows, .. }, grows) = (self, self.grows);
        let shorter = |step: &Option<f64>| Some(step.map(|step| step / SHRINKS));
        let attempts = if may_shrink { ATTEMPTS } else { 1 };
        let mut given_up = Duration::ZERO;
        for step in successors(Some(delta), shorter).take(attempts) {
            let delta = step.map(R::step);
            let search = NearFar::<R> { graph, rows, limit, delta, grows, waiting, patience };
            match search.run::<V>(sources).await? {
                Attempt::Found(found) => return Ok((Attempt::Found(found.after(given_up)), step)),
                Attempt::GivenUp(time) => given_up += time,
            }
        }
        Ok((Attempt::GivenUp(given_up), None))
    }
}
