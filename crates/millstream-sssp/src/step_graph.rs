//! The rows of a search in steps: arcs in ascending order of weight, on the device that owns their
//! target, and, on host devices, also on the one that owns their source.

use std::time::{Duration, Instant};

use futures_util::lock::Mutex;
use millstream_flow::Context;
use millstream_graph::{CsrGraph, DepthProbe, Partition, RowIndex, partition};
use millstream_traversal::internals::{Entering, RowWidth, check_partition, check_rows};
use millstream_traversal::{Columns, DegreeOrder, DistributedGraph, Layout, LayoutKind, Part};

use crate::divided_rows::divided;
use crate::means::Means;
use crate::step_lights::LightArcCounts;
use crate::{Error, Result};

/// The rows of outgoing arcs.
#[derive(Debug)]
enum Outgoing {
    /// The same as those of incoming arcs.
    Incoming,
    /// Each vertex's row is on its owner, which lowers values anywhere: for host devices.
    Owned(DistributedGraph),
    /// Each GPU has a row for every vertex, of the arcs that enter its own vertices, from which it makes
    /// them.
    Divided(Vec<Part>),
}

/// A graph on the devices.
#[derive(Debug)]
pub(crate) struct StepGraph {
    /// The arcs that enter owned vertices, a row for each of these.
    pub(crate) incoming: DistributedGraph,
    outgoing: Outgoing,
    pub(crate) arcs: u64,
    /// The bits of the smallest weight.
    pub(crate) lightest: u32,
    /// The counts for the last search's step.
    pub(crate) lights: Mutex<Option<LightArcCounts>>,
    /// How long making it took.
    time: Duration,
}

impl StepGraph {
    /// In the parts of `partition`, or in blocks that equally many arcs enter; on GPUs with the vertices of
    /// each part in [degree order](DegreeOrder) where that is worth it. `means` is `None` for a graph without
    /// arcs, `depth` if the graph was not probed.
    pub(crate) async fn new(
        context: &Context,
        graph: &CsrGraph,
        partition: Option<&Partition>,
        (means, depth): (Option<Means>, Option<DepthProbe>),
    ) -> Result<StepGraph> {
        let start = Instant::now();
        if let Some(partition) = partition {
            check_partition(context, graph, partition)?;
        }
        // Rows of outgoing arcs; rows of incoming ones are checked when they are uploaded.
        check_rows(context, graph)?;
        let parts_of = |entering: &RowIndex| {
            let balanced = || partition::edge_balanced_blocks(entering, context.devices().len());
            let partition = partition.cloned().unwrap_or_else(balanced);
            let is_mesh_like = || !partition::have_hubs(graph, entering);
            match DegreeOrder::is_worth_it(context, graph, depth, is_mesh_like) {
                true => partition.by_degree(entering, DegreeOrder::SPREAD),
                false => partition,
            }
        };
        let columns = Columns::ByWeight;
        let upload = Entering::upload::<Error>(context, graph, parts_of, columns);
        let Entering { rows: incoming, is_symmetric, .. } = upload.await?;
        let are_several_gpus = context.all_gpus() && context.devices().len() > 1;
        let outgoing = if is_symmetric && !are_several_gpus {
            Outgoing::Incoming
        } else if context.all_gpus() {
            Outgoing::Divided(divided(&incoming).await?)
        } else {
            let partition = incoming.partition().clone();
            let owned = DistributedGraph::new(context, graph, partition, columns);
            Outgoing::Owned(owned.await?)
        };
        let (arcs, lights) = (graph.arcs(), Mutex::new(None));
        let lightest = means.map_or(0, Means::lightest);
        Ok(StepGraph { incoming, outgoing, arcs, lightest, lights, time: start.elapsed() })
    }

    /// What all rows have cost.
    pub(crate) fn layout(&self) -> Layout {
        let outgoing = match &self.outgoing {
            Outgoing::Incoming => 0,
            Outgoing::Owned(rows) => rows.bytes(),
            Outgoing::Divided(parts) => parts.iter().map(Part::bytes).sum(),
        };
        let bytes = self.incoming.bytes() + outgoing;
        Layout { kind: LayoutKind::SteppingRows, bytes, time: self.time }
    }

    /// A device's rows of outgoing arcs: those of its own vertices, or, if the rows are divided, rows of all
    /// vertices with only the arcs that enter its own.
    pub(crate) fn outgoing(&self, place: usize) -> &Part {
        let parts = match &self.outgoing {
            Outgoing::Incoming => self.incoming.parts(),
            Outgoing::Owned(rows) => rows.parts(),
            Outgoing::Divided(parts) => parts,
        };
        &parts[place]
    }
}

/// Whether a search should go in steps, if the devices can: not if there would be many steps, nor where
/// near and far piles (which need [rows of some width](RowWidth)) or a worklist are better. A graph like a
/// road map is taken to have many steps even if it is too small for the probe to show that.
pub(crate) fn is_worth_it(context: &Context, graph: &CsrGraph, depth: DepthProbe) -> bool {
    goes_in_steps(graph, depth, context.all_gpus(), context.devices().len() > 1)
}

fn goes_in_steps(graph: &CsrGraph, depth: DepthProbe, are_gpus: bool, are_several: bool) -> bool {
    let has_hubs = || !partition::is_mesh_like(graph);
    match RowWidth::of(graph) {
        _ if depth.is_deep() => false,
        None => true,
        Some(RowWidth::Four) => {
            let is_near = are_gpus && depth.is_near();
            (is_near && (are_several || !is_forest(graph))) || has_hubs()
        }
        // The parts of several devices may have halos too large for piles.
        Some(_) => depth.is_near() || (are_several && has_hubs()),
    }
}

/// Whether there are no more arcs than a forest has: most vertices are then reached by one path only,
/// and a worklist visits them once.
fn is_forest(graph: &CsrGraph) -> bool {
    let ways = if graph.looks_symmetric(false) { 2 } else { 1 };
    graph.arcs() < ways * u64::from(graph.vertices())
}

#[cfg(test)]
mod tests {
    use millstream_flow::Devices;
    use millstream_graph::generate::{self, GenerateOptions};

    use super::*;

    #[test]
    fn deep_graphs_do_not_go_in_steps() {
        let context = Context::builder().devices(Devices::host(1)).build().unwrap();
        let is_worth_it = |graph: &CsrGraph| is_worth_it(&context, graph, DepthProbe::new(graph));
        let options = GenerateOptions::default();
        let road = generate::road(100, 100, generate::KEEP_PERMILLE, &options).unwrap();
        let arcs = |from| road.neighbors(from).iter().map(move |&to| (from, to));
        let edges = (0..road.vertices()).flat_map(arcs);
        let edges: Vec<_> = edges.chain((0..40).map(|to| (5000, 250 * to))).collect();
        let with_hub = CsrGraph::from_edges(road.vertices(), &edges).unwrap();
        assert!(!partition::is_mesh_like(&with_hub));
        assert!(!is_worth_it(&road) && !is_worth_it(&with_hub));
        let star: Vec<_> = (1..20_000).map(|leaf| (0, leaf)).collect();
        assert!(is_worth_it(&CsrGraph::from_edges(20_000, &star).unwrap()));
        // No hub, but everything is near.
        assert!(is_worth_it(&generate::random(10_000, 40_000, &options).unwrap()));
        assert!(!is_worth_it(&generate::grid(20, 20, &options).unwrap()));
        // A mesh with six arcs a vertex.
        let edges = (0..10_000u32).flat_map(|at| [1, 100, 101].map(|by| (at, at + by)));
        let edges: Vec<_> = edges.flat_map(|(from, to)| [(from, to), (to, from)]).collect();
        assert!(!is_worth_it(&CsrGraph::from_edges(10_101, &edges).unwrap()));
        for scale in [9, 12] {
            assert!(is_worth_it(&generate::kron(scale, 8, &options).unwrap()));
            assert!(is_worth_it(&generate::social(scale, 9, &options).unwrap()));
        }
    }

    #[test]
    fn near_graphs_of_few_arcs_go_in_steps_on_gpus_but_forests_on_one() {
        let vertices = 1 << 14;
        let two = (0..vertices).flat_map(|at| [2 * at, 2 * at + 1].map(|to| (at, to % vertices)));
        let tree = (1..vertices).map(|at| ((at - 1) / 2, at));
        let near = CsrGraph::from_edges(vertices, &two.collect::<Vec<_>>()).unwrap();
        let forest = CsrGraph::from_edges(vertices, &tree.collect::<Vec<_>>()).unwrap();
        for (graph, on_one) in [(near, true), (forest, false)] {
            let depth = DepthProbe::around(&graph, 0);
            let goes = |are_gpus, are_several| goes_in_steps(&graph, depth, are_gpus, are_several);
            assert_eq!([goes(true, false), goes(true, true)], [on_one, true]);
            assert!(!goes(false, false) && !goes(false, true));
        }
    }

    #[test]
    fn forests_have_fewer_arcs_than_vertices() {
        let ring: Vec<_> = (0..1000).map(|at| (at, (at + 1) % 1000)).collect();
        let tree: Vec<_> = (1..1000).map(|at| (at, (at - 1) / 2)).collect();
        let both_ways: Vec<_> =
            tree.iter().flat_map(|&(one, other)| [(one, other), (other, one)]).collect();
        let twice: Vec<_> =
            (0..1000).flat_map(|at| [2 * at, 2 * at + 1].map(|to| (at, to % 1000))).collect();
        for (edges, expected) in [(tree, true), (both_ways, true), (ring, false), (twice, false)] {
            assert_eq!(is_forest(&CsrGraph::from_edges(1000, &edges).unwrap()), expected);
        }
    }

    /// All arcs enter a few vertices: no device may have more than its share of them.
    #[test]
    fn the_arcs_that_a_device_has_are_balanced() {
        let edges: Vec<_> = (0..4000).map(|from| (from, from % 40, 1u32)).collect();
        let graph = CsrGraph::from_weighted_edges(4000, &edges).unwrap();
        let context = Context::builder().devices(Devices::host(4)).build().unwrap();
        let steps = context
            .block_on(StepGraph::new(&context, &graph, None, (Means::of(&graph), None)))
            .unwrap()
            .unwrap();
        let arcs: Vec<_> = steps.incoming.parts().iter().map(|part| part.targets.len()).collect();
        // An arc and a vertex weigh alike: three parts share the arcs, the last part has only vertices.
        assert_eq!(arcs.iter().sum::<usize>(), 4000);
        assert!(arcs.iter().all(|&arcs| arcs <= 2000), "{arcs:?}");
    }
}
