//! The public algorithm: a weighted graph on the devices, and runs on it
//! \[G §4.6.1\].

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use millstream_flow::Context;
use millstream_graph::pieces::InPieces;
use millstream_graph::reference::Distances;
use millstream_graph::{CsrGraph, DepthProbe, Partition, Weights};
use millstream_traversal::internals::{
    Answer, Attempt, Outcome, Regions, Settings, Value, can_meet, check_kernels_push, run,
};
use millstream_traversal::{
    Columns, Delta, DistributedGraph, Error as TraversalError, Layout, UNREACHED,
};
use rayon::prelude::*;

use crate::algorithm::Algorithm;
use crate::means::Means;
use crate::near_graph::NearGraph;
use crate::options::SsspOptions;
use crate::result::SsspResult;
use crate::rule::{DistanceRule, IntegerDistances, RealDistances};
use crate::step_graph::{StepGraph, is_worth_it};
use crate::step_search::{StepOptions, StepSearch};
use crate::step_width::step_width;
use crate::{Error, Result};

/// A weighted graph spread over the devices of a context, for any number of runs.
///
/// ```
/// use millstream_flow::{Context, Devices};
/// use millstream_graph::CsrGraph;
/// use millstream_sssp::{Distances, Sssp};
///
/// let context = Context::builder().devices(Devices::host(2)).build()?;
/// let graph = CsrGraph::from_weighted_edges(4, &[(0, 1, 9u32), (0, 2, 2), (2, 1, 3)])?;
/// let result = context.block_on(async {
///     Sssp::new(&context, &graph).await?.run(&[0]).await
/// })??;
/// assert_eq!(result.distances, Distances::Integer(vec![0, 5, 2, u32::MAX]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Sssp {
    graph: Uploaded,
    weights: WeightType,
    regions: Option<Layout>,
    automatic_delta: Option<f64>,
    options: SsspOptions,
}

/// The graph, in the form that the algorithm needs.
#[derive(Debug)]
enum Uploaded {
    Asynchronous(DistributedGraph),
    Stepping(StepGraph),
    NearFar(NearGraph),
}

/// The fewest keys that a thread looks through.
const PIECE: usize = 1 << 16;
/// Larger values matter only for more than 2^27 arcs, and would overflow products of 64 bits.
const MOST_FACTOR: u32 = 1 << 27;

#[derive(Clone, Copy, Debug)]
enum WeightType {
    Integer,
    Real,
}

impl Sssp {
    /// Uploads a graph to be searched as [`SsspOptions::default`] says, in blocks of vertices that equally
    /// many arcs enter (for a search in steps) or leave (for any other). For several devices with GPUs among
    /// them, a mesh whose ids say nothing of where vertices lie is divided into regions, except for a search
    /// in steps ([`partition::automatic`](millstream_graph::partition::automatic)), as [`Sssp::layouts`] says.
    ///
    /// # Errors
    /// No weights, or one that is negative; no memory on a device or the host; on GPUs, a vertex of more
    /// than 125,000,000 arcs, or more than 2^32 - 1,024 vertices.
    ///
    /// # Cancel safety
    /// Cancel safe: what was uploaded is dropped.
    pub async fn new(context: &Context, graph: &CsrGraph) -> Result<Sssp> {
        Sssp::with_options(context, graph, SsspOptions::default()).await
    }

    /// As [`Sssp::new`], with options.
    ///
    /// A stepping search keeps the arcs that enter a device's vertices, in a row for each of these, sorted
    /// by weight. GPUs also keep the same arcs in rows by source, host devices the arcs that leave their
    /// vertices; one GPU, or host devices, need no second copy of a symmetric graph. Each copy takes 8 bytes
    /// an arc and 8 a row. GPUs keep 16 bytes a vertex more for the next search.
    ///
    /// A near-far search keeps packed rows ([`Sssp::layouts`]): 32 bytes a vertex, and 8 an arc of rows of
    /// more than four. On several GPUs these include a halo around each part, of at most half as many
    /// vertices; of host devices the first one has all.
    ///
    /// # Errors
    /// As [`Sssp::new`]; options that have no meaning; devices that cannot go in steps, or by near
    /// and far piles, if that is asked for.
    ///
    /// # Cancel safety
    /// Cancel safe: what was uploaded is dropped.
    pub async fn with_options(
        context: &Context,
        graph: &CsrGraph,
        options: SsspOptions,
    ) -> Result<Sssp> {
        Sssp::boxed_upload(context, graph, None, options).await
    }

    /// As [`Sssp::with_options`], in the parts of `partition`, one for each device.
    ///
    /// # Errors
    /// As [`Sssp::with_options`]; a partition that does not fit.
    ///
    /// # Cancel safety
    /// Cancel safe: what was uploaded is dropped.
    pub async fn with_partition(
        context: &Context,
        graph: &CsrGraph,
        partition: Partition,
        options: SsspOptions,
    ) -> Result<Sssp> {
        Sssp::boxed_upload(context, graph, Some(partition), options).await
    }

    /// Boxed, so that it is compiled once here, not in every crate that calls it.
    fn boxed_upload<'a>(
        context: &'a Context,
        graph: &'a CsrGraph,
        partition: Option<Partition>,
        options: SsspOptions,
    ) -> BoxFuture<'a, Result<Sssp>> {
        Sssp::upload(context, graph, partition, options).boxed()
    }

    async fn upload(
        context: &Context,
        graph: &CsrGraph,
        partition: Option<Partition>,
        options: SsspOptions,
    ) -> Result<Sssp> {
        options.check()?;
        let algorithm = options.algorithm;
        let weights = weight_type(graph)?;
        let means = Means::of(graph);
        if matches!(algorithm, Algorithm::Stepping | Algorithm::NearFar) {
            check_kernels_push(context)?;
        }
        let depth = match step_graph(context, graph, partition.as_ref(), means, algorithm).await? {
            Ok(steps) => {
                let step = |means| step_width(graph, means, context.any_gpu());
                let (automatic_delta, graph) = (means.and_then(step), Uploaded::Stepping(steps));
                return Ok(Sssp { graph, weights, regions: None, automatic_delta, options });
            }
            Err(depth) => depth,
        };
        let on_gpus = context.any_gpu();
        let (partition, regions) = Regions::of(context, graph, partition);
        let rows = DistributedGraph::new(context, graph, partition, Columns::Weighted).await?;
        let regions = regions.map(|regions| regions.layout(&rows));
        let threshold = means.and_then(|means| means.threshold(on_gpus));
        let is_real = matches!(weights, WeightType::Real);
        let near = NearGraph::rows(graph, &rows, is_real, algorithm).await?;
        let is_space = || depth.unwrap_or_else(|| DepthProbe::new(graph)).is_space();
        let (graph, automatic_delta) = match near {
            Ok(near) => {
                let step = means.and_then(|means| match on_gpus && is_space() {
                    true => means.near_in_space(),
                    false => means.near(on_gpus),
                });
                let near = NearGraph::new(graph, rows, near, (means, threshold));
                (Uploaded::NearFar(near), step)
            }
            Err(reason) if algorithm == Algorithm::NearFar => {
                return Err(Error::NotNearFar { reason });
            }
            Err(_) => (Uploaded::Asynchronous(rows), threshold),
        };
        Ok(Sssp { graph, weights, regions, automatic_delta, options })
    }

    /// How runs go.
    pub fn options(&self) -> &SsspOptions {
        &self.options
    }

    /// Sets how later runs go, except the [algorithm](SsspOptions::algorithm), which the upload has
    /// chosen.
    ///
    /// # Errors
    /// Options that have no meaning; another algorithm. They stay as they were then.
    pub fn set_options(&mut self, options: SsspOptions) -> Result<()> {
        options.check()?;
        if ![self.options.algorithm, self.algorithm()].contains(&options.algorithm) {
            return Err(TraversalError::ChosenAtUpload { option: "algorithm" }.into());
        }
        self.options = SsspOptions { algorithm: self.options.algorithm, ..options };
        Ok(())
    }

    /// Vertices of the graph.
    pub fn vertices(&self) -> u32 {
        match &self.graph {
            Uploaded::Asynchronous(graph) => graph.vertices(),
            Uploaded::Stepping(graph) => graph.incoming.vertices(),
            Uploaded::NearFar(near) => near.graph.vertices(),
        }
    }

    /// What was made for searches beside the graph's rows, or in their place.
    pub fn layouts(&self) -> Vec<Layout> {
        let rows = match &self.graph {
            Uploaded::Asynchronous(_) => None,
            Uploaded::Stepping(graph) => Some(graph.layout()),
            Uploaded::NearFar(near) => Some(near.rows.layout()),
        };
        [self.regions, rows].into_iter().flatten().collect()
    }

    /// The algorithm that runs: never [`Algorithm::Auto`]. If it gives a search up, another algorithm
    /// answers: see [`SsspResult::algorithm`].
    ///
    /// ```
    /// use millstream_flow::{Context, Devices};
    /// use millstream_graph::CsrGraph;
    /// use millstream_sssp::{Algorithm, Sssp, SsspOptions};
    ///
    /// let context = Context::builder().devices(Devices::host(2)).build()?;
    /// let path = CsrGraph::from_weighted_edges(3, &[(0, 1, 2u32), (1, 2, 3)])?;
    /// let mut options = SsspOptions::default();
    /// options.algorithm = Algorithm::Stepping;
    /// let sssp = context.block_on(Sssp::with_options(&context, &path, options))??;
    /// assert_eq!(sssp.algorithm(), Algorithm::Stepping);
    /// assert_eq!(sssp.algorithm().to_string(), "stepping");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn algorithm(&self) -> Algorithm {
        match self.graph {
            Uploaded::Asynchronous(_) => Algorithm::Asynchronous,
            Uploaded::Stepping(_) => Algorithm::Stepping,
            Uploaded::NearFar(_) => Algorithm::NearFar,
        }
    }

    /// Finds shortest paths from `sources`, all at distance 0; without any, all vertices stay unreached.
    /// Runs on one context do not disturb each other.
    ///
    /// An integer distance of [`Distances::TOO_FAR`] or more counts as overflow.
    ///
    /// # Errors
    /// A source that is not a vertex; a distance that overflows, unless it lies beyond a cutoff; the
    /// first cause of any failure below.
    ///
    /// # Cancel safety
    /// Dropping the future stops the devices; the graph stays.
    pub async fn run(&self, sources: &[u32]) -> Result<SsspResult> {
        self.boxed_run(sources).await
    }

    /// As [`Sssp::boxed_upload`].
    fn boxed_run<'a>(&'a self, sources: &'a [u32]) -> BoxFuture<'a, Result<SsspResult>> {
        match (self.weights, self.options.predecessors) {
            (WeightType::Integer, false) => self.search::<IntegerDistances, u32>(sources).boxed(),
            (WeightType::Integer, true) => self.search::<IntegerDistances, u64>(sources).boxed(),
            (WeightType::Real, false) => self.search::<RealDistances, u32>(sources).boxed(),
            (WeightType::Real, true) => self.search::<RealDistances, u64>(sources).boxed(),
        }
    }

    async fn search<R: DistanceRule, V: Value>(&self, sources: &[u32]) -> Result<SsspResult> {
        let limit = self.options.cutoff.map_or(R::TOO_FAR, R::limit);
        let (algorithm, step, outcome) = self.outcome::<R, V>(sources, limit).await?;
        let Outcome { answer, statistics, run_time, gather_time, .. } = outcome;
        let Answer { keys, predecessors } = answer;
        // In pieces, so that the compiler can compare many keys at a time.
        if keys.par_chunks(PIECE).any(|keys| keys.contains(&R::TOO_FAR)) {
            let vertex = keys.iter().position(|&key| key == R::TOO_FAR).unwrap_or_default();
            return Err(Error::Overflow { vertex: vertex as u32 });
        }
        let distances = match self.weights {
            WeightType::Integer => Distances::Integer(keys),
            WeightType::Real => {
                Distances::Real(keys.into_par_iter().in_pieces().map(real).collect())
            }
        };
        let delta = step.map(R::used);
        Ok(SsspResult {
            distances,
            predecessors,
            algorithm,
            statistics,
            delta,
            run_time,
            gather_time,
        })
    }

    /// Searches without keys above `limit`. Returns the algorithm that gave the answer, the width of its
    /// steps, and the outcome.
    async fn outcome<R: DistanceRule, V: Value>(
        &self,
        sources: &[u32],
        limit: u32,
    ) -> Result<(Algorithm, Option<f64>, Outcome)> {
        let SsspOptions { delta, pull, rest, waiting, patience, .. } = self.options;
        let (algorithm, step) = (self.algorithm(), delta.step(self.automatic_delta));
        let outcome = match &self.graph {
            Uploaded::Asynchronous(graph) => {
                self.asynchronously::<R, V>(graph, sources, limit, step).await?
            }
            Uploaded::Stepping(graph) => {
                let [pull, rest] = [pull, rest].map(|factor| factor.min(MOST_FACTOR));
                let options = StepOptions { limit, delta: step, pull, rest, patience };
                StepSearch::<R>::new(graph, options)?.run::<V>(sources).await?
            }
            Uploaded::NearFar(near) => {
                let steps = (step, delta == Delta::Auto);
                match near.search::<R, V>(sources, limit, steps, waiting, patience).await? {
                    (Attempt::Found(outcome), step) => return Ok((algorithm, step, outcome)),
                    (Attempt::GivenUp(time), _) => {
                        let step = delta.step(near.other_delta);
                        let search = self.asynchronously::<R, V>(&near.graph, sources, limit, step);
                        return Ok((Algorithm::Asynchronous, step, search.await?.after(time)));
                    }
                }
            }
        };
        Ok((algorithm, step, outcome))
    }

    async fn asynchronously<R: DistanceRule, V: Value>(
        &self,
        graph: &DistributedGraph,
        sources: &[u32],
        limit: u32,
        delta: Option<f64>,
    ) -> Result<Outcome> {
        let SsspOptions { worklist, patience, .. } = &self.options;
        let (step, priority_scale) = delta.map(R::threshold).unzip();
        let settings = Settings {
            limit,
            halo_filter: worklist.halo_filter.into(),
            priority_scale: priority_scale.unwrap_or(1.0),
        };
        Ok(run::<R, V>(graph, sources, settings, step, worklist, *patience).await?)
    }
}

/// The rows for a search in steps, if that is asked for, or if it is worth it and the rows fit; else how
/// the graph spreads, if that was found out.
async fn step_graph(
    context: &Context,
    graph: &CsrGraph,
    partition: Option<&Partition>,
    means: Option<Means>,
    algorithm: Algorithm,
) -> Result<Result<StepGraph, Option<DepthProbe>>> {
    let depth = match algorithm {
        Algorithm::Auto if can_meet(context) => {
            let depth = DepthProbe::new(graph);
            if !is_worth_it(context, graph, depth) {
                return Ok(Err(Some(depth)));
            }
            Some(depth)
        }
        Algorithm::Stepping if !can_meet(context) => return Err(Error::NotStepping),
        Algorithm::Stepping => None,
        _ => return Ok(Err(None)),
    };
    match StepGraph::new(context, graph, partition, (means, depth)).await {
        // The rows of one direction, which other algorithms need, may still fit.
        Err(Error::Traversal(error)) if algorithm == Algorithm::Auto && error.is_too_much() => {
            Ok(Err(depth))
        }
        steps => steps.map(Ok),
    }
}

/// The type of a graph's weights, after checking that each is a distance.
fn weight_type(graph: &CsrGraph) -> Result<WeightType> {
    let weights = match graph.weights().ok_or(Error::NoWeights)? {
        Weights::Integer(_) => WeightType::Integer,
        Weights::Real(_) => WeightType::Real,
    };
    graph.check_weights()?;
    Ok(weights)
}

/// The distance of a key.
fn real(key: u32) -> f32 {
    if key == UNREACHED { f32::INFINITY } else { f32::from_bits(key) }
}
