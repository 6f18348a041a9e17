//! Sweeps that the host starts one by one, on devices that do not write into each other's memory: after
//! each sweep the devices tell each other, over links, the shares that others ask for.

use std::time::Instant;

use futures_util::future::try_join_all;
use millstream_device::{DeviceBuffer, Kernel, SharedBuffer, Stream};
use millstream_flow::{Buffers, Error as FlowError, Graph, Receiver, Sender};

use crate::halo::{Halo, Pack, Places, pack_kernel};
use crate::pull::PullGraph;
use crate::real::Real;
use crate::share::teleport;
use crate::sweep::{PART_WORDS, REPORT, Signature, TOTALS, is_over, kernel, rank};
use crate::{PageRankOptions, PageRankResult, Result};

/// Sweeps at least once, until the change is small enough.
pub(crate) async fn run<R: Real>(
    pull: &PullGraph<R>,
    options: &PageRankOptions,
) -> Result<PageRankResult> {
    let graph = Graph::new(&pull.context);
    let links = graph.statistics();
    let mut workers = workers(pull, &graph, options).await?;
    let mut dangling = pull.dangling;
    let start = Instant::now();
    let sweeps = async {
        let mut iterations = 0;
        let change = loop {
            let sweeps = workers.iter_mut().map(|worker| worker.sweep(options, dangling));
            let sums = try_join_all(sweeps).await?;
            let change: f64 = sums.iter().map(|(change, _)| change).sum();
            dangling = sums.iter().map(|(_, dangling)| dangling).sum();
            iterations += 1;
            if is_over(options.tolerance, options.max_iterations, iterations, change) {
                break change;
            }
        };
        let run_time = start.elapsed();
        let mut ranks = Vec::new();
        for worker in &workers {
            ranks.extend(worker.ranks().await?);
        }
        let ends = workers.drain(..).map(Worker::shut_down);
        try_join_all(ends).await?;
        Ok::<_, FlowError>((ranks, iterations, change, run_time))
    };
    let (ranks, iterations, change, run_time) = graph.run(sweeps).await?;
    let ranks = pull.partition.restore(ranks);
    let gather_time = start.elapsed() - run_time;
    let times = [run_time, gather_time];
    Ok(pull.result(options, ranks, (iterations, change), links.links(), times))
}

/// The workers, which hold everything that changes in a run; all vertices start with the same rank.
async fn workers<'a, R: Real>(
    pull: &'a PullGraph<R>,
    graph: &Graph,
    options: &PageRankOptions,
) -> Result<Vec<Worker<'a, R>>> {
    let devices = pull.context.devices();
    let mut ends: Vec<_> = devices.iter().map(|_| (Vec::new(), Vec::new())).collect();
    let buffers = |shares: usize| {
        let bytes = options.worklist.packet_bytes.min(shares * size_of::<R>());
        let buffers = Buffers::bytes(bytes);
        options.worklist.buffers.map_or(buffers, |count| buffers.count(count))
    };
    for from in 0..devices.len() {
        let told = pull.parts[from].tells.iter().map(Halo::len).enumerate();
        // Among many devices, most pairs may have nothing to tell each other.
        for (to, shares) in told.filter(|&(to, shares)| to != from && shares > 0) {
            let (sender, receiver) = graph.link(&devices[from], &devices[to], buffers(shares))?;
            ends[from].0.push((to, sender));
            ends[to].1.push((from, receiver));
        }
    }
    let teleport = teleport(&pull.partition, options);
    let (mut workers, mut completions) = (Vec::new(), Vec::new());
    for ((place, device), (outputs, inputs)) in devices.iter().enumerate().zip(ends) {
        let places = &pull.parts[place].places;
        let own = pull.own(place);
        let stream = device.stream()?;
        let teleport = teleport.get(own.clone()).unwrap_or_default();
        let teleport: Vec<R> = teleport.iter().map(|&chance| R::from_f64(chance)).collect();
        let teleport = stream.uploaded(teleport)?;
        let even = pull.even_shares(places);
        let gives = device.buffer(even.len())?;
        let given = stream.uploaded(even)?;
        completions.push(stream.completed()?);
        workers.push(Worker {
            pull,
            place,
            kernel: kernel::<R>(),
            pack: pack_kernel(),
            own: own.len(),
            places,
            outputs,
            inputs,
            teleport,
            gives: [given, gives],
            totals: device.shared(TOTALS + PART_WORDS * pull.parts[place].shared_rows as usize)?,
            report: pull.context.host().shared(REPORT)?,
            stream,
        });
    }
    try_join_all(completions).await?;
    Ok(workers)
}

/// One device in a run.
struct Worker<'a, R: Real> {
    pull: &'a PullGraph<R>,
    place: usize,
    kernel: Kernel<Signature<R>>,
    pack: Kernel<Pack<R>>,
    /// How many vertices it owns; their shares are in its first places.
    own: usize,
    places: &'a Places,
    outputs: Vec<(usize, Sender<R>)>,
    inputs: Vec<(usize, Receiver<R>)>,
    stream: Stream,
    /// The teleport rank of each own vertex; empty if it is the same for all.
    teleport: DeviceBuffer<R>,
    /// Shares in the device's places: those of the last sweep, and those of the next.
    gives: [DeviceBuffer<R>; 2],
    totals: SharedBuffer<u64>,
    report: SharedBuffer<u64>,
}

impl<R: Real> Worker<'_, R> {
    /// One sweep, and the exchange of shares. Returns the change and the rank of the
    /// dangling vertices.
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
            gives.part_mut(0..self.own)?,
            &self.totals,
            &self.report,
            settings,
        );
        // Enough threads for all rows, and more for the arcs of long rows.
        let size = self.own + part.sources.len();
        self.kernel.launch(&self.stream, size, arguments)?;
        self.exchange().await?;
        self.gives.swap(0, 1);
        self.stream.completed()?.await?;
        let sum = |place| self.report.load(place).map(f64::from_bits);
        Ok((sum(0)?, sum(1)?))
    }

    /// The ranks of the own vertices after the last sweep.
    async fn ranks(&self) -> Result<Vec<f64>, FlowError> {
        let shares = self.stream.download(self.gives[0].part(0..self.own)?)?.await?;
        let weights = self.stream.download(&*self.pull.parts[self.place].row_weights)?.await?;
        let ranks = shares.into_iter().zip(weights);
        Ok(ranks.map(|(share, weight)| rank(share, weight).to_f64()).collect())
    }

    /// Sends the others the shares that they ask for, and receives those that this device asks for.
    /// No sender waits for buffers: all messages of the last sweep have been received.
    async fn exchange(&mut self) -> Result<(), FlowError> {
        let (part, gives) = (&self.pull.parts[self.place], &mut self.gives[1]);
        for (to, output) in &mut self.outputs {
            let halo = &part.tells[*to];
            let mut message = output.buffer(halo.len()).await?;
            match halo {
                Halo::All(own) => {
                    self.stream.copy(gives.part(0..*own)?, message.part_mut()?)?;
                }
                Halo::Some(rows) => {
                    let rows = part.told_rows.part(rows.clone())?;
                    let arguments = (rows, &*gives, &mut message);
                    self.pack.launch(&self.stream, halo.len(), arguments)?;
                }
            }
            output.send(message, &self.stream)?;
        }
        for (from, input) in &mut self.inputs {
            let halo = self.places.of(*from);
            let mut arrived = 0;
            while arrived < halo.len() {
                let Some(pending) = input.recv().await? else { return Err(FlowError::Ended) };
                let first = halo.start + pending.offset();
                self.stream.wait(&pending)?;
                let target = gives.part_mut(first..first + pending.len())?;
                self.stream.copy(pending.part()?, target)?;
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
    use millstream_graph::CsrGraph;
    use millstream_graph::generate::{self, GenerateOptions};

    use super::*;
    use crate::pull::on_host_devices;

    /// Ranks, the bytes that went over links in each sweep, and the most bytes that devices allocated.
    fn swept(graph: &CsrGraph, devices: usize) -> (Vec<f64>, u64, u64) {
        let (context, pull) = on_host_devices(graph, devices, true);
        let ranks = context.block_on(run(&pull, &PageRankOptions::default())).unwrap().unwrap();
        let bytes: u64 = ranks.statistics.links.iter().map(|link| link.bytes).sum();
        let most = context.devices().iter().map(|device| device.memory().peak).sum();
        (ranks.ranks, bytes / u64::from(ranks.iterations), most)
    }

    fn assert_near(ranks: &[f64], same: &[f64]) {
        let apart: f64 = ranks.iter().zip(same).map(|(rank, same)| (rank - same).abs()).sum();
        assert!(apart < 1e-6, "{apart}");
    }

    #[test]
    fn only_what_others_ask_for_is_sent() {
        let options = GenerateOptions::default();
        let road = generate::road(200, 200, generate::KEEP_PERMILLE, &options).unwrap();
        let ((ranks, bytes, _), (same, none, _)) = (swept(&road, 4), swept(&road, 1));
        assert_near(&ranks, &same);
        assert!(none == 0 && bytes > 0, "{none}, {bytes}");
        assert!(bytes < 4 * u64::from(road.vertices()) / 20, "{bytes}");
        // Nearly everybody asks for the one, and for the other's vertices nobody.
        let arcs: Vec<_> = (0..2000).flat_map(|from| [(from, 2000), (2000, from)]).collect();
        let star = CsrGraph::from_edges(4001, &arcs).unwrap();
        let ((ranks, bytes, _), (same, ..)) = (swept(&star, 3), swept(&star, 1));
        assert_near(&ranks, &same);
        assert!(bytes < 2 * 4 * u64::from(star.vertices()), "{bytes}");
    }

    /// A device has no shares of other vertices, and no packets for devices that it has nothing to tell.
    #[test]
    fn devices_have_their_own_vertices_and_those_they_ask_for() {
        let vertices = 1 << 18;
        let few = CsrGraph::from_edges(vertices, &[(0, 1), (vertices - 1, 0)]).unwrap();
        let (ranks, _, most) = swept(&few, 16);
        assert!((ranks.iter().sum::<f64>() - 1.0).abs() < 1e-4);
        // The shares of all vertices take 1 MiB, twice; the weights of their rows take another, spread
        // over the owners.
        assert!(most < 4 << 20, "{most} bytes");
    }
}
