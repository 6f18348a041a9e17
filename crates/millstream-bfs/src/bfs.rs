//! The public algorithm: a graph on the devices, and runs on it \[G §4.6.1\].

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use millstream_flow::Context;
use millstream_graph::{CsrGraph, DepthProbe, Partition};
use millstream_traversal::internals::{
    Answer, Attempt, NearFar, NearRows, Outcome, Regions, Settings, can_meet, check_kernels_push,
    check_partition, run,
};
use millstream_traversal::{Columns, DegreeOrder, DistributedGraph, Layout, UNREACHED, Unsuitable};

use crate::algorithm::Algorithm;
use crate::hubs::Hubs;
use crate::incoming::Incoming;
use crate::isolated::Isolated;
use crate::level_search::LevelSearch;
use crate::near::{has_many_levels, near_levels, near_rows};
use crate::options::BfsOptions;
use crate::result::BfsResult;
use crate::rule::Levels;
use crate::{Error, Result};

/// A graph spread over the devices of a context, for any number of runs.
///
/// ```
/// use millstream_bfs::Bfs;
/// use millstream_flow::{Context, Devices};
/// use millstream_graph::CsrGraph;
///
/// let context = Context::builder().devices(Devices::host(2)).build()?;
/// let path = CsrGraph::from_edges(4, &[(0, 1), (1, 2)])?;
/// let levels = context.block_on(async {
///     let bfs = Bfs::new(&context, &path).await?;
///     Ok::<_, millstream_bfs::Error>(bfs.run(&[0]).await?.levels)
/// })??;
/// assert_eq!(levels, [0, 1, 2, u32::MAX]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Bfs {
    graph: DistributedGraph,
    regions: Option<Layout>,
    order: Option<DegreeOrder>,
    incoming: Incoming,
    isolated: Isolated,
    /// The packed rows, or why there are none.
    near: Result<NearRows, Unsuitable>,
    hubs: Option<Hubs>,
    /// What the graph's levels are like; not probed if a worklist is asked for.
    depth: DepthProbe,
    options: BfsOptions,
}

impl Bfs {
    /// Uploads a graph in blocks with equally many arcs, to be searched as [`BfsOptions::default`] says. For
    /// several devices with GPUs among them, a mesh whose ids say nothing of where vertices lie is divided into
    /// regions ([`partition::automatic`](millstream_graph::partition::automatic)), as [`Bfs::layouts`] says.
    ///
    /// # Errors
    /// No memory on a device or the host; on GPUs, a vertex of more than 125,000,000 arcs, or more than
    /// 2^32 - 1,024 vertices.
    ///
    /// # Cancel safety
    /// Cancel safe: what was uploaded is dropped.
    pub async fn new(context: &Context, graph: &CsrGraph) -> Result<Bfs> {
        Bfs::with_options(context, graph, BfsOptions::default()).await
    }

    /// As [`Bfs::new`], with options.
    ///
    /// Bottom-up levels need the arcs that enter vertices. A symmetric graph has them already. Those of a
    /// directed graph are made (by the GPUs, or by the host for host devices) and take 4 bytes an arc and
    /// 8 a vertex more. The search only goes top-down if there is no room for them, or if the graph is
    /// [mesh-like](millstream_graph::partition::is_mesh_like) and not [near](DepthProbe::is_near): the
    /// frontiers of such a graph are never large enough.
    ///
    /// The upload finds out whether the graph's levels are thin and many ([`Algorithm::Auto`]); this takes
    /// milliseconds, however large the graph is. On devices that can go level by level, a graph with thin
    /// levels also gets *packed rows* ([`Bfs::layouts`]), which searches by near and far piles read: 16
    /// bytes a vertex if it has at most four arcs a vertex, apart from few longer rows. A graph of up to 256
    /// arcs a vertex, with 4 bytes an arc more, gets them only if its levels are many, too: on GPUs if it is
    /// [deep](DepthProbe::is_deep), or, with at most eight arcs in most rows, unless it is
    /// [near](DepthProbe::is_near); on host devices if it is [chain-like](DepthProbe::is_chain_like). On
    /// several GPUs the graph must be symmetric, and each GPU also gets the rows of a *halo* around its
    /// part: vertices from which up to 64 arcs lead into the part (4 where most rows are longer than
    /// four), at most half as many as the part has.
    /// With a halo a GPU searches many levels before it meets the others. Of host devices the first one
    /// gets all rows.
    ///
    /// On GPUs the vertices of each part of a graph that is neither mesh-like nor
    /// [deep](DepthProbe::is_deep) are put into [degree order](DegreeOrder), in windows of 1,024.
    ///
    /// On GPUs, a graph without packed rows whose levels may be bottom-up gets the *hub* of each vertex, 4
    /// bytes a vertex: the neighbour with the most arcs, which a bottom-up level looks at first. It also
    /// gets a second copy of the longest rows, 4 bytes an arc, in which each GPU has the targets that it
    /// owns: a search from such a vertex begins on all GPUs at once.
    ///
    /// For [`Algorithm::Asynchronous`] nothing is made beside the graph's rows. No layouts are made if the
    /// options are without [layouts](BfsOptions::layouts). Searches whose later
    /// [options](Bfs::set_options) ask for layouts that were not made go without them.
    ///
    /// ```
    /// use millstream_bfs::{Algorithm, Bfs, BfsOptions};
    /// use millstream_flow::{Context, Devices};
    /// use millstream_graph::CsrGraph;
    ///
    /// let context = Context::builder().devices(Devices::host(1)).build()?;
    /// let path = CsrGraph::from_edges(3, &[(0, 1), (1, 0), (1, 2), (2, 1)])?;
    /// for (algorithm, layouts) in [
    ///     (Algorithm::Auto, true),
    ///     (Algorithm::Auto, false),
    ///     (Algorithm::Asynchronous, true),
    /// ] {
    ///     let mut options = BfsOptions::default();
    ///     (options.algorithm, options.layouts) = (algorithm, layouts);
    ///     let bfs = context.block_on(Bfs::with_options(&context, &path, options))??;
    ///     assert_eq!(bfs.layouts().is_empty(), !layouts || algorithm == Algorithm::Asynchronous);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Bfs::new`]; options that have no meaning.
    ///
    /// # Cancel safety
    /// Cancel safe: what was uploaded is dropped.
    pub async fn with_options(
        context: &Context,
        graph: &CsrGraph,
        options: BfsOptions,
    ) -> Result<Bfs> {
        Bfs::boxed_upload(context, graph, None, options).await
    }

    /// As [`Bfs::with_options`], in the parts of `partition`, one for each device.
    ///
    /// # Errors
    /// As [`Bfs::with_options`]; a partition that does not fit.
    ///
    /// # Cancel safety
    /// Cancel safe: what was uploaded is dropped.
    pub async fn with_partition(
        context: &Context,
        graph: &CsrGraph,
        partition: Partition,
        options: BfsOptions,
    ) -> Result<Bfs> {
        Bfs::boxed_upload(context, graph, Some(partition), options).await
    }

    /// Boxed, so that it is compiled once here, not in every crate that calls it.
    fn boxed_upload<'a>(
        context: &'a Context,
        graph: &'a CsrGraph,
        partition: Option<Partition>,
        options: BfsOptions,
    ) -> BoxFuture<'a, Result<Bfs>> {
        Bfs::upload(context, graph, partition, options).boxed()
    }

    async fn upload(
        context: &Context,
        graph: &CsrGraph,
        partition: Option<Partition>,
        options: BfsOptions,
    ) -> Result<Bfs> {
        options.check()?;
        let (partition, regions) = Regions::of(context, graph, partition);
        check_partition(context, graph, &partition)?;
        let algorithm = options.algorithm;
        let depth = match algorithm {
            Algorithm::Asynchronous => DepthProbe::default(),
            _ => DepthProbe::new(graph),
        };
        // Only searches whose devices meet read layouts.
        let meets = algorithm != Algorithm::Asynchronous && can_meet(context);
        let (partition, order) = match meets && options.layouts {
            true => DegreeOrder::of(context, graph, partition, DegreeOrder::SPREAD, Some(depth)),
            false => (partition, None),
        };
        let are_gpus = context.all_gpus();
        let columns = Columns::Structure;
        let distributed = DistributedGraph::new(context, graph, partition, columns).await?;
        let regions = regions.map(|regions| regions.layout(&distributed));
        let (incoming, isolated) = match meets {
            true => Incoming::new(graph, &distributed, depth).await?,
            false => Incoming::none(context, graph).await?,
        };
        let near = near_rows(graph, &distributed, depth, &options).await?;
        let has_hubs = options.layouts && are_gpus && near.is_err();
        let hubs = match incoming.of(&distributed).filter(|_| has_hubs) {
            Some(reversed) => {
                Some(Hubs::new(graph, &distributed, reversed, isolated.connected()).await)
            }
            None => None,
        };
        let hubs = match hubs {
            Some(Err(Error::Traversal(error))) if error.is_too_much() => None,
            hubs => hubs.transpose()?,
        };
        let graph = distributed;
        Ok(Bfs { graph, regions, order, incoming, isolated, near, hubs, depth, options })
    }

    /// How runs go.
    pub fn options(&self) -> &BfsOptions {
        &self.options
    }

    /// Sets how later runs go.
    ///
    /// # Errors
    /// Options that have no meaning; they stay as they were then.
    pub fn set_options(&mut self, options: BfsOptions) -> Result<()> {
        options.check()?;
        self.options = options;
        Ok(())
    }

    /// Vertices of the graph.
    pub fn vertices(&self) -> u32 {
        self.graph.vertices()
    }

    /// The algorithm that runs: never [`Algorithm::Auto`].
    ///
    /// ```
    /// use millstream_bfs::{Algorithm, Bfs};
    /// use millstream_flow::{Context, Devices};
    /// use millstream_graph::CsrGraph;
    ///
    /// let context = Context::builder().devices(Devices::host(2)).build()?;
    /// let star = CsrGraph::from_edges(6, &[(0, 1), (0, 2), (0, 3), (0, 4), (0, 5)])?;
    /// let bfs = context.block_on(Bfs::new(&context, &star))??;
    /// assert_eq!(bfs.algorithm(), Algorithm::LevelSynchronous);
    /// assert_eq!(bfs.algorithm().to_string(), "level-synchronous");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn algorithm(&self) -> Algorithm {
        let context = self.graph.context();
        let meets_often = has_many_levels(context, self.depth) && context.devices().len() > 1;
        match self.options.algorithm {
            Algorithm::Auto if self.near().is_some_and(NearRows::meet_seldom) => Algorithm::NearFar,
            Algorithm::Auto if meets_often || !can_meet(context) => Algorithm::Asynchronous,
            Algorithm::Auto => Algorithm::LevelSynchronous,
            algorithm => algorithm,
        }
    }

    /// The packed rows that searches read.
    fn near(&self) -> Option<&NearRows> {
        self.near.as_ref().ok().filter(|_| self.options.layouts)
    }

    /// What was made for searches beside the graph's rows.
    pub fn layouts(&self) -> Vec<Layout> {
        let order = self.order.map(|order| order.layout(&self.graph));
        let (incoming, near) =
            (self.incoming.layout(), self.near.as_ref().ok().map(NearRows::layout));
        let hubs = self.hubs.as_ref().map(Hubs::layout);
        [self.regions, order, incoming, near, hubs].into_iter().flatten().collect()
    }

    /// Searches from `sources`, all at level 0; without any, all vertices stay unreached. Runs on one
    /// context do not disturb each other.
    ///
    /// # Errors
    /// A source that is not a vertex; devices that cannot go level by level or may not
    /// [push](Context::kernels_push), or a graph without packed rows or
    /// [options](BfsOptions::layouts) not to read them, if what needs that is asked for; the first
    /// cause of any failure below.
    ///
    /// # Cancel safety
    /// Dropping the future stops the devices; the graph stays.
    pub async fn run(&self, sources: &[u32]) -> Result<BfsResult> {
        self.boxed_run(sources).await
    }

    /// As [`Bfs::boxed_upload`].
    fn boxed_run<'a>(&'a self, sources: &'a [u32]) -> BoxFuture<'a, Result<BfsResult>> {
        self.search(sources).boxed()
    }

    async fn search(&self, sources: &[u32]) -> Result<BfsResult> {
        let mut algorithm = self.algorithm();
        let mut delta = self.delta(algorithm);
        let outcome = match algorithm {
            Algorithm::LevelSynchronous => self.by_levels(sources).await?,
            Algorithm::NearFar => match self.by_near_and_far(sources, delta).await? {
                Attempt::Found(outcome) => outcome,
                Attempt::GivenUp(time) => {
                    algorithm = Algorithm::LevelSynchronous;
                    delta = None;
                    self.by_levels(sources).await?.after(time)
                }
            },
            _ => self.asynchronously(sources, delta).await?,
        };
        let Outcome { answer, statistics, run_time, gather_time, .. } = outcome;
        let Answer { keys: levels, predecessors } = answer;
        Ok(BfsResult { levels, predecessors, algorithm, statistics, delta, run_time, gather_time })
    }

    /// The step in levels, if the algorithm has steps.
    fn delta(&self, algorithm: Algorithm) -> Option<u32> {
        let automatic = match algorithm {
            Algorithm::LevelSynchronous => return None,
            Algorithm::NearFar => near_levels(
                self.graph.context().all_gpus(),
                self.near.as_ref().map(NearRows::width).ok(),
            ),
            _ => LEVELS,
        };
        self.options.delta.step(Some(automatic)).map(|levels| levels.ceil() as u32)
    }

    /// The last level to reach.
    fn limit(&self) -> u32 {
        self.options.depth_limit.unwrap_or(UNREACHED)
    }

    async fn asynchronously(&self, sources: &[u32], delta: Option<u32>) -> Result<Outcome> {
        let BfsOptions { worklist, patience, predecessors, .. } = &self.options;
        let (limit, halo_filter) = (self.limit(), worklist.halo_filter.into());
        let settings = Settings { limit, halo_filter, priority_scale: 1.0 };
        let (graph, patience) = (&self.graph, *patience);
        Ok(match predecessors {
            false => {
                run::<Levels, u32>(graph, sources, settings, delta, worklist, patience).await?
            }
            true => run::<Levels, u64>(graph, sources, settings, delta, worklist, patience).await?,
        })
    }

    async fn by_near_and_far(&self, sources: &[u32], delta: Option<u32>) -> Result<Attempt> {
        if !self.options.layouts {
            return Err(Error::NearFarWithoutLayouts);
        }
        check_kernels_push(self.graph.context())?;
        let rows = self.near.as_ref().map_err(|&reason| Error::NotNearFar { reason })?;
        let (graph, limit, grows) = (&self.graph, self.limit(), true);
        let BfsOptions { waiting, patience, .. } = self.options;
        let search = NearFar::<Levels> { graph, rows, limit, delta, grows, waiting, patience };
        Ok(match self.options.predecessors {
            false => search.run::<u32>(sources).await?,
            true => search.run::<u64>(sources).await?,
        })
    }

    async fn by_levels(&self, sources: &[u32]) -> Result<Outcome> {
        check_kernels_push(self.graph.context())?;
        if !can_meet(self.graph.context()) {
            return Err(Error::NotLevelSynchronous);
        }
        let BfsOptions { predecessors, alpha, beta, patience, .. } = self.options;
        let search = LevelSearch {
            graph: &self.graph,
            incoming: self.incoming.of(&self.graph),
            isolated: &self.isolated,
            hubs: self.hubs.as_ref().filter(|_| self.options.layouts),
            depth_limit: self.limit(),
            predecessors,
            alpha: alpha.min(MOST_ALPHA),
            beta,
            patience,
        };
        search.run(&self.graph.sources(sources)?).await
    }
}

/// Larger values matter only for more than 2^25 vertices, and would overflow products of 64 bits.
const MOST_ALPHA: u32 = 1 << 25;

/// The automatic step of the worklist's priority threshold.
const LEVELS: f64 = 32.0;
