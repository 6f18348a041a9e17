//! The public algorithm: components of a graph on the devices, or of a stream of
//! edges.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use futures_util::try_join;
use millstream_device::SharedBuffer;
use millstream_flow::{
    Buffers, Context, Error as FlowError, Graph, LinkStatistics, Sender, first_available,
    tree_reduce,
};
use millstream_graph::{CsrGraph, Partition, partition, source};
use millstream_traversal::{Columns, DistributedGraph};

use crate::kernels::{ASYMMETRY, Edge};
use crate::solver::{Arcs, DeviceStatistics, Resident, Solver};
use crate::{Error, Method, Result};

/// How a search runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CcOptions {
    /// Bytes of a packet at most.
    pub packet_bytes: usize,
    /// Packet buffers of each device and router.
    pub buffers: usize,
}

impl Default for CcOptions {
    fn default() -> CcOptions {
        CcOptions { packet_bytes: 1 << 20, buffers: 2 }
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
    /// What each device did.
    pub devices: Vec<DeviceStatistics>,
    /// What went from one device to another.
    pub links: Vec<LinkStatistics>,
    /// From the first arc to the last merge, labels left on the first device.
    pub run_time: Duration,
    /// Bringing the labels to the host.
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
    method: Method,
    /// The vertex that most arcs leave, by its new id.
    hub: u32,
    options: CcOptions,
}

impl Cc {
    /// Uploads a graph in edge-balanced blocks.
    ///
    /// # Errors
    /// No memory on a device.
    pub async fn new(context: &Context, graph: &CsrGraph) -> Result<Cc> {
        let partition = partition::edge_balanced_blocks(graph, context.devices().len());
        Cc::with_partition(context, graph, partition).await
    }

    /// Uploads a graph in the parts of `partition`, one for each device.
    ///
    /// # Errors
    /// A partition that does not fit; no memory on a device.
    pub async fn with_partition(
        context: &Context,
        graph: &CsrGraph,
        partition: Partition,
    ) -> Result<Cc> {
        let (arcs, hub) = (graph.arcs(), source::max_degree(graph));
        let graph = DistributedGraph::new(context, graph, partition, Columns::Structure).await?;
        let hub = hub.map_or(0, |hub| graph.partition().to_new(hub));
        let method = Method::of(is_symmetric(&graph).await?, graph.vertices(), arcs);
        Ok(Cc { graph, method, hub, options: CcOptions::default() })
    }

    /// Sets how later runs go.
    #[must_use]
    pub fn with_options(self, options: CcOptions) -> Cc {
        Cc { options, ..self }
    }

    /// Finds the components.
    ///
    /// # Errors
    /// The first cause of any failure below.
    ///
    /// # Cancel safety
    /// Dropping the future stops the devices; the graph stays.
    pub async fn run(&self) -> Result<CcResult> {
        let partition = self.graph.partition();
        let search = Search::new(self.graph.context(), partition.vertices(), self.options)?;
        let parts = self.graph.parts().iter().zip(partition.boundaries());
        let (method, hub) = (self.method, self.hub);
        let arcs = parts.map(|(part, &first_vertex)| {
            Arcs::Resident(Resident { part, first_vertex, method, hub })
        });
        let mut result = search.run(arcs.collect(), async { Ok(()) }).await?;
        result.method = Some(method);
        if partition.is_renumbered() {
            result.labels = original_labels(partition, &result.labels);
        }
        Ok(result)
    }

    /// Finds the components of the vertices `0..vertices` and of edges that come
    /// from the host: segments of them go to whichever device is free, through one
    /// router, while the devices hook those that have arrived. So the graph need
    /// not fit in the devices' memory.
    ///
    /// ```
    /// use millstream_cc::{Cc, CcOptions};
    /// use millstream_flow::{Context, Devices};
    ///
    /// let context = Context::builder().devices(Devices::host(2)).build()?;
    /// let edges = [(1, 0), (3, 2), (4, 3)];
    /// let search = Cc::run_streamed(&context, 5, edges, CcOptions::default());
    /// assert_eq!(context.block_on(search)??.labels, [0, 0, 2, 2, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// An edge that names a vertex of `vertices` or more; the first cause of any
    /// failure below.
    ///
    /// # Cancel safety
    /// Dropping the future stops the devices.
    pub async fn run_streamed(
        context: &Context,
        vertices: u32,
        edges: impl IntoIterator<Item = (u32, u32)>,
        options: CcOptions,
    ) -> Result<CcResult> {
        let search = Search::new(context, vertices, options)?;
        let router = search.graph.router::<Edge>(first_available())?;
        let feed = router.sender(context.host())?;
        let arcs = context
            .devices()
            .iter()
            .map(|device| Ok(Arcs::Streamed(router.receiver(device, search.buffers)?)));
        let arcs = arcs.collect::<Result<_, FlowError>>()?;
        let mut fault = None;
        let edges = checked(edges.into_iter(), vertices, &mut fault);
        let feeding = send_edges(feed, edges, search.message_items());
        let result = search.run(arcs, feeding).await?;
        match fault {
            Some(fault) => Err(fault),
            None => Ok(result),
        }
    }
}

/// Whether every arc has its reverse, by fingerprints.
async fn is_symmetric(graph: &DistributedGraph) -> Result<bool> {
    let mut sum = 0u64;
    let devices = graph.context().devices().iter();
    let firsts = graph.partition().boundaries();
    for ((device, part), &first) in devices.zip(graph.parts()).zip(firsts) {
        let (stream, own) = (device.stream()?, device.shared(1)?);
        let arguments = (&*part.offsets, &*part.targets, first, &own);
        ASYMMETRY.launch(&stream, part.offsets.len() - 1, arguments)?;
        let own = stream.download_shared(&own, 0..1)?.await?;
        sum = own.iter().fold(sum, |sum, own| sum.wrapping_add(*own));
    }
    Ok(sum == 0)
}

/// Edges up to the first that is none, which becomes the fault.
fn checked(
    edges: impl Iterator<Item = (u32, u32)>,
    vertices: u32,
    fault: &mut Option<Error>,
) -> impl Iterator<Item = Edge> {
    edges.enumerate().map_while(move |(edge, (from, to))| {
        if from.max(to) < vertices {
            return Some([from, to]);
        }
        let (edge, vertex) = (edge as u64, from.max(to));
        *fault = Some(Error::VertexOutOfRange { edge, vertex, vertices });
        None
    })
}

/// Sends edges segment by segment, each when the one before is assigned.
async fn send_edges(
    mut feed: Sender<Edge>,
    mut edges: impl Iterator<Item = Edge>,
    items: usize,
) -> Result<(), FlowError> {
    loop {
        let segment: Vec<Edge> = edges.by_ref().take(items).collect();
        if segment.is_empty() {
            return feed.shutdown();
        }
        feed.send_all(segment).await?;
    }
}

/// A dataflow graph for one search, and the parents on every device.
struct Search {
    context: Context,
    graph: Graph,
    parents: Vec<SharedBuffer<u32>>,
    buffers: Buffers,
    options: CcOptions,
}

impl Search {
    fn new(context: &Context, vertices: u32, options: CcOptions) -> Result<Search> {
        let buffers = Buffers::bytes(options.packet_bytes).count(options.buffers);
        let devices = context.devices().iter();
        let parents = devices.map(|device| device.shared(vertices as usize));
        let parents = parents.collect::<Result<_, millstream_device::Error>>()?;
        let (context, graph) = (context.clone(), Graph::new(context));
        Ok(Search { context, graph, parents, buffers, options })
    }

    fn message_items(&self) -> usize {
        (self.options.packet_bytes / size_of::<Edge>()).max(1)
    }

    /// Runs all devices, whose arcs are given, and whoever feeds them.
    async fn run(
        self,
        arcs: Vec<Arcs<'_>>,
        feeding: impl Future<Output = Result<(), FlowError>>,
    ) -> Result<CcResult> {
        let message_items = self.message_items();
        let Search { context, graph, parents, buffers, .. } = self;
        let links = graph.statistics();
        let order = context.topology().ring_order();
        let order: Vec<usize> = order.to_vec();
        let devices = context.devices();
        let tree = order.iter().map(|&place| devices[place].clone());
        let merge = graph.router::<Edge>(tree_reduce(tree.collect::<Vec<_>>()))?;
        let mut solvers = Vec::new();
        for (place, (device, arcs)) in devices.iter().zip(arcs).enumerate() {
            let shared_arcs = device.shared(shared_arcs_words(&arcs))?;
            let below = merge.receiver(device, buffers)?;
            let is_first = order.first() == Some(&place);
            let above = (!is_first).then(|| merge.sender(device)).transpose()?;
            let (host, parents) = (context.host().clone(), parents[place].clone());
            let stream = device.stream()?;
            let solver = Solver { host, stream, parents, shared_arcs, message_items };
            solvers.push(solver.run(arcs, below, above));
        }
        let start = Instant::now();
        let search = async { try_join!(feeding, try_join_all(solvers)) };
        let (_, statistics) = graph.run(search).await?;
        let run_time = start.elapsed();
        let first = order.first().copied().unwrap_or(0);
        let stream = devices[first].stream()?;
        let all = 0..parents[first].len();
        let labels = stream.download_shared(&parents[first], all)?.await?;
        let gather_time = start.elapsed() - run_time;
        let (devices, links) = (statistics, links.links());
        Ok(CcResult { labels, method: None, devices, links, run_time, gather_time })
    }
}

/// Room for all rows that are worth sharing: `SharedArcs` in `shared_arcs.cuh`.
fn shared_arcs_words(arcs: &Arcs<'_>) -> usize {
    const MANY: usize = 1024;
    const ENTRY_WORDS: usize = 3;
    match arcs {
        Arcs::Resident(resident) => 1 + resident.part.targets.len() / MANY * ENTRY_WORDS,
        Arcs::Streamed(_) => 0,
    }
}

/// Labels by original id from roots by new id.
fn original_labels(partition: &Partition, roots: &[u32]) -> Vec<u32> {
    let mut smallest = vec![u32::MAX; roots.len()];
    for (new, &root) in roots.iter().enumerate() {
        let label = &mut smallest[root as usize];
        *label = (*label).min(partition.to_original(new as u32));
    }
    partition.restore(roots.iter().map(|&root| smallest[root as usize]).collect())
}
