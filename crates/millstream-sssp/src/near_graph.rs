//! A graph of few arcs a vertex, on devices that search it by near and far piles.

use std::sync::atomic::{AtomicBool, Ordering};

use millstream_graph::{CsrGraph, Weights};
use millstream_traversal::{DistributedGraph, NearFar, NearRows, Outcome, Value, can_meet};

use crate::algorithm::Algorithm;
use crate::rule::{DistanceRule, IntegerDistances, RealDistances};
use crate::{Result, step_graph};

/// Arcs across a halo from which on devices meet so seldom that near and far piles are the
/// better way.
const DEEP: u32 = 8;

/// The graph, and its rows once more.
#[derive(Debug)]
pub(crate) struct NearGraph {
    pub(crate) graph: DistributedGraph,
    pub(crate) rows: NearRows,
    /// The automatic step of a search on the worklist, which is what is left where this fails.
    pub(crate) other_delta: Option<f64>,
    /// Whether too many vertices had to wait in a search: later ones go on the worklist.
    is_too_wide: AtomicBool,
    /// Whether every arc makes a distance longer.
    grows: bool,
}

impl NearGraph {
    pub(crate) fn new(
        graph: &CsrGraph,
        distributed: DistributedGraph,
        rows: NearRows,
        other_delta: Option<f64>,
    ) -> NearGraph {
        // Reals may be rounded to what they were.
        let is_integer = matches!(graph.weights(), Some(Weights::Integer(_)));
        let grows = is_integer && step_graph::lightest(graph) > 0;
        let is_too_wide = AtomicBool::new(false);
        NearGraph { graph: distributed, rows, other_delta, is_too_wide, grows }
    }

    /// The rows, if the graph and the devices allow that and it is asked for, or the best way.
    pub(crate) async fn rows(
        graph: &CsrGraph,
        distributed: &DistributedGraph,
        is_real: bool,
        algorithm: Algorithm,
    ) -> Result<Option<NearRows>> {
        let can_meet = can_meet(distributed.context());
        let is_wanted = matches!(algorithm, Algorithm::Auto | Algorithm::NearFar);
        if !is_wanted || !can_meet || !NearRows::suit(graph) {
            return Ok(None);
        }
        let rows = match is_real {
            false => NearRows::new::<IntegerDistances>(graph, distributed).await?,
            true => NearRows::new::<RealDistances>(graph, distributed).await?,
        };
        Ok(rows.filter(|rows| algorithm == Algorithm::NearFar || rows.depth() >= DEEP))
    }

    /// Searches with `waiting` vertices waiting at a time at most. `None` if more had to, now or
    /// once before, or predecessors are asked for that could make a cycle.
    pub(crate) async fn search<R: DistanceRule, V: Value>(
        &self,
        sources: &[u32],
        limit: u32,
        delta: Option<f64>,
        waiting: usize,
    ) -> Result<Option<Outcome>> {
        let NearGraph { graph, rows, is_too_wide, grows, .. } = self;
        // `NEAR_FAR.md` in millstream-traversal says why.
        let is_right = !V::KEEPS_PREDECESSOR || *grows || graph.context().devices().len() == 1;
        // Relaxed, as below: at worst another search finds out.
        if !is_right || is_too_wide.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let (delta, grows) = (delta.map(R::step), *grows);
        let search = NearFar::<R> { graph, rows, limit, delta, grows, waiting };
        let found = search.run::<V>(sources).await?;
        is_too_wide.fetch_or(found.is_none(), Ordering::Relaxed);
        Ok(found)
    }
}
