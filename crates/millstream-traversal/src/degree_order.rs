//! The *degree order* of a graph's vertices on GPUs: those with the most arcs first. The few vertices
//! that most others read then lie in few lines of memory, and whole lines have work or have none.

use std::time::{Duration, Instant};

use millstream_flow::Context;
use millstream_graph::{CsrGraph, DepthProbe, Partition, partition};

use crate::{DistributedGraph, Layout, LayoutKind};

/// What putting vertices into the order of their degrees has taken.
#[derive(Clone, Copy, Debug)]
pub struct DegreeOrder {
    time: Duration,
}

impl DegreeOrder {
    /// Vertices of a window whose work should be spread evenly over the blocks of a GPU: 32 words
    /// of bits, which a warp takes at a time.
    pub const SPREAD: u32 = 1024;

    /// The partition [by degree](Partition::by_degree) on GPUs, for a graph that is neither
    /// [mesh-like](partition::is_mesh_like) nor [deep](DepthProbe::is_deep): in these, vertices
    /// near each other have ids near each other as a rule, which counts for more. Else
    /// `partition` as it is, and `None`. The graph is probed unless its `depth` is known.
    ///
    /// ```
    /// use millstream_flow::{Context, Devices};
    /// use millstream_graph::{CsrGraph, partition};
    /// use millstream_traversal::DegreeOrder;
    ///
    /// let context = Context::builder().devices(Devices::host(1)).build()?;
    /// let star: Vec<_> = (0..99).map(|leaf| (99, leaf)).collect();
    /// let star = CsrGraph::from_edges(100, &star)?;
    /// let parts = partition::contiguous_blocks(&star, 1);
    /// // Host devices do without.
    /// let (same, order) = DegreeOrder::of(&context, &star, parts.clone(), DegreeOrder::SPREAD, None);
    /// assert!(order.is_none() && same == parts);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If the partition is of a graph with more vertices.
    pub fn of(
        context: &Context,
        graph: &CsrGraph,
        partition: Partition,
        window: u32,
        depth: Option<DepthProbe>,
    ) -> (Partition, Option<DegreeOrder>) {
        let start = Instant::now();
        match DegreeOrder::is_worth_it(context, graph, depth, || partition::is_mesh_like(graph)) {
            true => {
                let ordered = partition.by_degree(graph, window);
                (ordered, Some(DegreeOrder { time: start.elapsed() }))
            }
            false => (partition, None),
        }
    }

    /// Whether [`DegreeOrder::of`] would order the vertices; `graph` may be the graph or its transpose.
    /// `is_mesh_like` takes longest and is asked last, if at all.
    ///
    /// ```
    /// use millstream_flow::{Context, Devices};
    /// use millstream_graph::CsrGraph;
    /// use millstream_traversal::DegreeOrder;
    ///
    /// let context = Context::builder().devices(Devices::host(1)).build()?;
    /// let path = CsrGraph::from_edges(3, &[(0, 1), (1, 2)])?;
    /// // Host devices do without.
    /// assert!(!DegreeOrder::is_worth_it(&context, &path, None, || false));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_worth_it(
        context: &Context,
        graph: &CsrGraph,
        depth: Option<DepthProbe>,
        is_mesh_like: impl FnOnce() -> bool,
    ) -> bool {
        context.all_gpus()
            && !depth.unwrap_or_else(|| DepthProbe::new(graph)).is_deep()
            && !is_mesh_like()
    }

    /// What the order has cost: no device memory, only the time to order the vertices and to renumber
    /// the arcs of `graph`.
    pub fn layout(self, graph: &DistributedGraph) -> Layout {
        let time = self.time + graph.renumbering_time();
        Layout { kind: LayoutKind::DegreeOrder, bytes: 0, time }
    }
}
