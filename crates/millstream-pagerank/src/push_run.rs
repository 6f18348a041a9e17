//! Rounds of pushing: between them, what the dangling vertices have given is spread
//! evenly, where that matters.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_device::DeviceBuffer;
use millstream_flow::Context;
use millstream_graph::{CsrGraph, Partition};
use millstream_traversal::{Columns, DistributedGraph, PartWeights, Vertices};
use millstream_worklist::{DeviceStatistics, WorklistStatistics};

use crate::pagerank::Ranks;
use crate::push::{Problem, Push, Settings};
use crate::real::Real;
use crate::share::{by_new_id, even_inflow, inverse_row_weights, teleport};
use crate::{PageRankOptions, Result};

/// What a push costs beside its arcs, in arcs.
const FIXED_COST: f64 = 8.0;

/// The graph on the devices, every row with the arcs that leave.
#[derive(Debug)]
pub(crate) struct PushGraph<R: Real> {
    graph: DistributedGraph,
    inverse: Vec<Arc<DeviceBuffer<f64>>>,
    weights: Vec<Arc<DeviceBuffer<R>>>,
    /// On each device, of all vertices.
    costs_on_devices: Vec<Arc<DeviceBuffer<f32>>>,
    /// What a push of each vertex costs, by new id.
    costs: Vec<f64>,
    /// What each vertex gets along arcs when every vertex that has some has the same
    /// rank, by new id: see [`even_inflow`].
    inflow: Vec<f64>,
    /// Whether no step leaves a vertex along an arc, by new id.
    is_dangling: Vec<bool>,
}

/// Ranks and residuals to start from, by new id.
struct Start {
    ranks: Vec<f64>,
    residuals: Vec<f64>,
    /// Whether dangling vertices give nothing, and ranks are scaled at the end.
    ignores_leaks: bool,
}

impl<R: Real> PushGraph<R> {
    pub(crate) async fn new(
        context: &Context,
        graph: &CsrGraph,
        partition: Partition,
        is_weighted: bool,
    ) -> Result<PushGraph<R>> {
        let inverse = inverse_row_weights(graph, is_weighted);
        let inflow = by_new_id(&partition, &even_inflow(graph, &inverse, is_weighted));
        let inverse = by_new_id(&partition, &inverse);
        let is_dangling = inverse.iter().map(|&inverse| inverse == 0.0).collect();
        let cost = |vertex| graph.degree(vertex) as f64 + FIXED_COST;
        let costs = by_new_id(&partition, &(0..graph.vertices()).map(cost).collect::<Vec<_>>());
        let columns = if is_weighted { Columns::Weighted } else { Columns::Structure };
        let graph = DistributedGraph::new(context, graph, partition, columns).await?;
        let (inverses, weights, costs_on_devices) = (Vec::new(), Vec::new(), Vec::new());
        let mut uploaded = PushGraph {
            graph,
            inverse: inverses,
            weights,
            costs_on_devices,
            costs,
            inflow,
            is_dangling,
        };
        for (place, device) in context.devices().iter().enumerate() {
            let stream = device.stream()?;
            let own = uploaded.graph.partition().range(place);
            let own = inverse[own.start as usize..own.end as usize].to_vec();
            let weights: Vec<R> = match &uploaded.graph.parts()[place].weights {
                PartWeights::None => Vec::new(),
                PartWeights::Integer(weights) => {
                    let weights = stream.download(&**weights)?.await?;
                    weights.into_iter().map(|weight| R::from_f64(weight.into())).collect()
                }
                PartWeights::Real(weights) => {
                    let weights = stream.download(&**weights)?.await?;
                    weights.into_iter().map(|weight| R::from_f64(weight.into())).collect()
                }
            };
            uploaded.inverse.push(Arc::new(stream.uploaded(own)?));
            uploaded.weights.push(Arc::new(stream.uploaded(weights)?));
            let costs: Vec<_> = uploaded.costs.iter().map(|&cost| cost as f32).collect();
            uploaded.costs_on_devices.push(Arc::new(stream.uploaded(costs)?));
            stream.record()?.completed().await?;
        }
        Ok(uploaded)
    }

    /// Pushes until residuals, and what the dangling vertices have given, are small
    /// enough together.
    pub(crate) async fn run(&self, options: &PageRankOptions) -> Result<Ranks> {
        let vertices = self.graph.vertices() as usize;
        let Start { ranks, residuals, ignores_leaks } = self.start(options);
        let left = match ignores_leaks {
            // Ranks may sum to 1 - damping before they are scaled.
            true => options.tolerance * (1.0 - options.damping),
            // Half for residuals, half for the dangling vertices.
            false => options.tolerance / 2.0,
        };
        let threshold = left / self.costs.iter().sum::<f64>();
        let worth = residuals.iter().zip(&self.costs).map(|(residual, cost)| residual.abs() / cost);
        let top = worth.fold(0.0, f64::max);
        let most_pushes = u64::from(options.max_iterations);
        let settings = Settings { damping: options.damping, threshold, top, most_pushes };
        let mut residuals = residuals;
        let problems = self.problems(settings, ranks).await?;
        let program = Arc::new(Vertices::new(self.graph.owners(), Push::<R>::PROGRAM));
        let worklist = || {
            let (context, program) = (self.graph.context(), Arc::clone(&program));
            let worklist = options.worklist.worklist(context, program, problems.clone(), vertices);
            worklist.delta(Some(1))
        };
        worklist().prepare()?;
        let mut statistics = WorklistStatistics::default();
        statistics.devices = vec![DeviceStatistics::default(); problems.len()];
        let (mut rounds, mut iterations) = (0, 0);
        let (mut delta, mut run_time) = (f64::INFINITY, Duration::ZERO);
        // Even, should there be no round.
        let (mut ranks, start) = (vec![1.0 / vertices as f64; vertices], Instant::now());
        while delta > options.tolerance && rounds.max(iterations) < options.max_iterations {
            self.upload_residuals(&problems, &residuals).await?;
            let residual = |vertex: u32| residuals[vertex as usize].abs();
            let is_worth = |&v: &u32| residual(v) > threshold * self.costs[v as usize];
            let worth = (0..vertices as u32).filter(is_worth);
            let initial: Vec<_> =
                worth.map(|vertex| (self.graph.partition().owner(vertex), vertex)).collect();
            let worklist = worklist();
            let round = Instant::now();
            statistics.add(&worklist.run(&initial).await?);
            run_time += round.elapsed();
            let buffers = problems.iter().map(|problem| problem.residuals.clone());
            residuals = self.graph.gather(buffers, f64::from_bits).await?;
            ranks = self.ranks(&problems).await?;
            let leaked = self.take_leaked(&problems).await?;
            let left: f64 = residuals.iter().map(|residual| residual.abs()).sum();
            delta = match ignores_leaks {
                true => left / ranks.iter().sum::<f64>(),
                false => left + leaked.abs(),
            };
            let share = if ignores_leaks { 0.0 } else { leaked / vertices as f64 };
            residuals.iter_mut().for_each(|residual| *residual += share);
            iterations = self.most_pushes(&problems).await?.min(options.max_iterations);
            rounds += 1;
        }
        let sum: f64 = ranks.iter().sum();
        ranks.iter_mut().for_each(|rank| *rank /= sum);
        let ranks = self.graph.partition().restore(ranks);
        let gather_time = start.elapsed() - run_time;
        let converged = delta <= options.tolerance;
        Ok(Ranks { ranks, iterations, delta, converged, statistics, run_time, gather_time })
    }

    /// Where to start. Steps that follow no arc and lead to any vertex alike add
    /// the same to each, so only the scale of ranks depends on how many such steps
    /// there are: what dangling vertices give may be ignored, and ranks scaled at
    /// the end. They start even then, but for dangling vertices, which start at
    /// what they come to: the nearer, the less there is to push. For a
    /// personalization everything starts at its vertices.
    fn start(&self, options: &PageRankOptions) -> Start {
        let PageRankOptions { damping, ref personalization, .. } = *options;
        let vertices = self.graph.vertices() as usize;
        if !personalization.is_empty() {
            let residuals = teleport(self.graph.partition(), options);
            return Start { ranks: vec![0.0; vertices], residuals, ignores_leaks: false };
        }
        let even = 1.0 / vertices as f64;
        let given = |inflow: &f64| (1.0 - damping) * even + damping * inflow;
        let start = |(inflow, &is_dangling): (&f64, &bool)| match is_dangling {
            true => (given(inflow), 0.0),
            false => (even, given(inflow) - even),
        };
        let (ranks, residuals) = self.inflow.iter().zip(&self.is_dangling).map(start).unzip();
        Start { ranks, residuals, ignores_leaks: true }
    }

    async fn problems(&self, settings: Settings, ranks: Vec<f64>) -> Result<Vec<Arc<Problem<R>>>> {
        let mut problems = Vec::new();
        let devices = self.graph.context().devices().iter();
        for (place, (device, part)) in devices.zip(self.graph.parts()).enumerate() {
            let own = self.graph.partition().range(place);
            let own = &ranks[own.start as usize..own.end as usize];
            let bits: Vec<_> = own.iter().map(|rank| rank.to_bits()).collect();
            let (ranks, pushes) = (device.shared(bits.len())?, device.shared(bits.len())?);
            let stream = device.stream()?;
            stream.upload_shared(bits, &ranks, 0..ranks.len())?;
            stream.record()?.completed().await?;
            problems.push(Arc::new(Problem {
                offsets: Arc::clone(&part.offsets),
                targets: Arc::clone(&part.targets),
                weights: Arc::clone(&self.weights[place]),
                inverse_row_weights: Arc::clone(&self.inverse[place]),
                costs: Arc::clone(&self.costs_on_devices[place]),
                residuals: device.shared(self.graph.vertices() as usize)?,
                ranks,
                pushes,
                leaked: device.shared(1)?,
                owners: Arc::clone(&part.owners),
                settings,
            }));
        }
        Ok(problems)
    }

    /// Gives every owner its residuals; all others are 0, as everything is sent.
    async fn upload_residuals(
        &self,
        problems: &[Arc<Problem<R>>],
        residuals: &[f64],
    ) -> Result<()> {
        let devices = self.graph.context().devices().iter().zip(problems);
        for (place, (device, problem)) in devices.enumerate() {
            let own = self.graph.partition().range(place);
            let own = own.start as usize..own.end as usize;
            let bits: Vec<_> = residuals[own.clone()].iter().map(|r| r.to_bits()).collect();
            let stream = device.stream()?;
            stream.upload_shared(bits, &problem.residuals, own)?;
            stream.record()?.completed().await?;
        }
        Ok(())
    }

    /// What the dangling vertices have given since the last call.
    async fn take_leaked(&self, problems: &[Arc<Problem<R>>]) -> Result<f64> {
        let mut sum = 0.0;
        for (device, problem) in self.graph.context().devices().iter().zip(problems) {
            let stream = device.stream()?;
            let leaked = stream.download_shared(&problem.leaked, 0..1)?.await?;
            sum += leaked.into_iter().map(f64::from_bits).sum::<f64>();
            stream.fill_shared(&problem.leaked, 0..1, 0)?;
            stream.record()?.completed().await?;
        }
        Ok(sum)
    }

    /// How often the vertex was pushed that was pushed most.
    async fn most_pushes(&self, problems: &[Arc<Problem<R>>]) -> Result<u32> {
        let mut most = 0;
        for (device, problem) in self.graph.context().devices().iter().zip(problems) {
            let own = 0..problem.pushes.len();
            let pushes = device.stream()?.download_shared(&problem.pushes, own)?.await?;
            most = most.max(pushes.into_iter().max().unwrap_or(0));
        }
        Ok(most)
    }

    async fn ranks(&self, problems: &[Arc<Problem<R>>]) -> Result<Vec<f64>> {
        let mut ranks = Vec::with_capacity(self.graph.vertices() as usize);
        for (device, problem) in self.graph.context().devices().iter().zip(problems) {
            let own = 0..problem.ranks.len();
            let arriving = device.stream()?.download_shared(&problem.ranks, own)?;
            arriving.append_to(&mut ranks, f64::from_bits).await?;
        }
        Ok(ranks)
    }
}
