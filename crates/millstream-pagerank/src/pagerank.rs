//! The public algorithm: a graph on the devices, and ranks of it.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use millstream_flow::Context;
use millstream_graph::pieces::InPieces;
use millstream_graph::{CsrGraph, Partition, partition};
use millstream_traversal::internals::check_partition;
use millstream_traversal::{Error as TraversalError, Layout};
use millstream_worklist::{DeviceStatistics, WorklistStatistics};
use rayon::prelude::*;

use crate::pull::PullGraph;
use crate::push_graph::PushGraph;
use crate::share::with_moderate_weights;
use crate::{Algorithm, Error, PageRankOptions, Precision, Result};

/// Ranks, by original vertex id, and how they came about.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PageRankResult {
    /// They sum to 1, or to the number of vertices if that was asked for.
    pub ranks: Vec<f64>,
    /// Sweeps (pull), or the work in units of a sweep (push): the number of pushes and arcs followed,
    /// divided by the number of vertices and arcs, rounded up.
    pub iterations: u32,
    /// Whether vertices have pulled or pushed.
    pub algorithm: Algorithm,
    /// L1 norm of the last sweep's change (pull), or of what another would change (push), for
    /// ranks that sum to 1; infinite before the first iteration.
    pub change: f64,
    /// Whether that is at most the tolerance.
    pub converged: bool,
    /// What each device did, and what went over each link. When pulling, each vertex is one work
    /// item per sweep, and what is sent are shares.
    pub statistics: WorklistStatistics,
    /// The time from the first sweep or item to the last, which leaves the ranks on the devices.
    pub run_time: Duration,
    /// The time to bring the ranks to the host.
    pub gather_time: Duration,
}

/// A graph spread over the devices of a context for PageRank, as its options ask
/// for; it serves any number of runs.
///
/// ```
/// use millstream_flow::{Context, Devices};
/// use millstream_graph::CsrGraph;
/// use millstream_pagerank::PageRank;
///
/// let context = Context::builder().devices(Devices::host(2)).build()?;
/// let cycle = CsrGraph::from_edges(4, &[(0, 1), (1, 2), (2, 3), (3, 0)])?;
/// let result = context.block_on(async {
///     PageRank::new(&context, &cycle).await?.run().await
/// })??;
/// assert!(result.converged && result.ranks.iter().all(|rank| (rank - 0.25).abs() < 1e-6));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PageRank {
    graph: Uploaded,
    vertices: u32,
    options: PageRankOptions,
}

#[derive(Debug)]
enum Uploaded {
    /// A graph without vertices, and so without ranks; and the number of devices.
    Nothing(usize),
    Pull32(PullGraph<f32>),
    Pull64(PullGraph<f64>),
    Push32(PushGraph<f32>),
    Push64(PushGraph<f64>),
}

impl PageRank {
    /// Uploads a graph in blocks with equally many arcs, for ranks as
    /// [`PageRankOptions::default`] says.
    ///
    /// # Errors
    /// No memory on a device.
    ///
    /// # Cancel safety
    /// Cancel safe: what was uploaded is dropped.
    pub async fn new(context: &Context, graph: &CsrGraph) -> Result<PageRank> {
        PageRank::with_options(context, graph, PageRankOptions::default()).await
    }

    /// As [`PageRank::new`], with options. Blocks have equally many arcs: for [`Algorithm::Pull`]
    /// of the arcs that come in, for [`Algorithm::Push`] of those that leave.
    ///
    /// Devices that pull and [reach each other's memory](crate::sends_packets) keep a number
    /// for each vertex of the graph between runs: what the vertex gives while all ranks are equal.
    /// Each GPU keeps them for itself, and the first host device for all host devices. During a
    /// run, the first host device has two more numbers for each vertex.
    ///
    /// # Errors
    /// Options or weights that have no meaning; no memory on a device; to push on GPUs, a vertex of more
    /// than 125,000,000 arcs, or more than 2^32 - 1,024 vertices.
    ///
    /// # Cancel safety
    /// Cancel safe: what was uploaded is dropped.
    pub async fn with_options(
        context: &Context,
        graph: &CsrGraph,
        options: PageRankOptions,
    ) -> Result<PageRank> {
        PageRank::boxed_upload(context, graph, None, options).await
    }

    /// As [`PageRank::with_options`], in the parts of `partition`, one for each device.
    /// Of a mesh whose ids say nothing of where vertices lie, [`partition::region_blocks`] has vertices of a
    /// region near each other, which makes runs several times as fast, and takes longer than many runs.
    ///
    /// # Errors
    /// As [`PageRank::with_options`]; a partition that does not fit.
    ///
    /// # Cancel safety
    /// Cancel safe: what was uploaded is dropped.
    pub async fn with_partition(
        context: &Context,
        graph: &CsrGraph,
        partition: Partition,
        options: PageRankOptions,
    ) -> Result<PageRank> {
        check_partition(context, graph, &partition)?;
        PageRank::boxed_upload(context, graph, Some(partition), options).await
    }

    /// Boxed, so that it is compiled once here, not in every crate that calls it.
    fn boxed_upload<'a>(
        context: &'a Context,
        graph: &'a CsrGraph,
        partition: Option<Partition>,
        options: PageRankOptions,
    ) -> BoxFuture<'a, Result<PageRank>> {
        PageRank::upload(context, graph, partition, options).boxed()
    }

    async fn upload(
        context: &Context,
        graph: &CsrGraph,
        partition: Option<Partition>,
        options: PageRankOptions,
    ) -> Result<PageRank> {
        options.question().check(graph)?;
        let weighted = options.weighted;
        let graph = &*with_moderate_weights(graph, weighted)?;
        let uploaded = match (options.algorithm, options.has_double_weights()) {
            _ if graph.vertices() == 0 => Uploaded::Nothing(context.devices().len()),
            (Algorithm::Pull, is_double) => {
                let partition = partition.as_ref();
                match is_double {
                    false => {
                        Uploaded::Pull32(PullGraph::new(context, graph, partition, weighted).await?)
                    }
                    true => {
                        Uploaded::Pull64(PullGraph::new(context, graph, partition, weighted).await?)
                    }
                }
            }
            (Algorithm::Push, is_double) => {
                let parts = context.devices().len();
                let balanced = || partition::edge_balanced_blocks(graph, parts);
                let partition = partition.unwrap_or_else(balanced);
                match is_double {
                    false => {
                        Uploaded::Push32(PushGraph::new(context, graph, partition, weighted).await?)
                    }
                    true => {
                        Uploaded::Push64(PushGraph::new(context, graph, partition, weighted).await?)
                    }
                }
            }
        };
        Ok(PageRank { graph: uploaded, vertices: graph.vertices(), options })
    }

    /// What was made for sweeps in place of the graph's rows.
    pub fn layouts(&self) -> Vec<Layout> {
        match &self.graph {
            Uploaded::Pull32(graph) => vec![graph.layout()],
            Uploaded::Pull64(graph) => vec![graph.layout()],
            Uploaded::Nothing(_) | Uploaded::Push32(_) | Uploaded::Push64(_) => Vec::new(),
        }
    }

    /// Vertices of the graph.
    pub fn vertices(&self) -> u32 {
        self.vertices
    }

    /// The algorithm that runs.
    pub fn algorithm(&self) -> Algorithm {
        self.options.algorithm
    }

    /// How runs go.
    pub fn options(&self) -> &PageRankOptions {
        &self.options
    }

    /// Sets how later runs go. The [algorithm](PageRankOptions::algorithm), the
    /// [precision](PageRankOptions::precision) and whether weights count were fixed at the upload.
    /// So a tolerance below 1e-6 needs a graph that was uploaded for such a tolerance, or for
    /// [`Precision::F64`].
    ///
    /// ```
    /// use millstream_flow::{Context, Devices};
    /// use millstream_graph::CsrGraph;
    /// use millstream_pagerank::{PageRank, PageRankOptions};
    ///
    /// let context = Context::builder().devices(Devices::host(2)).build()?;
    /// let path = CsrGraph::from_edges(3, &[(0, 1), (1, 2), (2, 1)])?;
    /// let (any, from_last) = context.block_on(async {
    ///     let mut ranks = PageRank::new(&context, &path).await?;
    ///     let any = ranks.run().await?;
    ///     let mut options = PageRankOptions::default();
    ///     options.personalization = vec![2];
    ///     ranks.set_options(options)?;
    ///     Ok::<_, millstream_pagerank::Error>((any, ranks.run().await?))
    /// })??;
    /// assert!(any.ranks[0] > 0.04 && from_last.ranks[0] == 0.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Options that have no meaning, or for which the graph was not uploaded. The previous options
    /// stay in effect.
    pub fn set_options(&mut self, options: PageRankOptions) -> Result<()> {
        self.options = self.accepted(options)?;
        Ok(())
    }

    /// Checks options for the uploaded graph, and adapts their precision to it.
    fn accepted(&self, options: PageRankOptions) -> Result<PageRankOptions> {
        options.question().check_for(self.vertices)?;
        let has_double = self.options.has_double_weights();
        // A graph uploaded in f64 serves any tolerance.
        let precision = match options.precision {
            Precision::Auto if has_double => Precision::F64,
            precision => precision,
        };
        let options = PageRankOptions { precision, ..options };
        // Of a push, only the weights have a choice of precision.
        let has_precision = self.options.algorithm == Algorithm::Pull || self.options.weighted;
        let others = [
            (options.algorithm != self.options.algorithm, "algorithm"),
            (has_precision && options.has_double_weights() != has_double, "precision"),
            (options.weighted != self.options.weighted, "use of weights"),
        ];
        if let Some((_, option)) = others.into_iter().find(|&(is_another, _)| is_another) {
            return Err(TraversalError::ChosenAtUpload { option }.into());
        }
        Ok(options)
    }

    /// Computes the ranks until they are close enough, or until the most iterations
    /// have been made: see [`PageRankResult::converged`].
    ///
    /// # Errors
    /// The first cause of any failure below.
    ///
    /// # Cancel safety
    /// Dropping the future stops the devices; the graph stays.
    pub async fn run(&self) -> Result<PageRankResult> {
        self.boxed_run(&self.options).await
    }

    /// As [`PageRank::run`], but with these options: one graph can answer several questions at
    /// once.
    ///
    /// ```
    /// use futures_util::future::try_join;
    /// use millstream_flow::{Context, Devices};
    /// use millstream_graph::CsrGraph;
    /// use millstream_pagerank::{PageRank, PageRankOptions};
    ///
    /// let context = Context::builder().devices(Devices::host(2)).build()?;
    /// let path = CsrGraph::from_edges(3, &[(0, 1), (1, 2), (2, 1)])?;
    /// let (mut first, mut last) = (PageRankOptions::default(), PageRankOptions::default());
    /// (first.personalization, last.personalization) = (vec![0], vec![2]);
    /// let (first, last) = context.block_on(async {
    ///     let ranks = PageRank::new(&context, &path).await?;
    ///     try_join(ranks.run_with(first), ranks.run_with(last)).await
    /// })??;
    /// assert!(first.ranks[0] > 0.1 && last.ranks[0] == 0.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`PageRank::set_options`] and [`PageRank::run`].
    ///
    /// # Cancel safety
    /// Dropping the future stops the devices; the graph stays.
    pub async fn run_with(&self, options: PageRankOptions) -> Result<PageRankResult> {
        let options = self.accepted(options)?;
        self.boxed_run(&options).await
    }

    /// As [`PageRank::boxed_upload`].
    fn boxed_run<'a>(
        &'a self,
        options: &'a PageRankOptions,
    ) -> BoxFuture<'a, Result<PageRankResult>> {
        self.rank(options).boxed()
    }

    async fn rank(&self, options: &PageRankOptions) -> Result<PageRankResult> {
        let mut found = match &self.graph {
            Uploaded::Nothing(devices) => return Ok(of_nothing(self.algorithm(), *devices)),
            Uploaded::Pull32(graph) => graph.run(options).await?,
            Uploaded::Pull64(graph) => graph.run(options).await?,
            Uploaded::Push32(graph) => graph.run(options).await?,
            Uploaded::Push64(graph) => graph.run(options).await?,
        };
        // Without any iteration the change is infinite. Ranks may be infinite even if the last sweep's
        // change was finite.
        let is_finite = found.change.is_finite()
            && found.ranks.par_iter().in_pieces().all(|rank| rank.is_finite());
        if options.max_iterations > 0 && !is_finite {
            return Err(Error::NotFinite { iterations: found.iterations });
        }
        if options.unnormalized {
            let vertices = found.ranks.len() as f64;
            found.ranks.par_iter_mut().in_pieces().for_each(|rank| *rank *= vertices);
        }
        Ok(found)
    }
}

fn of_nothing(algorithm: Algorithm, devices: usize) -> PageRankResult {
    let mut statistics = WorklistStatistics::default();
    statistics.devices = vec![DeviceStatistics::default(); devices];
    PageRankResult {
        ranks: Vec::new(),
        algorithm,
        iterations: 0,
        change: 0.0,
        converged: true,
        statistics,
        run_time: Duration::ZERO,
        gather_time: Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use millstream_flow::Devices;

    use super::*;

    /// With such weights shares are infinite in f32, unless the weights are made moderate first. In the
    /// second graph only the first shares are, but infinity then goes round for ever.
    #[test]
    fn ranks_beyond_their_type_are_an_error_at_once() {
        let both = [(0, 1, 1e-40f32), (1, 0, 1e-40)];
        let around = [(0, 1, 5e-40f32), (1, 2, 1.0), (2, 1, 1.0)];
        for (vertices, arcs) in [(2, &both[..]), (3, &around)] {
            let graph = CsrGraph::from_weighted_edges(vertices, arcs).unwrap();
            // On emulated GPUs, too: `scripts/emulate.sh`.
            let context = Context::builder().devices(Devices::All).build().unwrap();
            let parts = partition::edge_balanced_blocks(&graph, context.devices().len());
            let result = context.block_on(async {
                let pull = PullGraph::new(&context, &graph, Some(&parts), true).await?;
                let graph = Uploaded::Pull32(pull);
                let options = PageRankOptions::default();
                PageRank { graph, vertices, options }.run().await
            });
            let error = result.unwrap().unwrap_err();
            assert!(matches!(error, Error::NotFinite { iterations: 1 }), "{vertices}: {error}");
        }
    }
}
