//! PageRank by full sweeps: every vertex pulls its predecessors' shares.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_device::{CudaSource, DeviceBuffer, HostData, Stream};
use millstream_flow::{Context, LinkStatistics};
use millstream_graph::pieces::InPieces;
use millstream_graph::{CsrGraph, Partition, RowIndex, partition};
use millstream_traversal::internals::{Entering, can_meet, on_each_device};
use millstream_traversal::{Columns, Layout, LayoutKind};
use millstream_worklist::{DeviceStatistics, WorklistStatistics};
use rayon::prelude::*;

use crate::askers::{Askers, Named};
use crate::gpu_slices::GpuSlices;
use crate::halo::{Halo, Places};
use crate::real::Real;
use crate::share::{by_new_id, row_weights};
use crate::sliced_rows::SlicedRows;
use crate::slices::{Slices, rows_of, sorted};
use crate::sweep::{Settings, share};
use crate::{
    Algorithm, Error, PageRankOptions, PageRankResult, Result, gang_sweeps, gpu_slices, halo,
    host_sweeps, linked_sweeps, sweep,
};

/// The graph on the devices, in rows of incoming arcs.
#[derive(Debug)]
pub(crate) struct PullGraph<R: Real> {
    pub(crate) context: Context,
    pub(crate) partition: Partition,
    pub(crate) parts: Vec<PullPart<R>>,
    /// The weight of all arcs that leave each vertex, by new id.
    pub(crate) row_weights: Vec<f64>,
    /// The rank of all dangling vertices together, when all vertices have the same rank.
    pub(crate) dangling: f64,
    /// How long making it took.
    time: Duration,
}

/// See [`crate::slices`].
#[derive(Debug)]
pub(crate) struct PullPart<R: Real> {
    pub(crate) offsets: Arc<DeviceBuffer<u64>>,
    /// The sources of arcs, by the places of their shares on the device.
    pub(crate) sources: Arc<DeviceBuffer<u32>>,
    pub(crate) weights: Arc<DeviceBuffer<R>>,
    pub(crate) row_weights: Arc<DeviceBuffer<R>>,
    /// The shares of all vertices when all ranks are equal; empty unless the device has the shares of all.
    pub(crate) even: Arc<DeviceBuffer<R::Bits>>,
    /// See [`Askers::of_items`]; empty unless several devices form a gang.
    pub(crate) askers: Arc<DeviceBuffer<u32>>,
    /// How many of this part's shares each device is told after a sweep, or reads where they lie.
    pub(crate) told: Vec<u64>,
    /// Which of this part's shares each device is told over links.
    pub(crate) tells: Vec<Halo>,
    /// The list of rows that `tells` refers to.
    pub(crate) told_rows: Arc<DeviceBuffer<u32>>,
    /// The places of shares on this device: of those of all vertices, unless it is told over links.
    pub(crate) places: Places,
    /// How many rows all blocks of a GPU share.
    pub(crate) shared_rows: u32,
    block_rows: u32,
    long_rows: u32,
    wide_slices: u32,
}

/// How devices learn the shares of other devices' vertices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exchange {
    /// Each GPU has the shares of all vertices, and the others write theirs into it.
    Gang,
    /// The first host device has the shares of all vertices, which all devices use.
    Common,
    /// Packets bring the shares that rows ask for.
    Links,
}

impl Exchange {
    pub(crate) fn of(context: &Context) -> Exchange {
        match (can_meet(context), context.all_gpus()) {
            (false, _) => Exchange::Links,
            (true, true) => Exchange::Gang,
            (true, false) => Exchange::Common,
        }
    }
}

impl<R: Real> PullGraph<R> {
    /// Uploads a graph in the parts of `partition`, or in blocks that equally many arcs enter. The GPUs of a
    /// gang make their slices themselves.
    pub(crate) async fn new(
        context: &Context,
        graph: &CsrGraph,
        partition: Option<&Partition>,
        is_weighted: bool,
    ) -> Result<PullGraph<R>> {
        let (start, exchange) = (Instant::now(), Exchange::of(context));
        let parts_of = |entering: &RowIndex| {
            let balanced = || partition::edge_balanced_blocks(entering, context.devices().len());
            let partition = partition.cloned().unwrap_or_else(balanced);
            sorted(&partition, graph, entering)
        };
        let (partition, rows) = match exchange {
            Exchange::Gang => match of_gpus(context, graph, &parts_of, is_weighted).await {
                // Slices made by the host need less GPU memory, and may have rows of any length.
                Err(Error::Traversal(error)) if error.is_too_much() => {
                    of_host(context, graph, parts_of, is_weighted)?
                }
                made => made?,
            },
            Exchange::Common | Exchange::Links => of_host(context, graph, parts_of, is_weighted)?,
        };
        let row_weights = by_new_id(&partition, &row_weights(graph, is_weighted));
        let host = HostGraph::new(&partition, &row_weights, &rows, exchange);
        let upload = |place, stream: &Stream, rows| host.upload(stream, place, rows);
        let mut parts = on_each_device(context, rows, upload).await?;
        if exchange == Exchange::Links {
            upload_halos(context, &partition, &mut parts).await?;
        }
        let dangling = row_weights.par_iter().in_pieces().filter(|&&weight| weight == 0.0).count();
        let dangling = dangling as f64 / row_weights.len() as f64;
        let (context, time) = (context.clone(), start.elapsed());
        Ok(PullGraph { context, partition, parts, row_weights, dangling, time })
    }

    /// What the rows in slices have cost.
    pub(crate) fn layout(&self) -> Layout {
        let bytes = |part: &PullPart<R>| {
            let words = part.sources.len() + part.askers.len() + part.told_rows.len();
            let reals = part.weights.len() + part.row_weights.len() + part.even.len();
            part.offsets.len() * size_of::<u64>()
                + words * size_of::<u32>()
                + reals * size_of::<R>()
        };
        let bytes = self.parts.iter().map(bytes).sum::<usize>() as u64;
        Layout { kind: LayoutKind::SlicedRows, bytes, time: self.time }
    }

    /// Sweeps until the change is small enough.
    pub(crate) async fn run(&self, options: &PageRankOptions) -> Result<PageRankResult> {
        match Exchange::of(&self.context) {
            _ if options.max_iterations == 0 => Ok(self.unswept()),
            Exchange::Links => linked_sweeps::run(self, options).await,
            Exchange::Gang => gang_sweeps::run(self, options).await,
            Exchange::Common => host_sweeps::run(self, options).await,
        }
    }

    /// The result without any sweep: all ranks are equal.
    fn unswept(&self) -> PageRankResult {
        let vertices = self.row_weights.len();
        PageRankResult {
            ranks: vec![1.0 / vertices as f64; vertices],
            algorithm: Algorithm::Pull,
            iterations: 0,
            change: f64::INFINITY,
            converged: false,
            statistics: self.swept(0, Vec::new()),
            run_time: Duration::ZERO,
            gather_time: Duration::ZERO,
        }
    }

    /// What `iterations` sweeps came to, of which the last has changed ranks by `change`, and which took
    /// these times to run and to gather.
    pub(crate) fn result(
        &self,
        options: &PageRankOptions,
        ranks: Vec<f64>,
        (iterations, change): (u32, f64),
        links: Vec<LinkStatistics>,
        [run_time, gather_time]: [Duration; 2],
    ) -> PageRankResult {
        PageRankResult {
            ranks,
            algorithm: Algorithm::Pull,
            iterations,
            change,
            converged: change <= options.tolerance,
            statistics: self.swept(iterations, links),
            run_time,
            gather_time,
        }
    }

    /// The work of each device in `sweeps` sweeps, and the shares that it has told others.
    pub(crate) fn swept(&self, sweeps: u32, links: Vec<LinkStatistics>) -> WorklistStatistics {
        let sweeps = u64::from(sweeps);
        let told = |from: usize, to: usize| self.parts[from].told[to];
        let of = |place| {
            let others = || (0..self.parts.len()).filter(move |&other| other != place);
            let mut device = DeviceStatistics::default();
            device.work_items = self.own(place).len() as u64 * sweeps;
            device.sent = others().map(|to| told(place, to)).sum::<u64>() * sweeps;
            device.received = others().map(|from| told(from, place)).sum::<u64>() * sweeps;
            device.kept = device.received;
            device
        };
        let mut statistics = WorklistStatistics::default();
        statistics.devices = (0..self.parts.len()).map(of).collect();
        statistics.links = links;
        statistics
    }

    /// The vertices of a device.
    pub(crate) fn own(&self, place: usize) -> Range<usize> {
        let own = self.partition.range(place);
        own.start as usize..own.end as usize
    }

    /// Whether all rows are in slices and no arcs have weights.
    pub(crate) fn is_plain(&self) -> bool {
        self.parts.iter().all(|part| part.long_rows == 0 && part.weights.is_empty())
    }

    /// Settings of a sweep on a device; `dangling` is the rank of all dangling vertices together.
    pub(crate) fn settings(
        &self,
        place: usize,
        options: &PageRankOptions,
        dangling: f64,
    ) -> Settings {
        let part = &self.parts[place];
        Settings {
            damping: options.damping,
            base: self.base(options)(dangling),
            first_vertex: part.places.of_own(self.partition.range(place)),
            shared_rows: part.shared_rows,
            block_rows: part.block_rows,
            long_rows: part.long_rows,
            wide_slices: part.wide_slices,
            padding: 0,
        }
    }

    /// The rank that every vertex gets from teleports (if these lead anywhere) and from dangling vertices, as
    /// a function of the rank of all dangling vertices together.
    pub(crate) fn base(
        &self,
        options: &PageRankOptions,
    ) -> impl Fn(f64) -> f64 + Send + Sync + use<R> {
        let (damping, vertices) = (options.damping, f64::from(self.partition.vertices()));
        let nowhere = if options.personalization.is_empty() { 1.0 - damping } else { 0.0 };
        move |dangling| (nowhere + damping * dangling) / vertices
    }

    /// The shares at the start, when all ranks are equal, in the places of a device.
    pub(crate) fn even_shares(&self, places: &Places) -> Vec<R> {
        places.vertices().map(even_share(&self.row_weights)).collect()
    }
}

/// The rows of a part, made by the host or by the part's GPU.
enum Rows<R: Real> {
    Host(SlicedRows<R>),
    Gpu(GpuSlices<R>),
}

impl<R: Real> Rows<R> {
    fn slices(&self) -> &Slices {
        match self {
            Rows::Host(rows) => &rows.slices,
            Rows::Gpu(rows) => &rows.slices,
        }
    }

    fn named(&self) -> Named<'_> {
        match self {
            Rows::Host(rows) => Named::Sources(&rows.sources),
            Rows::Gpu(rows) => Named::Bits(&rows.asked),
        }
    }
}

/// Rows that GPUs make after the upload of all arcs, and the order of the vertices.
async fn of_gpus<R: Real>(
    context: &Context,
    graph: &CsrGraph,
    parts_of: impl Fn(&RowIndex) -> Partition,
    is_weighted: bool,
) -> Result<(Partition, Vec<Rows<R>>)> {
    let columns = if is_weighted { Columns::Weighted } else { Columns::Structure };
    let upload = Entering::upload::<Error>(context, graph, parts_of, columns);
    let Entering { rows, degrees, .. } = upload.await?;
    let slices = gpu_slices::on_gpus(&rows, &degrees).await?;
    Ok((rows.into_partition(), slices.into_iter().map(Rows::Gpu).collect()))
}

/// Rows that the host makes.
fn of_host<R: Real>(
    context: &Context,
    graph: &CsrGraph,
    parts_of: impl Fn(&RowIndex) -> Partition,
    is_weighted: bool,
) -> Result<(Partition, Vec<Rows<R>>)> {
    let entering = transposed(graph, is_weighted)?;
    let partition = parts_of(&entering.row_index());
    let rows = |place| Rows::Host(SlicedRows::new(&entering, &partition, place, is_weighted));
    let rows = (0..context.devices().len()).map(rows).collect();
    Ok((partition, rows))
}

/// The transpose, with weights only if they count. For a symmetric graph, the graph
/// itself.
fn transposed(graph: &CsrGraph, is_weighted: bool) -> Result<Cow<'_, CsrGraph>> {
    Ok(match is_weighted {
        true if graph.is_symmetric_with_weights() => Cow::Borrowed(graph),
        true => Cow::Owned(graph.transposed()?),
        false if graph.is_symmetric() => Cow::Borrowed(graph),
        false => Cow::Owned(graph.transposed_structure()?),
    })
}

/// What parts are made from, beside their rows.
struct HostGraph<'a, R: Real> {
    partition: &'a Partition,
    row_weights: &'a [f64],
    exchange: Exchange,
    /// The shares of all vertices when all ranks are equal; empty if links tell shares.
    even: Arc<Vec<R::Bits>>,
    /// `None` if there is only one device, or if links tell shares.
    askers: Option<Askers>,
}

impl<'a, R: Real> HostGraph<'a, R> {
    fn new(
        partition: &'a Partition,
        row_weights: &'a [f64],
        rows: &[Rows<R>],
        exchange: Exchange,
    ) -> HostGraph<'a, R> {
        let even = match exchange {
            Exchange::Links => Arc::default(),
            _ => {
                let even = even_share::<R>(row_weights);
                let vertices = (0..partition.vertices()).into_par_iter().in_pieces();
                Arc::new(vertices.map(|vertex| even(vertex).to_bits()).collect())
            }
        };
        let is_asked = rows.len() > 1 && exchange != Exchange::Links;
        let askers = is_asked.then(|| Askers::new(rows.iter().map(Rows::named), partition));
        HostGraph { partition, row_weights, exchange, even, askers }
    }

    /// A part, ready when the work given to the stream is done. It tells nothing over links yet.
    fn upload(&self, stream: &Stream, place: usize, rows: Rows<R>) -> Result<PullPart<R>> {
        let partition = self.partition;
        let own = partition.range(place);
        let row_weights = &self.row_weights[own.start as usize..own.end as usize];
        let row_weights = row_weights.par_iter().in_pieces().map(|&it| R::from_f64(it)).collect();
        let slices = rows.slices();
        let (askers, told) = match (&self.askers, self.exchange) {
            (None, _) => (Vec::new(), vec![0; partition.parts()]),
            (Some(askers), Exchange::Gang) => {
                let askers = askers.of_items(slices, partition, place);
                let told = told(&askers, slices, own.len(), partition.parts());
                (askers, told)
            }
            (Some(askers), _) => (Vec::new(), askers.of_rows(partition, place)),
        };
        let has_all = self.exchange == Exchange::Gang || place == 0;
        let even = if has_all { Arc::clone(&self.even) } else { Arc::default() };
        let &Slices { shared_rows, block_rows, long_rows, wide_slices, .. } = slices;
        let (offsets, sources, weights, places) = match rows {
            Rows::Gpu(rows) => {
                let places = Places::of_all(partition);
                (rows.offsets, rows.sources, rows.weights, places)
            }
            Rows::Host(rows) => {
                let places = match self.exchange {
                    Exchange::Links => Places::new(&rows.sources, partition, place),
                    Exchange::Gang | Exchange::Common => Places::of_all(partition),
                };
                let sources = places.of_sources(rows.sources, partition.vertices());
                let (sources, weights) = (lent(stream, sources)?, lent(stream, rows.weights)?);
                (lent(stream, rows.slices.offsets)?, sources, weights, places)
            }
        };
        Ok(PullPart {
            offsets,
            sources,
            weights,
            row_weights: lent(stream, row_weights)?,
            even: Arc::new(stream.lent(HostData::shared(even))?),
            askers: lent(stream, askers)?,
            told,
            tells: Vec::new(),
            told_rows: lent(stream, Vec::new())?,
            places,
            shared_rows,
            block_rows,
            long_rows,
            wide_slices,
        })
    }
}

/// How many of a part's `own` rows each device is told: all rows of each item of which it is an asker.
fn told(askers: &[u32], slices: &Slices, own: usize, devices: usize) -> Vec<u64> {
    let told = |device: usize| {
        let asked = askers.iter().enumerate().filter(|(_, its)| *its >> device & 1 != 0);
        let of = |(item, _)| rows_of(item, slices.long_rows as usize, own).len() as u64;
        asked.map(of).sum()
    };
    (0..devices).map(told).collect()
}

/// Sets up what devices tell each other over links: each device the shares of its vertices that the
/// rows of each other device ask for.
async fn upload_halos<R: Real>(
    context: &Context,
    partition: &Partition,
    parts: &mut [PullPart<R>],
) -> Result<()> {
    let others: Vec<_> = parts.iter().map(|part| part.places.clone()).collect();
    let upload = |place, stream: &Stream, part: &mut PullPart<R>| -> Result<()> {
        let (own, mut rows) = (partition.range(place), Vec::new());
        let tells = others.iter().map(|other| Halo::new(&own, other.asked_of(place), &mut rows));
        part.tells = tells.collect();
        part.told_rows = lent(stream, rows)?;
        part.told = part.tells.iter().map(|halo| halo.len() as u64).collect();
        Ok(())
    };
    on_each_device(context, parts, upload).await?;
    Ok(())
}

/// The share of a vertex when all ranks are equal.
fn even_share<R: Real>(row_weights: &[f64]) -> impl Fn(u32) -> R + Sync {
    let even = 1.0 / row_weights.len() as f64;
    move |vertex| R::from_f64(share(even, row_weights[vertex as usize]))
}

fn lent<T: millstream_device::Pod + Send + Sync>(
    stream: &Stream,
    items: Vec<T>,
) -> millstream_device::Result<Arc<DeviceBuffer<T>>> {
    stream.lent(items).map(Arc::new)
}

/// The CUDA C++ of single sweeps, of a gang's sweeps and of halos, each with the kernels of both types,
/// and of slices, for compiling without running.
pub(crate) fn cuda_sources() -> Vec<CudaSource> {
    let sweeps = [false, true].map(sweep::cuda_source).into_iter();
    let gangs = [(true, false), (true, true), (false, false), (false, true)];
    let gangs = gangs.map(|(is_plain, is_double)| gang_sweeps::cuda_source(is_plain, is_double));
    let halo = halo::cuda_source("pack_f32");
    sweeps.chain(gangs).chain([halo]).chain(gpu_slices::cuda_sources()).collect()
}

/// A graph on `devices` host devices, in blocks, with links between them or without.
#[cfg(test)]
pub(crate) fn on_host_devices(
    graph: &CsrGraph,
    devices: usize,
    with_links: bool,
) -> (Context, PullGraph<f32>) {
    let mut builder = Context::builder().devices(millstream_flow::Devices::host(devices));
    if with_links {
        builder = builder.transfer(millstream_device::TransferWay::Copy);
    }
    let context = builder.build().unwrap();
    let parts = millstream_graph::partition::edge_balanced_blocks(graph, devices);
    let pull = PullGraph::new(&context, graph, Some(&parts), false);
    let pull = context.block_on(pull).unwrap().unwrap();
    (context, pull)
}
