//! The public algorithm: a graph on the devices, and runs on it \[G §4.6.1\].

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_device::{DeviceBuffer, SharedBuffer};
use millstream_flow::Context;
use millstream_graph::{CsrGraph, Partition, partition};
use millstream_worklist::{DistributedWorklist, Routing, WorklistStatistics};

use crate::program::{BfsProgram, Problem, UNREACHED, Value};
use crate::{Error, Result};

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
    /// Vertices that one kernel processes at most.
    pub batch: u32,
}

impl Default for BfsOptions {
    fn default() -> BfsOptions {
        BfsOptions {
            routing: Routing::Auto,
            depth_limit: UNREACHED,
            predecessors: false,
            delta: Some(1),
            halo_filter: true,
            packet_bytes: 1 << 18,
            buffers: 2,
            queue_entries: None,
            batch: 1 << 18,
        }
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
    context: Context,
    partition: Partition,
    parts: Vec<Part>,
    options: BfsOptions,
}

/// The rows of one device.
#[derive(Debug)]
struct Part {
    offsets: Arc<DeviceBuffer<u64>>,
    targets: Arc<DeviceBuffer<u32>>,
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
        let devices = context.devices().len();
        if partition.parts() != devices || partition.vertices() != graph.vertices() {
            return Err(Error::Partition {
                vertices: partition.vertices(),
                parts: partition.parts(),
                graph_vertices: graph.vertices(),
                devices,
            });
        }
        let renumbered = partition.renumber(graph);
        let mut parts = Vec::new();
        for (device, range) in context.devices().iter().zip(partition.boundaries().windows(2)) {
            let rows = &renumbered.offsets()[range[0] as usize..=range[1] as usize];
            let arcs = rows[0] as usize..rows[rows.len() - 1] as usize;
            let offsets: Vec<u64> = rows.iter().map(|offset| offset - rows[0]).collect();
            let stream = device.stream()?;
            let offsets = stream.uploaded(offsets)?;
            let targets = stream.uploaded(renumbered.targets()[arcs].to_vec())?;
            stream.record()?.completed().await?;
            parts.push(Part { offsets: Arc::new(offsets), targets: Arc::new(targets) });
        }
        let (context, options) = (context.clone(), BfsOptions::default());
        Ok(Bfs { context, partition, parts, options })
    }

    /// Sets how later runs go.
    #[must_use]
    pub fn with_options(self, options: BfsOptions) -> Bfs {
        Bfs { options, ..self }
    }

    /// Vertices of the graph.
    pub fn vertices(&self) -> u32 {
        self.partition.vertices()
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
        let vertices = self.vertices();
        if let Some(&source_vertex) = sources.iter().find(|&&source| source >= vertices) {
            return Err(Error::SourceOutOfRange { source_vertex, vertices });
        }
        if self.options.predecessors {
            self.search::<u64>(sources).await
        } else {
            self.search::<u32>(sources).await
        }
    }

    async fn search<V: Value>(&self, sources: &[u32]) -> Result<BfsResult> {
        let options = &self.options;
        let boundaries = self.partition.boundaries().to_vec();
        let program = BfsProgram::<V>::new(boundaries, options.depth_limit, options.halo_filter);
        let program = Arc::new(program);
        let sources: Vec<u32> =
            sources.iter().map(|&source| self.partition.to_new(source)).collect();
        let problems = self.problems(&program, &sources).await?;
        let initial: Vec<(usize, u32)> =
            sources.iter().map(|&source| (program.owner_of(source), source)).collect();
        let worklist = DistributedWorklist::new(
            &self.context,
            program,
            problems.clone(),
            self.vertices() as usize,
        );
        let worklist = worklist
            .routing(options.routing)
            .packet_bytes(options.packet_bytes)
            .buffers(options.buffers)
            .batch(options.batch)
            .delta(options.delta);
        let worklist = match options.queue_entries {
            Some(entries) => worklist.queue_entries(entries),
            None => worklist,
        };
        let start = Instant::now();
        let statistics = worklist.run(&initial).await?;
        let run_time = start.elapsed();
        let values = self.gather(&problems).await?;
        let levels: Vec<u32> = values.iter().map(|value| value.level()).collect();
        let predecessors = options.predecessors.then(|| {
            let original = |value: &V| match value.predecessor() {
                UNREACHED => UNREACHED,
                predecessor => self.partition.to_original(predecessor),
            };
            self.partition.restore(values.iter().map(original).collect())
        });
        let levels = self.partition.restore(levels);
        let gather_time = start.elapsed() - run_time;
        Ok(BfsResult { levels, predecessors, statistics, run_time, gather_time })
    }

    /// Values on every device: nobody reached but the sources.
    async fn problems<V: Value>(
        &self,
        program: &BfsProgram<V>,
        sources: &[u32],
    ) -> Result<Vec<Arc<Problem<V>>>> {
        let mut values = vec![V::UNREACHED; self.vertices() as usize];
        for &source in sources {
            values[source as usize] = V::new(0, UNREACHED);
        }
        let initial: Arc<[V]> = values.into();
        let mut problems = Vec::new();
        for (device, part) in self.context.devices().iter().zip(&self.parts) {
            let stream = device.stream()?;
            let values: SharedBuffer<V> = device.shared(initial.len())?;
            stream.upload_shared(Arc::clone(&initial), &values, 0..initial.len())?;
            let boundaries = stream.uploaded(program.boundaries().to_vec())?;
            stream.record()?.completed().await?;
            let (offsets, targets) = (Arc::clone(&part.offsets), Arc::clone(&part.targets));
            let settings = program.settings();
            let problem = Problem { offsets, targets, values, boundaries, settings };
            problems.push(Arc::new(problem));
        }
        Ok(problems)
    }

    /// The owners' values, by new id.
    async fn gather<V: Value>(&self, problems: &[Arc<Problem<V>>]) -> Result<Vec<V>> {
        let mut values = Vec::with_capacity(self.vertices() as usize);
        let ranges = self.partition.boundaries().windows(2);
        for ((device, problem), range) in self.context.devices().iter().zip(problems).zip(ranges) {
            let stream = device.stream()?;
            let owned = range[0] as usize..range[1] as usize;
            values.extend(stream.download_shared(&problem.values, owned)?.await?);
        }
        Ok(values)
    }
}
