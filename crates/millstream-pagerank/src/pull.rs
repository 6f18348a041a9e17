//! Full sweeps over all devices: each pulls for its own vertices, then tells the
//! others what they give.

use std::sync::Arc;

use futures_util::future::try_join_all;
use millstream_device::{Device, DeviceBuffer, Kernel, SharedBuffer, Stream};
use millstream_flow::{
    Buffers, Context, Error as FlowError, Graph, LinkStatistics, Receiver, Sender,
};
use millstream_graph::{CsrGraph, Partition, Weights};

use crate::pagerank::Ranks;
use crate::real::Real;
use crate::share::{by_new_id, inverse_row_weights, teleport};
use crate::sweep::{REPORT, Settings, Signature, TOTALS, kernel};
use crate::{PageRankOptions, Result};

/// Rows of this many arcs are a warp's, not a thread's.
const WARP_ROW: u64 = 8;
/// Rows of this many arcs are a block's, not a warp's.
const BLOCK_ROW: u64 = 2048;

/// The graph on the devices, every row with the arcs that come in.
#[derive(Debug)]
pub(crate) struct PullGraph<R: Real> {
    context: Context,
    partition: Partition,
    parts: Vec<PullPart<R>>,
    inverse_row_weights: Vec<f64>,
}

#[derive(Debug)]
struct PullPart<R: Real> {
    offsets: Arc<DeviceBuffer<u64>>,
    sources: Arc<DeviceBuffer<u32>>,
    weights: Arc<DeviceBuffer<R>>,
    order: Arc<DeviceBuffer<u32>>,
    inverse: Arc<DeviceBuffer<R>>,
    first_warp_row: u32,
    first_block_row: u32,
    arcs: usize,
}

impl<R: Real> PullGraph<R> {
    /// Uploads the graph, whose arcs `transposed` has the other way round, in the
    /// parts of `partition`.
    pub(crate) async fn new(
        context: &Context,
        graph: &CsrGraph,
        transposed: &CsrGraph,
        partition: Partition,
        is_weighted: bool,
    ) -> Result<PullGraph<R>> {
        let inverse_row_weights = by_new_id(&partition, &inverse_row_weights(graph, is_weighted));
        let renumbered = partition.is_renumbered().then(|| partition.renumber(transposed));
        let rows_of = renumbered.as_ref().unwrap_or(transposed);
        let mut parts = Vec::new();
        for (place, device) in context.devices().iter().enumerate() {
            let own = partition.range(place);
            let rows = &rows_of.offsets()[own.start as usize..=own.end as usize];
            let arcs = rows[0] as usize..rows[rows.len() - 1] as usize;
            let weights = match rows_of.weights().filter(|_| is_weighted) {
                None => Vec::new(),
                Some(Weights::Integer(weights)) => real::<R, _>(&weights[arcs.clone()]),
                Some(Weights::Real(weights)) => real::<R, _>(&weights[arcs.clone()]),
            };
            let (order, first_warp_row, first_block_row) = by_length(rows);
            let inverse = &inverse_row_weights[own.start as usize..own.end as usize];
            let stream = device.stream()?;
            parts.push(PullPart {
                arcs: arcs.len(),
                offsets: uploaded(&stream, rows.iter().map(|offset| offset - rows[0]))?,
                sources: uploaded(&stream, rows_of.targets()[arcs].iter().copied())?,
                weights: uploaded(&stream, weights.into_iter())?,
                order: uploaded(&stream, order.into_iter())?,
                inverse: uploaded(&stream, inverse.iter().map(|&value| R::from_f64(value)))?,
                first_warp_row,
                first_block_row,
            });
            stream.record()?.completed().await?;
        }
        Ok(PullGraph { context: context.clone(), partition, parts, inverse_row_weights })
    }

    pub(crate) fn partition(&self) -> &Partition {
        &self.partition
    }

    /// Sweeps until the change is small enough.
    pub(crate) async fn run(&self, options: &PageRankOptions) -> Result<Ranks> {
        let graph = Graph::new(&self.context);
        let links = graph.statistics();
        let mut workers = self.workers(&graph, options).await?;
        let vertices = f64::from(self.partition.vertices());
        let dangling = self.inverse_row_weights.iter().filter(|&&inverse| inverse == 0.0).count();
        let mut dangling = dangling as f64 / vertices;
        let PageRankOptions { damping, tolerance, max_iterations, .. } = *options;
        let start = std::time::Instant::now();
        let sweeps = async {
            let (mut iterations, mut delta) = (0, f64::INFINITY);
            while delta > tolerance && iterations < max_iterations {
                let base = damping * dangling / vertices;
                let sweeps = workers.iter_mut().map(|worker| worker.sweep(damping, base));
                let sums = try_join_all(sweeps).await?;
                delta = sums.iter().map(|(change, _)| change).sum();
                dangling = sums.iter().map(|(_, dangling)| dangling).sum();
                iterations += 1;
            }
            let run_time = start.elapsed();
            let mut ranks = Vec::new();
            for worker in &workers {
                let own = worker.stream.download(&worker.ranks)?.await?;
                ranks.extend(own.into_iter().map(R::to_f64));
            }
            let ends = workers.drain(..).map(Worker::shut_down);
            try_join_all(ends).await?;
            Ok::<_, FlowError>((ranks, iterations, delta, run_time))
        };
        let (ranks, iterations, delta, run_time) = graph.run(sweeps).await?;
        let gather_time = start.elapsed() - run_time;
        let links: Vec<LinkStatistics> = links.links();
        let converged = delta <= tolerance;
        Ok(Ranks {
            ranks,
            iterations,
            delta,
            converged,
            links,
            devices: Vec::new(),
            run_time,
            gather_time,
        })
    }

    /// Everything that changes in a run: ranks start even.
    async fn workers(
        &self,
        graph: &Graph,
        options: &PageRankOptions,
    ) -> Result<Vec<Worker<'_, R>>> {
        let devices = self.context.devices();
        let mut ends: Vec<_> = devices.iter().map(|_| (Vec::new(), Vec::new())).collect();
        let buffers = Buffers::bytes(options.worklist.packet_bytes).count(options.worklist.buffers);
        for from in 0..devices.len() {
            for to in (0..devices.len()).filter(|&to| to != from) {
                let (sender, receiver) = graph.link(&devices[from], &devices[to], buffers)?;
                ends[from].0.push(sender);
                ends[to].1.push((from, receiver));
            }
        }
        let vertices = self.partition.vertices() as usize;
        let even = 1.0 / vertices as f64;
        let gives: Vec<R> = self
            .inverse_row_weights
            .iter()
            .map(|inverse| R::from_f64(options.damping * even * inverse))
            .collect();
        let teleport = teleport(&self.partition, options);
        let mut workers = Vec::new();
        for ((place, device), (outputs, inputs)) in devices.iter().enumerate().zip(ends) {
            let own = self.partition.range(place);
            let own = own.start as usize..own.end as usize;
            let stream = device.stream()?;
            let teleport =
                teleport[own.clone()].iter().map(|p| R::from_f64((1.0 - options.damping) * p));
            let teleport = stream.uploaded(teleport.collect::<Vec<R>>())?;
            let ranks = stream.uploaded(vec![R::from_f64(even); own.len()])?;
            let gives = [stream.uploaded(gives.clone())?, device.buffer(vertices)?];
            stream.record()?.completed().await?;
            workers.push(Worker {
                part: &self.parts[place],
                kernel: kernel::<R>(),
                partition: &self.partition,
                own,
                outputs,
                inputs,
                teleport,
                ranks,
                gives,
                totals: device.shared(TOTALS)?,
                report: self.host().shared(REPORT)?,
                stream,
            });
        }
        Ok(workers)
    }

    fn host(&self) -> &Device {
        self.context.host()
    }
}

/// One device in a run.
struct Worker<'a, R: Real> {
    part: &'a PullPart<R>,
    kernel: Kernel<Signature<R>>,
    partition: &'a Partition,
    own: std::ops::Range<usize>,
    outputs: Vec<Sender<R>>,
    inputs: Vec<(usize, Receiver<R>)>,
    stream: Stream,
    teleport: DeviceBuffer<R>,
    ranks: DeviceBuffer<R>,
    /// What vertices give along each arc: as of the last sweep, and the next.
    gives: [DeviceBuffer<R>; 2],
    totals: SharedBuffer<u64>,
    report: SharedBuffer<u64>,
}

impl<R: Real> Worker<'_, R> {
    /// One sweep, and the exchange of what vertices give; the change and the rank
    /// of the dangling vertices.
    async fn sweep(&mut self, damping: f64, base: f64) -> Result<(f64, f64), FlowError> {
        let PullPart { first_warp_row, first_block_row, .. } = *self.part;
        let settings = Settings { damping, base, first_warp_row, first_block_row };
        let part = self.part;
        let arcs = (&*part.offsets, &*part.sources, &*part.weights, &*part.order);
        let [given, gives] = &mut self.gives;
        let arguments = (
            arcs,
            (&*part.inverse, &self.teleport),
            &*given,
            &mut self.ranks,
            gives.part_mut(self.own.clone())?,
            &self.totals,
            &self.report,
            settings,
        );
        // As many threads as arcs in rows for warps and blocks would like.
        let size = self.own.len() + part.arcs;
        self.kernel.launch(&self.stream, size, arguments)?;
        self.exchange().await?;
        self.gives.swap(0, 1);
        self.stream.record()?.completed().await?;
        let sum = |place| self.report.load(place).map(f64::from_bits);
        Ok((sum(0)?, sum(1)?))
    }

    /// Sends what the own vertices give to all others, and receives theirs. Nobody
    /// waits for room: the last sweep's messages have all been received.
    async fn exchange(&mut self) -> Result<(), FlowError> {
        let gives = &mut self.gives[1];
        if !self.own.is_empty() {
            for output in &mut self.outputs {
                let mut message = output.buffer(self.own.len()).await?;
                self.stream.copy(gives.part(self.own.clone())?, message.part_mut()?)?;
                output.send(message, &self.stream)?;
            }
        }
        for (from, input) in &mut self.inputs {
            let range = self.partition.range(*from);
            let mut arrived = range.start as usize;
            while arrived < range.end as usize {
                let Some(pending) = input.recv().await? else { return Err(FlowError::Ended) };
                let start = range.start as usize + pending.offset();
                let target = gives.part_mut(start..start + pending.len())?;
                self.stream.wait(&pending)?;
                self.stream.copy(pending.part()?, target)?;
                arrived += pending.len();
                pending.release_after(&self.stream)?;
            }
        }
        Ok(())
    }

    async fn shut_down(self) -> Result<(), FlowError> {
        self.outputs.into_iter().try_for_each(Sender::shutdown)?;
        for (_, mut input) in self.inputs {
            while let Some(pending) = input.recv().await? {
                pending.release()?;
            }
        }
        Ok(())
    }
}

fn real<R: Real, W: Copy + Into<f64>>(weights: &[W]) -> Vec<R> {
    weights.iter().map(|&weight| R::from_f64(weight.into())).collect()
}

/// Rows in the order that kernels take them: those for threads, then those for
/// warps, then those for blocks, and where the latter two begin.
fn by_length(offsets: &[u64]) -> (Vec<u32>, u32, u32) {
    let rows = 0..offsets.len() as u32 - 1;
    let class = |row: u32| match offsets[row as usize + 1] - offsets[row as usize] {
        ..WARP_ROW => 0,
        WARP_ROW..BLOCK_ROW => 1,
        _ => 2,
    };
    let of_class = |wanted| rows.clone().filter(move |&row| class(row) == wanted);
    let mut order: Vec<u32> = of_class(0).collect();
    let first_warp_row = order.len() as u32;
    order.extend(of_class(1));
    let first_block_row = order.len() as u32;
    order.extend(of_class(2));
    (order, first_warp_row, first_block_row)
}

fn uploaded<T: millstream_device::Pod + Send + Sync>(
    stream: &Stream,
    items: impl Iterator<Item = T>,
) -> millstream_device::Result<Arc<DeviceBuffer<T>>> {
    stream.uploaded(items.collect::<Vec<T>>()).map(Arc::new)
}
