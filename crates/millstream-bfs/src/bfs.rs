//! The public algorithm: a graph on the devices, and runs on it \[G §4.6.1\].

use std::time::Duration;

use millstream_flow::Context;
use millstream_graph::{CsrGraph, Partition, partition};
use millstream_traversal::{
    Columns, DistributedGraph, Outcome, Result, Settings, UNREACHED, WorklistOptions, run,
};
use millstream_worklist::{Routing, Worker, WorklistStatistics};

use crate::rule::Levels;

/// How a BFS runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BfsOptions {
    /// How packets travel.
    pub routing: Routing,
    /// Last level to reach.
    pub depth_limit: u32,
    /// Whether to find predecessors too; packets are twice as large then.
    pub predecessors: bool,
    /// Steps of the priority threshold \[G §4.4\]; `None` runs everything at once.
    pub delta: Option<u32>,
    /// Whether halo copies keep back what is no improvement \[G §4.5\].
    pub halo_filter: bool,
    /// Bytes of a packet at most.
    pub packet_bytes: usize,
    /// Packet buffers of each link.
    pub buffers: usize,
    /// Entries of each queue; `None` for a device's share of the vertices.
    pub queue_entries: Option<usize>,
    /// Vertices that one kernel processes at most, if the host drives.
    pub batch: u32,
    /// Who drives the worklist.
    pub worker: Worker,
}

impl Default for BfsOptions {
    fn default() -> BfsOptions {
        BfsOptions {
            routing: Routing::Auto,
            depth_limit: UNREACHED,
            predecessors: false,
            delta: Some(32),
            halo_filter: true,
            packet_bytes: 1 << 18,
            buffers: 2,
            queue_entries: None,
            batch: 1 << 18,
            worker: Worker::HostDriven,
        }
    }
}

impl BfsOptions {
    fn worklist(&self) -> WorklistOptions {
        let mut options = WorklistOptions::default();
        options.routing = self.routing;
        options.halo_filter = self.halo_filter;
        options.packet_bytes = self.packet_bytes;
        options.buffers = self.buffers;
        options.queue_entries = self.queue_entries;
        options.batch = self.batch;
        options.worker = self.worker;
        options
    }
}

/// What a BFS found, by original vertex id.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BfsResult {
    /// Arcs from the nearest source; [`UNREACHED`] where there is no path.
    pub levels: Vec<u32>,
    /// The vertex before on such a path; [`UNREACHED`] for sources and where
    /// there is none. `None` unless asked for.
    pub predecessors: Option<Vec<u32>>,
    /// What the devices did.
    pub statistics: WorklistStatistics,
    /// From the first item to the last, values in place and left on the devices.
    pub run_time: Duration,
    /// Bringing the values to the host.
    pub gather_time: Duration,
}

impl BfsResult {
    /// Vertices reached: the work-items that had to be.
    pub fn reached(&self) -> u64 {
        self.levels.iter().filter(|&&level| level != UNREACHED).count() as u64
    }

    /// The last level with a vertex; `None` if nothing was reached.
    pub fn max_level(&self) -> Option<u32> {
        self.levels.iter().copied().filter(|&level| level != UNREACHED).max()
    }
}

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
    options: BfsOptions,
}

impl Bfs {
    /// Uploads a graph in edge-balanced blocks.
    ///
    /// # Errors
    /// No memory on a device.
    pub async fn new(context: &Context, graph: &CsrGraph) -> Result<Bfs> {
        let partition = partition::edge_balanced_blocks(graph, context.devices().len());
        Bfs::with_partition(context, graph, partition).await
    }

    /// Uploads a graph in the parts of `partition`, one for each device.
    ///
    /// # Errors
    /// A partition that does not fit; no memory on a device.
    pub async fn with_partition(
        context: &Context,
        graph: &CsrGraph,
        partition: Partition,
    ) -> Result<Bfs> {
        let graph = DistributedGraph::new(context, graph, partition, Columns::Structure).await?;
        Ok(Bfs { graph, options: BfsOptions::default() })
    }

    /// Sets how later runs go.
    #[must_use]
    pub fn with_options(self, options: BfsOptions) -> Bfs {
        Bfs { options, ..self }
    }

    /// Vertices of the graph.
    pub fn vertices(&self) -> u32 {
        self.graph.vertices()
    }

    /// Searches from `sources`, all at level 0. Runs on one context do not
    /// disturb each other.
    ///
    /// # Errors
    /// A source that is not a vertex; the first cause of any failure below.
    ///
    /// # Cancel safety
    /// Dropping the future stops the devices; the graph stays.
    pub async fn run(&self, sources: &[u32]) -> Result<BfsResult> {
        let BfsOptions { depth_limit, halo_filter, delta, .. } = self.options;
        let limit = depth_limit;
        let settings = Settings { limit, halo_filter: halo_filter.into(), priority_scale: 1.0 };
        let worklist = self.options.worklist();
        let outcome = match self.options.predecessors {
            false => run::<Levels, u32>(&self.graph, sources, settings, delta, &worklist).await?,
            true => run::<Levels, u64>(&self.graph, sources, settings, delta, &worklist).await?,
        };
        let Outcome { keys, predecessors, statistics, run_time, gather_time, .. } = outcome;
        Ok(BfsResult { levels: keys, predecessors, statistics, run_time, gather_time })
    }
}
