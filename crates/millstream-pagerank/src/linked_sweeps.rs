//! Sweeps that the host starts one by one, after which the devices tell each other
//! over links what their vertices give, as far as they are asked: on any devices.

use std::ops::Range;
use std::time::Instant;

use futures_util::future::try_join_all;
use millstream_device::{DeviceBuffer, Kernel, SharedBuffer, Stream};
use millstream_flow::{Buffers, Error as FlowError, Graph, Receiver, Sender};

use crate::halo::{Halo, HaloKernels};
use crate::pagerank::Ranks;
use crate::pull::PullGraph;
use crate::real::Real;
use crate::share::teleport;
use crate::sweep::{REPORT, Signature, TOTALS, kernel, rank};
use crate::{PageRankOptions, Result};

/// Sweeps until the change is small enough.
pub(crate) async fn run<R: Real>(pull: &PullGraph<R>, options: &PageRankOptions) -> Result<Ranks> {
    let graph = Graph::new(&pull.context);
    let links = graph.statistics();
    let mut workers = workers(pull, &graph, options).await?;
    let mut dangling = pull.dangling;
    let start = Instant::now();
    let sweeps = async {
        let (mut iterations, mut delta) = (0, f64::INFINITY);
        while iterations < options.max_iterations {
            let sweeps = workers.iter_mut().map(|worker| worker.sweep(options, dangling));
            let sums = try_join_all(sweeps).await?;
            delta = sums.iter().map(|(change, _)| change).sum();
            dangling = sums.iter().map(|(_, dangling)| dangling).sum();
            iterations += 1;
            // Ranks beyond their type do not come back, however many sweeps follow.
            if delta <= options.tolerance || !delta.is_finite() {
                break;
            }
        }
        let run_time = start.elapsed();
        let mut ranks = Vec::new();
        for worker in &workers {
            ranks.extend(worker.ranks().await?);
        }
        let ends = workers.drain(..).map(Worker::shut_down);
        try_join_all(ends).await?;
        Ok::<_, FlowError>((ranks, iterations, delta, run_time))
    };
    let (ranks, iterations, delta, run_time) = graph.run(sweeps).await?;
    let ranks = pull.partition.restore(ranks);
    let gather_time = start.elapsed() - run_time;
    let converged = delta <= options.tolerance;
    let statistics = pull.swept(iterations, links.links());
    Ok(Ranks { ranks, iterations, delta, converged, statistics, run_time, gather_time })
}

/// Everything that changes in a run: ranks start even.
async fn workers<'a, R: Real>(
    pull: &'a PullGraph<R>,
    graph: &Graph,
    options: &PageRankOptions,
) -> Result<Vec<Worker<'a, R>>> {
    let devices = pull.context.devices();
    let mut ends: Vec<_> = devices.iter().map(|_| (Vec::new(), Vec::new())).collect();
    let buffers = Buffers::bytes(options.worklist.packet_bytes);
    let buffers = options.worklist.buffers.map_or(buffers, |count| buffers.count(count));
    for from in 0..devices.len() {
        for to in (0..devices.len()).filter(|&to| to != from) {
            let (sender, receiver) = graph.link(&devices[from], &devices[to], buffers)?;
            ends[from].0.push((to, sender));
            ends[to].1.push((from, receiver));
        }
    }
    let gives: Vec<R> = pull.even_shares();
    let teleport = teleport(&pull.partition, options);
    let mut workers = Vec::new();
    for ((place, device), (outputs, inputs)) in devices.iter().enumerate().zip(ends) {
        let own = pull.own(place);
        let stream = device.stream()?;
        let teleport = teleport.get(own.clone()).unwrap_or_default();
        let teleport: Vec<R> = teleport.iter().map(|&chance| R::from_f64(chance)).collect();
        let teleport = stream.uploaded(teleport)?;
        let gives = [stream.uploaded(gives.clone())?, device.buffer(gives.len())?];
        stream.record()?.completed().await?;
        workers.push(Worker {
            pull,
            place,
            kernel: kernel::<R>(),
            halo: HaloKernels::new(),
            own,
            outputs,
            inputs,
            teleport,
            gives,
            totals: device.shared(TOTALS)?,
            report: pull.context.host().shared(REPORT)?,
            stream,
        });
    }
    Ok(workers)
}

/// One device in a run.
struct Worker<'a, R: Real> {
    pull: &'a PullGraph<R>,
    place: usize,
    kernel: Kernel<Signature<R>>,
    halo: HaloKernels<R>,
    own: Range<usize>,
    outputs: Vec<(usize, Sender<R>)>,
    inputs: Vec<(usize, Receiver<R>)>,
    stream: Stream,
    /// What comes from nowhere to each own vertex; empty if the same to all.
    teleport: DeviceBuffer<R>,
    /// What vertices give along each arc: as of the last sweep, and the next.
    gives: [DeviceBuffer<R>; 2],
    totals: SharedBuffer<u64>,
    report: SharedBuffer<u64>,
}

impl<R: Real> Worker<'_, R> {
    /// One sweep, and the exchange of what vertices give; the change and the rank
    /// of the dangling vertices.
    async fn sweep(
        &mut self,
        options: &PageRankOptions,
        dangling: f64,
    ) -> Result<(f64, f64), FlowError> {
        let part = &self.pull.parts[self.place];
        let settings = self.pull.settings(self.place, options, dangling);
        let [given, gives] = &mut self.gives;
        let arcs = (&*part.offsets, &*part.sources, &*part.weights);
        let arguments = (
            arcs,
            (&*part.row_weights, &self.teleport),
            &*given,
            gives.part_mut(self.own.clone())?,
            &self.totals,
            &self.report,
            settings,
        );
        // As many threads as rows, or as arcs in long rows would like.
        let size = self.own.len() + part.sources.len();
        self.kernel.launch(&self.stream, size, arguments)?;
        self.exchange().await?;
        self.gives.swap(0, 1);
        self.stream.record()?.completed().await?;
        let sum = |place| self.report.load(place).map(f64::from_bits);
        Ok((sum(0)?, sum(1)?))
    }

    /// Of the own vertices, after the last sweep.
    async fn ranks(&self) -> Result<Vec<f64>, FlowError> {
        let shares = self.stream.download(self.gives[0].part(self.own.clone())?)?.await?;
        let weights = self.stream.download(&*self.pull.parts[self.place].row_weights)?.await?;
        let ranks = shares.into_iter().zip(weights);
        Ok(ranks.map(|(share, weight)| rank(share, weight).to_f64()).collect())
    }

    /// Sends the others what they ask for, and receives what this device asks for. Nobody
    /// waits for room: the last sweep's messages have all been received.
    async fn exchange(&mut self) -> Result<(), FlowError> {
        let (part, gives) = (&self.pull.parts[self.place], &mut self.gives[1]);
        for (to, output) in &mut self.outputs {
            let halo = &part.tells[*to];
            if halo.len() == 0 {
                continue;
            }
            let mut message = output.buffer(halo.len()).await?;
            match halo {
                Halo::All(own) => {
                    self.stream.copy(gives.part(own.clone())?, message.part_mut()?)?;
                }
                Halo::Some(vertices) => {
                    let arguments = (&**vertices, &*gives, &mut message);
                    self.halo.pack.launch(&self.stream, halo.len(), arguments)?;
                }
            }
            output.send(message, &self.stream)?;
        }
        for (from, input) in &mut self.inputs {
            let halo = &part.hears[*from];
            let mut arrived = 0;
            while arrived < halo.len() {
                let Some(pending) = input.recv().await? else { return Err(FlowError::Ended) };
                let packet = pending.offset()..pending.offset() + pending.len();
                self.stream.wait(&pending)?;
                match halo {
                    Halo::All(all) => {
                        let target = all.start + packet.start..all.start + packet.end;
                        self.stream.copy(pending.part()?, gives.part_mut(target)?)?;
                    }
                    Halo::Some(vertices) => {
                        let arguments = (vertices.part(packet)?, &pending, &mut *gives);
                        self.halo.unpack.launch(&self.stream, pending.len(), arguments)?;
                    }
                }
                arrived += pending.len();
                pending.release_after(&self.stream)?;
            }
        }
        Ok(())
    }

    async fn shut_down(self) -> Result<(), FlowError> {
        self.outputs.into_iter().try_for_each(|(_, output)| output.shutdown())?;
        for (_, mut input) in self.inputs {
            while let Some(pending) = input.recv().await? {
                pending.release()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use millstream_flow::{Context, Devices};
    use millstream_graph::generate::{self, GenerateOptions};
    use millstream_graph::{CsrGraph, partition};

    use super::*;

    /// Ranks, and the bytes that went over links in each sweep.
    fn swept(graph: &CsrGraph, devices: usize, is_packed: bool) -> (Vec<f64>, u64) {
        let context = Context::builder().devices(Devices::host(devices)).build().unwrap();
        let parts = partition::edge_balanced_blocks(graph, devices);
        let transposed = graph.transposed().unwrap();
        let options = PageRankOptions::default();
        let ranks = context.block_on(async {
            let mut pull =
                PullGraph::<f32>::new(&context, graph, &transposed, &parts, false).await?;
            if !is_packed {
                let owns: Vec<_> = (0..devices).map(|place| pull.own(place)).collect();
                let all: Vec<_> = owns.into_iter().map(Halo::All).collect();
                for (place, part) in pull.parts.iter_mut().enumerate() {
                    part.tells = vec![all[place].clone(); devices];
                    part.hears = all.clone();
                }
            }
            run(&pull, &options).await
        });
        let ranks = ranks.unwrap().unwrap();
        let bytes: u64 = ranks.statistics.links.iter().map(|link| link.bytes).sum();
        (ranks.ranks, bytes / u64::from(ranks.iterations))
    }

    #[test]
    fn only_what_others_ask_for_is_sent() {
        let options = GenerateOptions::default();
        let road = generate::road(200, 200, generate::KEEP_PERMILLE, &options).unwrap();
        let (ranks, bytes) = swept(&road, 4, true);
        let (same, all) = swept(&road, 4, false);
        assert!(ranks == same);
        assert_eq!(all, 3 * 4 * u64::from(road.vertices()));
        assert!(bytes > 0 && bytes < 4 * u64::from(road.vertices()) / 20, "{bytes} of {all}");
        // Nearly everybody asks for the one, and for the other's vertices nobody.
        let arcs: Vec<_> = (0..2000).flat_map(|from| [(from, 2000), (2000, from)]).collect();
        let star = CsrGraph::from_edges(4001, &arcs).unwrap();
        let ((ranks, bytes), (same, all)) = (swept(&star, 3, true), swept(&star, 3, false));
        assert!(ranks == same && bytes < all);
    }
}
