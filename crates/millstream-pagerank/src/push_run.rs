//! A run: residuals are pushed until a sweep would change little enough.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use millstream_device::SharedBuffer;
use millstream_traversal::{Part, Vertices};
use millstream_worklist::{DeviceStatistics, WorklistStatistics};

use crate::push::{Problem, Push, Settings};
use crate::push_graph::PushGraph;
use crate::real::Real;
use crate::share::teleport;
use crate::{Algorithm, PageRankOptions, PageRankResult, Result};

/// Pushes of a vertex, on average, until the threshold falls back. Both are measured; on GPUs it costs
/// more to look at all deferred vertices.
const PUSHES_UNTIL_FALL: u64 = 1;
const GPU_PUSHES_UNTIL_FALL: u64 = 8;

/// Ranks so far, and residuals, by new id. Neither includes what dangling vertices give.
struct Pushed {
    ranks: Vec<f64>,
    residuals: Vec<f64>,
}

/// One device's memory.
struct Words {
    residuals: SharedBuffer<u64>,
    ranks: SharedBuffer<u64>,
    allowance: SharedBuffer<u64>,
}

/// A run, and what it has done.
struct PushRun<'a, R: Real> {
    graph: &'a PushGraph<R>,
    options: &'a PageRankOptions,
    words: Vec<Words>,
    /// Pushes, and arcs followed.
    work: u64,
    /// Whether the pushes since this was last set left every residual below its threshold.
    is_settled: bool,
    statistics: WorklistStatistics,
    run_time: Duration,
    gather_time: Duration,
}

impl<R: Real> PushGraph<R> {
    /// Pushes until a sweep would change the ranks by the tolerance at most, or the work of
    /// [`PageRankOptions::max_iterations`] is done.
    pub(crate) async fn run(&self, options: &PageRankOptions) -> Result<PageRankResult> {
        let vertices = self.graph.vertices() as usize;
        let (damping, even) = (options.damping, 1.0 / vertices as f64);
        let teleport = teleport(self.graph.partition(), options);
        let is_even = teleport.is_empty();
        let leads: Vec<_> = match is_even {
            true => vec![even; vertices],
            false => teleport.iter().map(|chance| chance / (1.0 - damping)).collect(),
        };
        let mut own = match is_even {
            true => self.even_start(damping),
            false => Pushed { ranks: vec![0.0; vertices], residuals: teleport },
        };
        let mut spread = Pushed { ranks: vec![0.0; vertices], residuals: vec![even; vertices] };
        let mut run = PushRun::new(self, options)?;
        let (mut ranks, mut change) = (vec![even; vertices], f64::INFINITY);
        // Ranks sum to about this before they are scaled; if they sum to less, or residuals count twice,
        // another pass follows. At least half of the initial residuals is pushed in any case.
        let sum_about = if is_even { own.ranks.iter().sum() } else { 1.0 };
        let mut left = (options.tolerance * sum_about).min((1.0 - damping) / 2.0);
        while change > options.tolerance && run.has_a_sweep_left() {
            run.is_settled = true;
            let mut factor = 0.0;
            if is_even {
                run.push(&mut own, left).await?;
            } else {
                run.push(&mut own, left / 2.0).await?;
                let given = self.given(&own, damping);
                if given > 0.0 {
                    let most = given / (1.0 - damping);
                    run.push(&mut spread, left / 2.0 / most).await?;
                }
                factor = given / (1.0 - self.given(&spread, damping));
            }
            (ranks, change) = sum(&own, &spread, factor, &leads);
            // Otherwise a device used up its allowance: the next pass first goes on with the same `left`.
            if run.is_settled {
                left /= 2.0;
            }
        }
        Ok(run.finish(ranks, change))
    }

    /// What the dangling vertices give.
    fn given(&self, pushed: &Pushed, damping: f64) -> f64 {
        let dangling = pushed.ranks.iter().zip(&self.is_dangling).filter(|(_, is)| **is);
        damping * dangling.map(|(rank, _)| rank).sum::<f64>()
    }

    /// Equal ranks, except that dangling vertices start with what a first sweep would give them: the nearer
    /// to the result, the less there is to push. Residuals are what the first sweep would change.
    fn even_start(&self, damping: f64) -> Pushed {
        let even = 1.0 / f64::from(self.graph.vertices());
        let given = |inflow: &f64| (1.0 - damping) * even + damping * inflow;
        let start = |(inflow, &is_dangling): (&f64, &bool)| match is_dangling {
            true => (given(inflow), 0.0),
            false => (even, given(inflow) - even),
        };
        let (ranks, residuals) = self.inflow.iter().zip(&self.is_dangling).map(start).unzip();
        Pushed { ranks, residuals }
    }
}

/// The ranks `own + factor * spread`, scaled to sum to 1, and the L1 norm of what a sweep would change
/// in them, if steps that follow no arc go where `leads` says: see `README.md`.
fn sum(own: &Pushed, spread: &Pushed, factor: f64, leads: &[f64]) -> (Vec<f64>, f64) {
    let add = |own: &[f64], spread: &[f64]| -> Vec<f64> {
        own.iter().zip(spread).map(|(own, spread)| own + factor * spread).collect()
    };
    let mut ranks = add(&own.ranks, &spread.ranks);
    let residuals = add(&own.residuals, &spread.residuals);
    let (sum, missing): (f64, f64) = (ranks.iter().sum(), residuals.iter().sum());
    let change = residuals.iter().zip(leads).map(|(residual, leads)| residual - missing * leads);
    let change = change.map(f64::abs).sum::<f64>() / sum;
    ranks.iter_mut().for_each(|rank| *rank /= sum);
    (ranks, change)
}

impl<'a, R: Real> PushRun<'a, R> {
    fn new(graph: &'a PushGraph<R>, options: &'a PageRankOptions) -> Result<PushRun<'a, R>> {
        let partition = graph.graph.partition();
        let devices = graph.graph.context().devices();
        let words = devices.iter().enumerate().map(|(place, device)| {
            let residuals = device.shared(graph.graph.vertices() as usize)?;
            let ranks = device.shared(partition.range(place).len())?;
            Ok(Words { residuals, ranks, allowance: device.shared(1)? })
        });
        let mut statistics = WorklistStatistics::default();
        statistics.devices = vec![DeviceStatistics::default(); devices.len()];
        Ok(PushRun {
            graph,
            options,
            words: words.collect::<Result<_>>()?,
            work: 0,
            is_settled: true,
            statistics,
            run_time: Duration::ZERO,
            gather_time: Duration::ZERO,
        })
    }

    /// The work that may still be done.
    fn work_left(&self) -> u64 {
        let most = self.graph.sweep.saturating_mul(self.options.max_iterations.into());
        most.saturating_sub(self.work)
    }

    fn has_a_sweep_left(&self) -> bool {
        self.work_left() >= self.graph.sweep
    }

    /// Pushes until all residuals together are at most `left`, or a device has used up its allowance:
    /// its part of the work left.
    async fn push(&mut self, pushed: &mut Pushed, left: f64) -> Result<()> {
        let (graph, costs) = (&self.graph.graph, &self.graph.costs);
        let threshold = left / costs.iter().sum::<f64>();
        let residuals = pushed.residuals.iter().map(|residual| residual.abs()).zip(costs);
        let is_worth = |(residual, cost): &(f64, &f64)| *residual > threshold * *cost;
        let top = residuals.clone().map(|(residual, cost)| residual / cost).fold(0.0, f64::max);
        let initial = (0..).zip(residuals).filter(|(_, worth)| is_worth(worth));
        let initial: Vec<_> =
            initial.map(|(vertex, _)| (graph.partition().owner(vertex), vertex)).collect();
        let allowance = self.work_left().div_ceil(self.words.len() as u64).min(i64::MAX as u64);
        if initial.is_empty() || allowance == 0 {
            self.is_settled &= initial.is_empty();
            return Ok(());
        }
        self.upload(pushed, allowance).await?;
        let damping = self.options.damping;
        let settings = |first| Settings { damping, threshold, top, first };
        let program = Arc::new(Vertices::new(graph.owners(), Push::<R>::PROGRAM));
        let (problems, vertices) = (self.problems(settings), graph.vertices() as usize);
        let PageRankOptions { worklist, patience, .. } = self.options;
        let worklist = worklist.worklist(graph.context(), program, problems, vertices, *patience);
        let mut worklist = worklist.delta(Some(1));
        if !self.graph.is_mesh_like {
            // Residuals grow while they wait. With a threshold far below the largest residual, packets
            // would be pushed one by one as they come, which multiplies the work.
            let all_gpus = graph.context().all_gpus();
            let pushes = if all_gpus { GPU_PUSHES_UNTIL_FALL } else { PUSHES_UNTIL_FALL };
            worklist = worklist.falls_after(pushes * vertices as u64);
        }
        worklist.prepare()?;
        let start = Instant::now();
        self.statistics.add(&worklist.run(&initial).await?);
        self.run_time += start.elapsed();
        self.download(pushed, allowance).await
    }

    /// `settings` maps a device's first vertex to its settings.
    fn problems(&self, settings: impl Fn(u64) -> Settings) -> Vec<Arc<Problem<R>>> {
        let parts = self.graph.graph.parts().iter().zip(&self.words).enumerate();
        let problem = |(place, (part, words)): (usize, (&Part, &Words))| Problem {
            offsets: Arc::clone(&part.offsets),
            targets: Arc::clone(&part.targets),
            weights: Arc::clone(&self.graph.weights[place]),
            inverse_row_weights: Arc::clone(&self.graph.inverse[place]),
            costs: Arc::clone(&self.graph.costs_on_devices[place]),
            residuals: words.residuals.clone(),
            ranks: words.ranks.clone(),
            allowance: words.allowance.clone(),
            owners: Arc::clone(&part.owners),
            settings: settings(self.graph.graph.partition().range(place).start.into()),
        };
        parts.map(problem).map(Arc::new).collect()
    }

    /// Gives every owner its ranks and residuals; all other residuals are 0 already, as all of them
    /// have been sent.
    async fn upload(&self, pushed: &Pushed, allowance: u64) -> Result<()> {
        let devices = self.graph.graph.context().devices().iter().zip(&self.words);
        let mut completions = Vec::new();
        for (place, (device, words)) in devices.enumerate() {
            let own = self.graph.graph.partition().range(place);
            let own = own.start as usize..own.end as usize;
            let bits = |values: &[f64]| values[own.clone()].iter().map(|v| v.to_bits()).collect();
            let (ranks, residuals): (Vec<_>, Vec<_>) =
                (bits(&pushed.ranks), bits(&pushed.residuals));
            let stream = device.stream()?;
            stream.upload_shared(ranks, &words.ranks, 0..own.len())?;
            stream.upload_shared(residuals, &words.residuals, own)?;
            stream.upload_shared(vec![allowance], &words.allowance, 0..1)?;
            completions.push(stream.completed()?);
        }
        try_join_all(completions).await?;
        Ok(())
    }

    async fn download(&mut self, pushed: &mut Pushed, allowance: u64) -> Result<()> {
        let (start, graph) = (Instant::now(), &self.graph.graph);
        let buffers = self.words.iter().map(|words| words.residuals.clone());
        pushed.residuals = graph.gather(buffers, f64::from_bits).await?;
        pushed.ranks.clear();
        for (device, words) in graph.context().devices().iter().zip(&self.words) {
            let stream = device.stream()?;
            let ranks = stream.download_shared(&words.ranks, 0..words.ranks.len())?;
            let left = stream.download_shared(&words.allowance, 0..1)?;
            ranks.append_to(&mut pushed.ranks, f64::from_bits).await?;
            // Refused pushes are subtracted too, so `left` may be negative.
            let left = left.await?.into_iter().map(|left| left as i64).sum::<i64>();
            self.is_settled &= left > 0;
            self.work += allowance - left.max(0) as u64;
        }
        self.gather_time += start.elapsed();
        Ok(())
    }

    /// `ranks` are by new id.
    fn finish(self, ranks: Vec<f64>, change: f64) -> PageRankResult {
        // The last row pushed may have exceeded the allowance.
        let most = self.options.max_iterations;
        let iterations = self.work.div_ceil(self.graph.sweep).min(most.into()) as u32;
        PageRankResult {
            ranks: self.graph.graph.partition().restore(ranks),
            algorithm: Algorithm::Push,
            iterations,
            change,
            converged: change <= self.options.tolerance,
            statistics: self.statistics,
            run_time: self.run_time,
            gather_time: self.gather_time,
        }
    }
}

#[cfg(test)]
mod tests {
    use millstream_flow::{Context, Devices};
    use millstream_graph::generate::{self, GenerateOptions};
    use millstream_graph::{CsrGraph, Partition, partition};

    use super::*;
    use crate::PageRank;

    /// The most bytes that the last device allocates.
    fn peak(parts: &Partition, queue_entries: Option<usize>) -> u64 {
        let path: Vec<_> = (1..parts.vertices()).map(|to| (to - 1, to)).collect();
        let graph = CsrGraph::from_edges(parts.vertices(), &path).unwrap();
        let context = Context::builder().devices(Devices::host(parts.parts())).build().unwrap();
        let mut options = PageRankOptions::default();
        (options.algorithm, options.tolerance) = (Algorithm::Push, 0.1);
        options.worklist.queue_entries = queue_entries;
        let run = async {
            PageRank::with_partition(&context, &graph, parts.clone(), options).await?.run().await
        };
        context.block_on(run).unwrap().unwrap();
        context.devices().last().unwrap().memory().peak
    }

    /// With costs of all vertices it would be more than 12 bytes.
    #[test]
    fn a_device_has_a_residual_of_each_vertex_of_others_and_little_else() {
        let vertices = 1_u32 << 19;
        let part_of: Vec<_> =
            (0..vertices).map(|vertex| u32::from(vertex + 1 == vertices)).collect();
        let parts = Partition::from_parts(2, &part_of).unwrap();
        let peak = peak(&parts, Some(1));
        assert!(peak < 12 * u64::from(vertices), "{peak} bytes");
    }

    /// With two packets of 256 KiB from each other device it would be 8 MiB.
    #[test]
    fn packets_are_as_large_as_what_a_device_owns() {
        let graph = CsrGraph::from_edges(1 << 12, &[]).unwrap();
        let peak = peak(&partition::contiguous_blocks(&graph, 16), None);
        assert!(peak < 2 << 20, "{peak} bytes");
    }

    /// Work in sweeps. When packets were pushed as they came, eight devices did three times as much.
    #[test]
    fn more_devices_do_hardly_more_work() {
        let graph = generate::kron(10, 16, &GenerateOptions::default()).unwrap();
        let mut options = PageRankOptions::default();
        (options.algorithm, options.damping) = (Algorithm::Push, 0.95);
        let work = |devices| {
            let context = Context::builder().devices(Devices::host(devices)).build().unwrap();
            let run = async {
                PageRank::with_options(&context, &graph, options.clone()).await?.run().await
            };
            let result = context.block_on(run).unwrap().unwrap();
            assert!(result.converged);
            f64::from(result.iterations)
        };
        let alone = work(1);
        for devices in [2, 4, 8] {
            let ratio = work(devices) / alone;
            assert!(ratio < 1.5, "{devices} devices: {ratio:.2} of {alone} sweeps");
        }
    }
}
