//! The arcs that enter vertices, which going bottom-up needs.

use std::time::{Duration, Instant};

use millstream_flow::Context;
use millstream_graph::{CsrGraph, DepthProbe, partition};
use millstream_traversal::internals::{Survey, rows_with_arcs};
use millstream_traversal::{Columns, DistributedGraph, Layout, LayoutKind};

use crate::Result;
use crate::isolated::Isolated;

/// The arcs that enter vertices.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// The arcs that leave vertices, since the graph is symmetric.
    Same,
    /// The transpose, and how long making it took.
    Reversed(Box<DistributedGraph>, Duration),
    /// Not on the devices.
    None,
}

impl Incoming {
    /// The incoming arcs of a graph whose search may go bottom-up, and the vertices without any arcs.
    /// `leaving` has the arcs that leave. `None` if, as `depth` shows, frontiers never become large enough
    /// to go bottom-up, or if the devices have no room.
    pub(crate) async fn new(
        graph: &CsrGraph,
        leaving: &DistributedGraph,
        depth: DepthProbe,
    ) -> Result<(Incoming, Isolated)> {
        let (context, partition) = (leaving.context(), leaving.partition());
        let original = |vertex| partition.to_original(vertex);
        if graph.looks_symmetric(false) && Survey::of(leaving).await?.is_symmetric {
            let is_isolated = |vertex| graph.degree(original(vertex)) == 0;
            let isolated = Isolated::new(context, graph.vertices(), is_isolated).await?;
            return Ok((Incoming::Same, isolated));
        }
        if !depth.is_near() && partition::is_mesh_like(graph) {
            return Incoming::none(context, graph).await;
        }
        let start = Instant::now();
        let reversed = match context.all_gpus() {
            true => leaving.reversed().await,
            false => {
                let reversed = graph.transposed_structure()?;
                let (parts, columns) = (partition.clone(), Columns::Structure);
                DistributedGraph::new(context, &reversed, parts, columns).await
            }
        };
        let made = match reversed {
            Ok(reversed) => rows_with_arcs(&reversed).await.map(|enter| (reversed, enter)),
            Err(error) => Err(error),
        };
        let (reversed, enter) = match made {
            Err(error) if error.is_too_much() => return Incoming::none(context, graph).await,
            made => made?,
        };
        let leave = |vertex| graph.degree(original(vertex)) > 0;
        let is_isolated = |vertex| !leave(vertex) && !enter[vertex as usize];
        let isolated = Isolated::new(context, graph.vertices(), is_isolated).await?;
        Ok((Incoming::Reversed(Box::new(reversed), start.elapsed()), isolated))
    }

    /// For a graph whose search never goes bottom-up.
    pub(crate) async fn none(context: &Context, graph: &CsrGraph) -> Result<(Incoming, Isolated)> {
        Ok((Incoming::None, Isolated::none(context, graph.vertices()).await?))
    }

    /// The incoming arcs of `graph`, if they are on the devices.
    pub(crate) fn of<'a>(&'a self, graph: &'a DistributedGraph) -> Option<&'a DistributedGraph> {
        match self {
            Incoming::Same => Some(graph),
            Incoming::Reversed(reversed, _) => Some(reversed),
            Incoming::None => None,
        }
    }

    /// What the transpose has cost, if there is one.
    pub(crate) fn layout(&self) -> Option<Layout> {
        match *self {
            Incoming::Reversed(ref reversed, time) => {
                Some(Layout { kind: LayoutKind::Transpose, bytes: reversed.bytes(), time })
            }
            Incoming::Same | Incoming::None => None,
        }
    }
}
