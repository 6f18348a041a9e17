//! The public algorithm: components of a graph on the devices, or of a stream of
//! edges.

use std::ops::Range;
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, try_join_all};
use futures_util::{FutureExt, try_join};
use millstream_device::{Device, Error as DeviceError};
use millstream_flow::{
    Buffers, Context, Error as FlowError, Gang, Graph, LinkStatistics, Sender, first_available,
    tree_reduce,
};
use millstream_graph::{CsrGraph, Partition, partition, source};
use millstream_traversal::{Columns, DistributedGraph, Layout};

use crate::hubs::Hubs;
use crate::kernels::{Edge, leaving_words};
use crate::merge::{MOST_DEVICES, Spread, hook_outside_hub, merge};
use crate::solver::{Arcs, DeviceStatistics, Links, Resident, Solver};
use crate::survey::Survey;
use crate::{Error, Method, Result, gang};

/// How a search runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CcOptions {
    /// Bytes of a packet at most.
    pub packet_bytes: usize,
    /// Packet buffers of each device and router.
    pub buffers: usize,
    /// How long GPUs that reach each other's memory wait for each other before a search fails.
    pub patience: Duration,
}

impl Default for CcOptions {
    fn default() -> CcOptions {
        CcOptions { packet_bytes: 1 << 20, buffers: 2, patience: Duration::from_secs(10) }
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
    /// What went from one device to another. Where devices reach each other's memory, a packet is
    /// a pair that one told the other: a vertex and its root.
    pub links: Vec<LinkStatistics>,
    /// From the first arc to the last label, left on the devices.
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
    survey: Survey,
    method: Method,
    /// The vertex that most arcs leave, by its new id.
    hub: u32,
    hubs: Hubs,
    options: CcOptions,
}

impl Cc {
    /// Uploads a graph in edge-balanced blocks.
    ///
    /// # Errors
    /// No memory on a device.
    ///
    /// # Cancel safety
    /// Cancel safe: what was uploaded is dropped.
    pub async fn new(context: &Context, graph: &CsrGraph) -> Result<Cc> {
        let partition = partition::edge_balanced_blocks(graph, context.devices().len());
        Cc::with_partition(context, graph, partition).await
    }

    /// Uploads a graph in the parts of `partition`, one for each device.
    ///
    /// # Errors
    /// A partition that does not fit; no memory on a device.
    ///
    /// # Cancel safety
    /// Cancel safe: what was uploaded is dropped.
    pub async fn with_partition(
        context: &Context,
        graph: &CsrGraph,
        partition: Partition,
    ) -> Result<Cc> {
        Cc::boxed_upload(context, graph, partition).await
    }

    /// Boxed, so that it is compiled here, and not again in each program.
    fn boxed_upload<'a>(
        context: &'a Context,
        graph: &'a CsrGraph,
        partition: Partition,
    ) -> BoxFuture<'a, Result<Cc>> {
        Cc::upload(context, graph, partition).boxed()
    }

    async fn upload(context: &Context, graph: &CsrGraph, partition: Partition) -> Result<Cc> {
        let (columns, whole) = (Columns::Structure, graph);
        let graph = DistributedGraph::new(context, whole, partition, columns).await?;
        let hub = source::max_degree(whole).map_or(0, |hub| graph.partition().to_new(hub));
        let mut survey = Survey::of(&graph).await?;
        let method = Method::of(survey.is_symmetric, graph.vertices(), whole.arcs());
        if method == Method::OutsideHub {
            // Every device asks for its tree.
            survey.name(hub, graph.vertices());
        }
        let hubs = match method == Method::OutsideHub && is_gang(context) {
            true => Hubs::new(whole, &graph).await?,
            false => Hubs::none(&graph)?,
        };
        Ok(Cc { graph, survey, method, hub, hubs, options: CcOptions::default() })
    }

    /// What was made at the upload beside the graph's rows: on GPUs that reach each other's memory,
    /// for graphs of many arcs, the neighbour of each vertex with the most arcs.
    pub fn layouts(&self) -> Vec<Layout> {
        self.hubs.layout().into_iter().collect()
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
        self.boxed_run().await
    }

    /// As [`Cc::boxed_upload`].
    fn boxed_run(&self) -> BoxFuture<'_, Result<CcResult>> {
        self.find().boxed()
    }

    async fn find(&self) -> Result<CcResult> {
        let (context, partition) = (self.graph.context(), self.graph.partition());
        let (method, hub) = (self.method, self.hub);
        let search = Search::new(context, partition.vertices(), self.options)?;
        let parts = self.graph.parts().iter().zip(partition.boundaries()).enumerate();
        let residents = parts.map(|(place, (part, &first_vertex))| {
            let hubs = self.hubs.of(place);
            Resident { part, hubs, first_vertex, method, hub }
        });
        let is_gang = is_gang(context);
        let mut result = if is_gang || are_peers(context) {
            let spread = Spread {
                covered: self.survey.named.clone(),
                own: (0..partition.parts()).map(|place| partition.range(place)).collect(),
            };
            search.run_together(&residents.collect::<Vec<_>>(), &spread, is_gang).await?
        } else {
            search.run(residents.map(Arcs::Resident).collect(), async { Ok(()) }).await?
        };
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
        let arcs = arcs.collect::<Result<Vec<_>, FlowError>>()?;
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

/// Whether these are GPUs that merge their trees as a gang.
fn is_gang(context: &Context) -> bool {
    context.kernels_push() && Gang::is_possible(context)
}

/// Whether these are host devices that merge their trees in each other's memory.
fn are_peers(context: &Context) -> bool {
    let devices = context.devices();
    context.kernels_push()
        && context.topology().all_peers()
        && devices.len() <= MOST_DEVICES
        && !devices.iter().any(Device::is_gpu)
}

/// A dataflow graph for one search.
struct Search {
    context: Context,
    graph: Graph,
    vertices: u32,
    buffers: Buffers,
    options: CcOptions,
}

impl Search {
    fn new(context: &Context, vertices: u32, options: CcOptions) -> Result<Search> {
        let (bytes, item_bytes) = (options.packet_bytes, size_of::<Edge>());
        // Also where nothing goes over a link.
        if bytes < item_bytes {
            return Err(FlowError::PacketTooSmall { bytes, item_bytes }.into());
        }
        if options.buffers == 0 {
            return Err(FlowError::NoBuffers.into());
        }
        let buffers = Buffers::bytes(options.packet_bytes).count(options.buffers);
        let (context, graph) = (context.clone(), Graph::new(context));
        Ok(Search { context, graph, vertices, buffers, options })
    }

    fn message_items(&self) -> usize {
        self.options.packet_bytes / size_of::<Edge>()
    }

    /// Memory of all devices, which have so many resident arcs each; which of them have
    /// what, if they reach each other's; how resident arcs are hooked.
    fn solvers(
        &self,
        arcs: impl Iterator<Item = usize>,
        spread: Option<&Spread>,
        method: Option<Method>,
    ) -> Result<Vec<Solver>> {
        let Search { context, vertices, .. } = self;
        let has_members = spread.is_some() && method == Some(Method::OutsideHub);
        let members = if has_members { vertices.div_ceil(32) as usize } else { 0 };
        let devices = context.devices().iter().zip(arcs).enumerate();
        let solvers = devices.map(|(place, (device, arcs))| {
            let range = |ranges: fn(&Spread) -> &Vec<Range<u32>>| {
                spread.map_or(0..*vertices, |spread| ranges(spread)[place].clone())
            };
            let covered = range(|spread| &spread.covered);
            let has_tiles = method == Some(Method::TowardsSmaller);
            let leaving = if has_tiles { leaving_words(covered.len()) } else { 0 };
            let told = spread.map_or([[0; 2]; MOST_DEVICES], |spread| spread.told(place));
            let most_pairs: usize = told.iter().map(|[start, end]| (end - start) as usize).sum();
            Ok(Solver {
                host: context.host().clone(),
                stream: device.stream()?,
                parents: device.shared(*vertices as usize)?,
                covered,
                own: range(|spread| &spread.own),
                told,
                members: device.shared(members)?,
                // Also their number.
                pairs: device.shared(1 + most_pairs)?,
                shared_arcs: device.shared(shared_arcs_words(arcs))?,
                leaving: device.shared(leaving)?,
                message_items: self.message_items(),
            })
        });
        Ok(solvers.collect::<Result<_, DeviceError>>()?)
    }

    /// Runs all devices, whose arcs are given, and whoever feeds them. What all have found
    /// comes over links to the first device of an order.
    async fn run(
        self,
        arcs: Vec<Arcs<'_>>,
        feeding: impl Future<Output = Result<(), FlowError>>,
    ) -> Result<CcResult> {
        let resident = arcs.iter().map(|arcs| match arcs {
            Arcs::Resident(resident) => resident.part.targets.len(),
            Arcs::Streamed(_) => 0,
        });
        let method = arcs.iter().find_map(|arcs| match arcs {
            Arcs::Resident(resident) => Some(resident.method),
            Arcs::Streamed(_) => None,
        });
        let solvers = self.solvers(resident, None, method)?;
        let Search { context, graph, buffers, .. } = self;
        let statistics = graph.statistics();
        let order = context.topology().ring_order();
        let links = links(&graph, context.devices(), &order, buffers)?;
        let first = order.first().copied().unwrap_or(0);
        let first = &solvers[first..=first];
        let start = Instant::now();
        let tasks = solvers.iter().zip(arcs).zip(links);
        let tasks = tasks.map(|((solver, arcs), links)| solver.run(arcs, links));
        let search = async {
            let (_, statistics) = try_join!(feeding, try_join_all(tasks))?;
            completed(first).await?;
            Ok::<_, FlowError>(statistics)
        };
        let devices = graph.run(search).await?;
        let run_time = start.elapsed();
        let mut result = gathered(first, devices, run_time).await?;
        result.links = statistics.links();
        for (device, its) in context.devices().iter().zip(&mut result.devices) {
            let links = result.links.iter().filter(|link| link.from == device.name());
            its.sent = links.map(|link| link.bytes).sum::<u64>() / size_of::<Edge>() as u64;
        }
        Ok(result)
    }

    /// Runs resident rows of devices that reach each other's memory, GPUs as a gang.
    async fn run_together(
        self,
        residents: &[Resident<'_>],
        spread: &Spread,
        is_gang: bool,
    ) -> Result<CcResult> {
        let arcs = residents.iter().map(|resident| resident.part.targets.len());
        let method = residents.first().map(|its| its.method);
        if is_gang {
            self.context.wake_links()?;
        }
        let solvers = self.solvers(arcs.clone(), Some(spread), method)?;
        let run_time = if is_gang {
            gang::run(&self.context, self.options.patience, &solvers, residents).await?
        } else {
            let start = Instant::now();
            if method == Some(Method::OutsideHub) {
                hook_outside_hub(&solvers, residents).await?;
            } else {
                let mut all = solvers.iter().zip(residents);
                all.try_for_each(|(solver, its)| solver.hook_rows(&solver.stream, its))?;
            }
            merge(&solvers, residents.first().map_or(0, |resident| resident.hub))?;
            completed(&solvers).await?;
            start.elapsed()
        };
        let mut told = Vec::new();
        for Solver { stream, pairs, .. } in &solvers {
            told.extend(stream.download_shared(pairs, 0..1)?.await?);
        }
        let all: u64 = told.iter().sum();
        let others = (solvers.len() as u64).saturating_sub(1);
        let devices = arcs.zip(&told).map(|(arcs, own)| {
            let merged = all - own;
            DeviceStatistics { hooked: arcs as u64, merged, sent: own * others, received: merged }
        });
        let mut result = gathered(&solvers, devices.collect(), run_time).await?;
        result.links = links_of_pairs(self.context.devices(), &told);
        Ok(result)
    }
}

async fn completed(solvers: &[Solver]) -> Result<(), FlowError> {
    for solver in solvers {
        solver.stream.record()?.completed().await?;
    }
    Ok(())
}

/// The labels that devices have left.
async fn gathered(
    labelling: &[Solver],
    devices: Vec<DeviceStatistics>,
    run_time: Duration,
) -> Result<CcResult> {
    let start = Instant::now();
    let mut labels = Vec::new();
    for Solver { stream, parents, own, .. } in labelling {
        let own = own.start as usize..own.end as usize;
        let arriving = stream.download_shared(parents, own)?;
        arriving.append_to(&mut labels, |label| label).await?;
    }
    let gather_time = start.elapsed();
    Ok(CcResult { labels, method: None, devices, links: Vec::new(), run_time, gather_time })
}

/// What went from device to device where each has told all others so many pairs.
fn links_of_pairs(devices: &[Device], told: &[u64]) -> Vec<LinkStatistics> {
    let mut links = Vec::new();
    for (from, &pairs) in devices.iter().zip(told) {
        for to in devices.iter().filter(|to| to.name() != from.name()) {
            let link = LinkStatistics::new(from.name(), to.name());
            links.push(link.pushed(pairs, size_of::<Edge>() as u64));
        }
    }
    links
}

/// Links along a tree of devices.
fn links(
    graph: &Graph,
    devices: &[Device],
    order: &[usize],
    buffers: Buffers,
) -> Result<Vec<Links>> {
    let tree = order.iter().map(|&place| devices[place].clone());
    let router = graph.router::<Edge>(tree_reduce(tree.collect::<Vec<_>>()))?;
    let link = |(place, device): (usize, &Device)| {
        let is_first = order.first() == Some(&place);
        let above = (!is_first).then(|| router.sender(device)).transpose()?;
        Ok(Links { below: router.receiver(device, buffers)?, above })
    };
    devices.iter().enumerate().map(link).collect()
}

/// Room for all rows that are worth sharing: `SharedArcs` in `shared_arcs.cuh`.
fn shared_arcs_words(arcs: usize) -> usize {
    const MANY: usize = 1024;
    const ENTRY_WORDS: usize = 3;
    1 + arcs / MANY * ENTRY_WORDS
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
