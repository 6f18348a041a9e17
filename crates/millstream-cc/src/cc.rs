//! The public algorithm: components of a graph on the devices, or of a stream of
//! edges.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use millstream_flow::{Context, Error as FlowError};
use millstream_graph::{CsrGraph, DepthProbe, Partition, partition, source};
use millstream_traversal::internals::{PATIENCE, Survey, can_meet, check_partition, check_rows};
use millstream_traversal::{
    Columns, DegreeOrder, DistributedGraph, Layout, LayoutKind, sends_packets,
};
use rayon::prelude::*;

use crate::hubs::Hubs;
use crate::kernels::Edge;
use crate::search::Search;
use crate::solver::{Arcs, Resident};
use crate::spread::Spread;
use crate::statistics::CcStatistics;
use crate::{Method, Result, host_search};

/// The fewest vertices whose labels a thread looks at.
const PIECE: usize = 1 << 14;

/// How a search runs; the components do not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CcOptions {
    /// Most bytes of a packet; 1 MiB unless set. Packets of [streamed rows](Cc::run_streamed_graph) have
    /// room for 16 bytes at least.
    pub packet_bytes: usize,
    /// Packet buffers of each device and router; `None` for 2. Never more than there are packets.
    pub buffers: Option<usize>,
    /// How long GPUs that reach each other's memory wait for each other before a search fails; ten
    /// seconds unless set.
    pub patience: Duration,
}

impl Default for CcOptions {
    fn default() -> CcOptions {
        CcOptions { packet_bytes: 1 << 20, buffers: None, patience: PATIENCE }
    }
}

impl CcOptions {
    /// Checks that the options have a meaning, whatever the graph.
    ///
    /// # Errors
    /// Packets that hold no edge; no buffers.
    pub fn check(&self) -> Result<()> {
        let (bytes, item_bytes) = (self.packet_bytes, size_of::<Edge>());
        if bytes < item_bytes {
            return Err(FlowError::PacketTooSmall { bytes, item_bytes }.into());
        }
        match self.buffers {
            Some(0) => Err(FlowError::NoBuffers.into()),
            _ => Ok(()),
        }
    }
}

/// The components found, by original vertex id.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CcResult {
    /// The smallest vertex of each vertex's component.
    pub labels: Vec<u32>,
    /// Which arcs were hooked; `None` if they were streamed.
    pub method: Option<Method>,
    /// What the devices did.
    pub statistics: CcStatistics,
    /// The time from the first arc to the last label, which leaves the labels on the devices.
    pub run_time: Duration,
    /// The time to bring the labels to the host, in the graph's order.
    pub gather_time: Duration,
}

impl CcResult {
    /// Labels and sizes of all components, in the order of labels.
    pub fn sizes(&self) -> Vec<(u32, u32)> {
        let mut sizes = vec![0u32; self.labels.len()];
        self.labels.iter().for_each(|&label| sizes[label as usize] += 1);
        let all = sizes.into_iter().enumerate().map(|(label, size)| (label as u32, size));
        all.filter(|&(_, size)| size > 0).collect()
    }
}

/// A graph spread over the devices of a context, for any number of runs.
///
/// ```
/// use millstream_cc::Cc;
/// use millstream_flow::{Context, Devices};
/// use millstream_graph::CsrGraph;
///
/// let context = Context::builder().devices(Devices::host(2)).build()?;
/// let graph = CsrGraph::from_edges(5, &[(1, 0), (3, 2), (4, 3)])?;
/// let result = context.block_on(async { Cc::new(&context, &graph).await?.run().await })??;
/// assert_eq!(result.labels, [0, 0, 2, 2, 2]);
/// assert_eq!(result.sizes(), [(0, 2), (2, 3)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Cc {
    graph: DistributedGraph,
    order: Option<DegreeOrder>,
    /// What the reverses of the arcs have cost, if they were made.
    both_ways: Option<Layout>,
    survey: Survey,
    method: Method,
    /// The vertex that the most arcs leave, by new id.
    hub: u32,
    hubs: Hubs,
    options: CcOptions,
}

impl Cc {
    /// Uploads a graph in blocks with equally many arcs, to be searched as
    /// [`CcOptions::default`] says.
    ///
    /// # Errors
    /// No memory on a device; on GPUs, a vertex of more than 125,000,000 arcs, or more than 2^32 - 1,024
    /// vertices.
    ///
    /// # Cancel safety
    /// Cancel safe: what was uploaded is dropped.
    pub async fn new(context: &Context, graph: &CsrGraph) -> Result<Cc> {
        Cc::with_options(context, graph, CcOptions::default()).await
    }

    /// As [`Cc::new`], with options.
    ///
    /// # Errors
    /// As [`Cc::new`]; options that have no meaning.
    ///
    /// # Cancel safety
    /// Cancel safe: what was uploaded is dropped.
    pub async fn with_options(
        context: &Context,
        graph: &CsrGraph,
        options: CcOptions,
    ) -> Result<Cc> {
        let partition = partition::edge_balanced_blocks(graph, context.devices().len());
        Cc::with_partition(context, graph, partition, options).await
    }

    /// As [`Cc::with_options`], in the parts of `partition`, one for each device.
    /// Of a mesh whose ids say nothing of where vertices lie, [`partition::region_blocks`] has vertices of a
    /// region near each other, which makes runs several times as fast, and takes longer than many runs.
    ///
    /// # Errors
    /// As [`Cc::with_options`]; a partition that does not fit.
    ///
    /// # Cancel safety
    /// Cancel safe: what was uploaded is dropped.
    pub async fn with_partition(
        context: &Context,
        graph: &CsrGraph,
        partition: Partition,
        options: CcOptions,
    ) -> Result<Cc> {
        Cc::boxed_upload(context, graph, partition, options).await
    }

    /// Boxed, so that it is compiled once here, not in every crate that calls it.
    fn boxed_upload<'a>(
        context: &'a Context,
        graph: &'a CsrGraph,
        partition: Partition,
        options: CcOptions,
    ) -> BoxFuture<'a, Result<Cc>> {
        Cc::upload(context, graph, partition, options).boxed()
    }

    async fn upload(
        context: &Context,
        graph: &CsrGraph,
        partition: Partition,
        options: CcOptions,
    ) -> Result<Cc> {
        options.check()?;
        check_partition(context, graph, &partition)?;
        check_rows(context, graph)?;
        let whole = graph;
        let hub = source::max_degree(whole);
        let around_hub = hub.map(|hub| DepthProbe::around(whole, hub)).unwrap_or_default();
        let method = |arcs| Method::of_symmetric(whole, arcs, around_hub);
        let (partition, order) = match method(whole.arcs()) {
            Method::OutsideHub => DegreeOrder::of(context, whole, partition, u32::MAX, None),
            _ => (partition, None),
        };
        let columns = Columns::Structure;
        let graph = DistributedGraph::new(context, whole, partition, columns).await?;
        let hub = hub.map_or(0, |hub| graph.partition().to_new(hub));
        let mut survey = Survey::of(&graph).await?;
        // With fewer arcs, labelling takes longer than hooking, and reverses would save little.
        let are_missed = !survey.is_symmetric && whole.arcs() >= u64::from(whole.vertices());
        let (graph, both_ways) = match are_missed && is_gang(context) {
            true => with_both_ways(graph).await?,
            false => (graph, None),
        };
        if both_ways.is_some() {
            survey = Survey::of(&graph).await?;
        }
        let arcs = graph.parts().iter().map(|part| part.targets.len() as u64).sum();
        let method = if survey.is_symmetric { method(arcs) } else { Method::EveryArc };
        if method == Method::OutsideHub {
            // Most devices do; and in a gang each has the hub's tree, and hooks whatever another tells it of.
            survey.name_all(graph.vertices());
        }
        let hubs = match method == Method::OutsideHub && is_gang(context) {
            true => Hubs::new(whole, &graph).await?,
            false => Hubs::none(&graph)?,
        };
        Ok(Cc { graph, order, both_ways, survey, method, hub, hubs, options })
    }

    /// What was made at the upload beside the graph's rows, on GPUs:
    ///
    /// * for graphs of many arcs, the [degree order](DegreeOrder) of each GPU's vertices,
    /// * and, where GPUs reach each other's memory, the neighbour of each vertex that has the most arcs;
    /// * for a graph that is not symmetric and has as many arcs as vertices, the reverses of its arcs, if
    ///   there is room.
    pub fn layouts(&self) -> Vec<Layout> {
        let order = self.order.map(|order| order.layout(&self.graph));
        [order, self.both_ways, self.hubs.layout()].into_iter().flatten().collect()
    }

    /// Vertices of the graph.
    pub fn vertices(&self) -> u32 {
        self.graph.vertices()
    }

    /// Which arcs are hooked, as the graph's shape has decided.
    pub fn method(&self) -> Method {
        self.method
    }

    /// How runs go.
    pub fn options(&self) -> &CcOptions {
        &self.options
    }

    /// Sets how later runs go.
    ///
    /// # Errors
    /// Options that have no meaning. The previous options stay in effect.
    pub fn set_options(&mut self, options: CcOptions) -> Result<()> {
        options.check()?;
        self.options = options;
        Ok(())
    }

    /// Finds the components.
    ///
    /// # Errors
    /// The first cause of any failure below.
    ///
    /// # Cancel safety
    /// Dropping the future stops the devices; the graph stays.
    pub async fn run(&self) -> Result<CcResult> {
        self.boxed_run().await
    }

    /// As [`Cc::boxed_upload`].
    fn boxed_run(&self) -> BoxFuture<'_, Result<CcResult>> {
        self.find().boxed()
    }

    async fn find(&self) -> Result<CcResult> {
        let (context, partition) = (self.graph.context(), self.graph.partition());
        let (method, hub) = (self.method, self.hub);
        let search = Search::new(context, partition.vertices(), self.options);
        let parts = self.graph.parts().iter().zip(partition.boundaries()).enumerate();
        let residents = parts.map(|(place, (part, &first_vertex))| {
            let hubs = self.hubs.of(place);
            Resident { part, hubs, first_vertex, method, hub }
        });
        let mut result = if sends_packets(context) {
            search.run(residents.map(Arcs::Resident).collect(), async { Ok(()) }).await?
        } else if is_gang(context) {
            let spread = Spread {
                covered: self.survey.named.clone(),
                own: (0..partition.parts()).map(|place| partition.range(place)).collect(),
            };
            search.run_gang(&residents.collect::<Vec<_>>(), &spread).await?
        } else {
            let residents: Vec<_> = residents.collect();
            host_search::run(context, partition, &residents, (method, hub)).await?
        };
        result.method = Some(method);
        if partition.is_renumbered() {
            let start = Instant::now();
            result.labels = original_labels(partition, &result.labels);
            result.gather_time += start.elapsed();
        }
        Ok(result)
    }
}

/// A graph with the reverses of its arcs added, so that not every arc has to be hooked; the graph itself if
/// GPUs have no room for them, or rows would be too long.
async fn with_both_ways(graph: DistributedGraph) -> Result<(DistributedGraph, Option<Layout>)> {
    match graph.symmetrized().await {
        Ok(both) => {
            let (bytes, time) = (both.bytes() - graph.bytes(), both.renumbering_time());
            Ok((both, Some(Layout { kind: LayoutKind::Transpose, bytes, time })))
        }
        Err(error) if error.is_too_much() => Ok((graph, None)),
        Err(error) => Err(error.into()),
    }
}

/// Whether these are GPUs that merge their trees as a gang.
fn is_gang(context: &Context) -> bool {
    can_meet(context) && context.any_gpu()
}

/// Labels by original id, from roots by new id.
fn original_labels(partition: &Partition, roots: &[u32]) -> Vec<u32> {
    let roots_of = || roots.par_iter().with_min_len(PIECE);
    let smallest: Vec<_> = roots_of().map(|_| AtomicU32::new(u32::MAX)).collect();
    // Relaxed: the parallel loop ends before labels are read.
    roots_of().enumerate().for_each(|(new, &root)| {
        let (label, original) = (&smallest[root as usize], partition.to_original(new as u32));
        // A plain load first: most vertices of a component are not the smallest so far.
        if original < label.load(Ordering::Relaxed) {
            label.fetch_min(original, Ordering::Relaxed);
        }
    });
    partition.restore_with(|new| smallest[roots[new as usize] as usize].load(Ordering::Relaxed))
}
