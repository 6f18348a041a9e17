//! `millstream pagerank GRAPH`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use millstream::flow::Context;
use millstream::graph::reference::PageRankError;
use millstream::graph::{CsrGraph, validate};
use millstream::pagerank::{
    Algorithm, Error as RankError, PageRank, PageRankOptions, PageRankResult, Precision,
    sends_packets,
};
use serde::Serialize;

use crate::error::Error;
use crate::input::{Input, bad_weight, vertices};
use crate::job::Job;
use crate::options::{Spread, Worklist, meaningless};
use crate::output::{check_all_writable, write_values};
use crate::progress::phase;
use crate::remark::remark;
use crate::report::{Answer, Clock, Common, LayoutReport};

/// PageRank.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Full sweeps that pull, or residuals pushed on the worklist; pull unless given, or
    /// push if --routing, --worker or --queue-entries is given.
    #[arg(long, value_enum)]
    algorithm: Option<AlgorithmOption>,
    /// Probability to follow an arc.
    #[arg(long, value_name = "X", default_value_t = 0.85)]
    damping: f64,
    /// Largest L1 norm of the last sweep's change (pull), or of what another would change (push).
    #[arg(long, value_name = "X", default_value = "1e-6")]
    tolerance: f64,
    /// The type of ranks; unless given, f64 for a tolerance below 1e-6. Pushed ranks are always f64.
    #[arg(long, value_enum)]
    precision: Option<PrecisionOption>,
    /// Most sweeps (pull), or the work of as many (push): a push of every vertex, along every arc.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    max_iterations: u32,
    /// Succeeds even if the ranks have not converged.
    #[arg(long)]
    allow_unconverged: bool,
    /// Vertices (1,2,3) to which steps that follow no arc lead; any unless given.
    #[arg(long, value_name = "V,...")]
    personalize: Option<String>,
    /// Follows arcs with probabilities in proportion to their weights.
    #[arg(long)]
    weighted: bool,
    /// Scales ranks to sum to the number of vertices, not to 1.
    #[arg(long)]
    unnormalized: bool,
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    spread: Spread,
    #[command(flatten)]
    worklist: Worklist,
    #[command(flatten)]
    answer: Answer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum AlgorithmOption {
    /// Full sweeps: every vertex adds up what its predecessors give.
    Pull,
    /// Residuals pushed along arcs on the worklist.
    Push,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PrecisionOption {
    /// 32 bits; with push for weights only, as ranks are in 64 bits.
    F32,
    /// 64 bits.
    F64,
}

#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    common: Common,
    /// Whether vertices pull or push.
    method: String,
    /// The type of the ranks.
    precision: &'static str,
    iterations: u32,
    converged: bool,
    /// What the last sweep has changed (pull), or another would (push).
    #[serde(rename = "delta")]
    change: f64,
    layouts: Vec<LayoutReport>,
}

/// A change below this in f32 sweeps may be nothing but rounding.
const ROUNDED: f64 = 1e-4;

/// Reads, computes, checks and answers.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Error> {
    let Arguments { input, spread, answer: how, .. } = arguments;
    let mut options = options(arguments)?;
    options.check()?;
    let outputs = [("--output", how.output.as_ref()), ("--trace", spread.trace())];
    check_all_writable(&outputs, &[input.named(), spread.topology()])?;
    let context = spread.context()?;
    check_packets(arguments, options.algorithm, &context)?;
    if (options.algorithm, options.precision) == (Algorithm::Push, Precision::F32) {
        // An answer may be more precise than requested.
        remark("pushed ranks are f64: --precision f32 is for weights there");
    }
    let clock = Clock::start();
    let graph = input.read()?;
    if let Some(names) = &arguments.personalize {
        options.personalization = vertices(names, &graph, "--personalize", "not")?;
    }
    let mut job = Job::new("pagerank", (input, how), (&context, &graph), clock);
    let partition = spread.partition_of_ranks(&graph, context.devices().len())?;
    job.partitioned();
    let upload = async {
        let options = options.clone();
        match partition {
            Some(partition) => PageRank::with_partition(&context, &graph, partition, options).await,
            None => PageRank::with_options(&context, &graph, options).await,
        }
    };
    let (result, layouts) = job
        .run("ranking", upload, PageRank::layouts, async |ranks: &PageRank| ranks.run().await)?
        .map_err(|error| outside(error, input, &graph))?;
    check_ranks(&mut job, arguments, &graph, &options, &result);
    let write = |path: &PathBuf| {
        phase("writing", || write_values(path, graph.original_ids(), &result.ranks))
    };
    let written = how.output.as_ref().map_or(Ok(()), write);
    let arcs = match options.algorithm {
        // How often an arc was pushed along is not counted.
        Algorithm::Push => graph.arcs(),
        _ => graph.arcs() * u64::from(result.iterations),
    };
    job.went_along(arcs);
    job.common.count(&result.statistics);
    job.common.useful_work_items = Some(match options.algorithm {
        Algorithm::Push => job.common.work_items.min(graph.vertices().into()),
        // Every sweep needs all vertices.
        _ => job.common.work_items,
    });
    let remedy = remedy(&options, &result);
    let PageRankResult { algorithm, iterations, converged, change, .. } = result;
    let method = algorithm.to_string();
    let precision = if options.is_double() { "f64" } else { "f32" };
    let report =
        |common| Report { common, method, precision, iterations, converged, change, layouts };
    job.answer(report, table, written)?;
    match converged || arguments.allow_unconverged {
        true => Ok(()),
        false => Err(Error::NotConverged { remedy, iterations, change }),
    }
}

/// Checks the ranks, if requested, or says why they cannot be checked.
fn check_ranks(
    job: &mut Job<'_>,
    arguments: &Arguments,
    graph: &CsrGraph,
    options: &PageRankOptions,
    result: &PageRankResult,
) {
    let change = if result.converged { options.tolerance } else { result.change };
    let allowed = allowed(options, change);
    if allowed < FARTHEST {
        job.verify(|| verify(graph, options, &result.ranks, allowed));
    } else if result.converged || arguments.allow_unconverged {
        job.cannot_verify(match result.converged {
            true => "to this tolerance, damping and precision zeros would pass, too",
            false => ANYWHERE,
        });
    } else if arguments.answer.verify {
        // The command fails anyway, since the ranks have not converged.
        remark(format!("not verified: {ANYWHERE}"));
    }
}

/// What would let the ranks converge.
fn remedy(options: &PageRankOptions, result: &PageRankResult) -> &'static str {
    let (iterations, change) = (result.iterations, result.change);
    // In exact arithmetic no sweep changes more than this: the first moves at most all rank there is.
    let most = 2.0 * options.damping.powf(f64::from(iterations) - 1.0);
    let sweeps = result.algorithm == Algorithm::Pull;
    match options.is_double() {
        false if change < ROUNDED => "--precision f64 rounds less",
        true if sweeps && change > most => "f64 comes no closer: raise --tolerance",
        _ => "--max-iterations allows more",
    }
}

/// An error in terms of the file: vertices by the file's ids, and faults of the file with its name.
fn outside(error: RankError, input: &Input, graph: &CsrGraph) -> Error {
    match error {
        RankError::Question(PageRankError::Weight(weight)) => bad_weight(weight, input, graph),
        RankError::Question(PageRankError::NoWeights) => {
            let path = input.graph.display();
            Error::Usage(format!(
                "{path} has no weights; convert gives it some with --weights unit or random:MAX"
            ))
        }
        error => error.into(),
    }
}

/// The algorithm to run. Options of packets do not imply pushing, since sweeps send packets, too, between
/// devices that do not reach each other's memory.
fn algorithm(arguments: &Arguments) -> Result<Algorithm, Error> {
    if arguments.worklist.no_halo_filter {
        let reason = "--no-halo-filter has no meaning here: every residual is sent";
        return Err(Error::Usage(reason.to_string()));
    }
    match (arguments.algorithm, arguments.worklist.given_beside_packets()) {
        (Some(AlgorithmOption::Pull), Some(option)) => Err(meaningless(option, "pull")),
        (Some(AlgorithmOption::Pull) | None, None) => Ok(Algorithm::Pull),
        (Some(AlgorithmOption::Push), _) | (None, Some(_)) => Ok(Algorithm::Push),
    }
}

/// Handles packet options that have no effect because no packets are sent.
fn check_packets(
    arguments: &Arguments,
    algorithm: Algorithm,
    context: &Context,
) -> Result<(), Error> {
    let Some(option) = arguments.worklist.given() else { return Ok(()) };
    if algorithm != Algorithm::Pull || sends_packets(context) {
        return Ok(());
    }
    if context.all_gpus() {
        let reason = "GPUs reach each other's memory, and sweeps send no packets";
        return Err(Error::Usage(format!("{option} has no meaning here: {reason}")));
    }
    let reason = "host devices reach each other's memory, and sweeps send no packets";
    remark(format!("{option} does nothing here: {reason}, unless --transfer is copy or host"));
    Ok(())
}

/// All options except the personalization, which needs the graph to name its vertices.
fn options(arguments: &Arguments) -> Result<PageRankOptions, Error> {
    let mut options = PageRankOptions::default();
    options.algorithm = algorithm(arguments)?;
    options.precision = match arguments.precision {
        None => Precision::Auto,
        Some(PrecisionOption::F32) => Precision::F32,
        Some(PrecisionOption::F64) => Precision::F64,
    };
    options.worklist = arguments.worklist.options();
    options.patience = arguments.worklist.patience.time;
    options.damping = arguments.damping;
    options.tolerance = arguments.tolerance;
    options.max_iterations = arguments.max_iterations;
    options.weighted = arguments.weighted;
    options.unnormalized = arguments.unnormalized;
    Ok(options)
}

/// Why ranks that have not converged may not be worth a look.
const ANYWHERE: &str = "after so little work ranks may be anywhere";

/// The L1 distance of all-zero ranks from the true ones: an allowed error this large would check nothing.
const FARTHEST: f64 = 1.0;

/// The L1 error that is allowed. What one sweep in f64 changes bounds the error; it must be about `change`:
/// what the run reports, or the tolerance if the run has converged. Ranks in f32 cannot be closer than
/// their rounding; pushed ranks are f64.
fn allowed(options: &PageRankOptions, change: f64) -> f64 {
    let rounding = match (options.is_double(), options.has_double_weights()) {
        (false, _) => 1e-5,
        // Each weight is rounded by up to half a unit in the last place of f32.
        (true, false) if options.weighted => 1e-7,
        (true, _) => 1e-12,
    };
    (2.0 * change + rounding) / (1.0 - options.damping)
}

fn verify(
    graph: &CsrGraph,
    options: &PageRankOptions,
    ranks: &[f64],
    allowed: f64,
) -> Result<f64, validate::PageRankFault> {
    let scale = if options.unnormalized { 1.0 / f64::from(graph.vertices()) } else { 1.0 };
    let ranks: Vec<f64> = ranks.iter().map(|rank| rank * scale).collect();
    validate::pagerank(graph, &options.question(), &ranks, allowed)
}

fn table(report: &Report) -> String {
    let converged = if report.converged { "converged" } else { "not converged" };
    let found = format!("{converged} to {:.3e}", report.change);
    let method = format!("{} in {}", report.method, report.precision);
    report.common.table(&[
        ("method", method),
        ("ranks", found),
        ("iterations", report.iterations.to_string()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_as_close_as_what_they_were_computed_in() {
        let graph = CsrGraph::from_edges(4, &[(0, 1), (1, 2), (2, 3), (3, 0)]).unwrap();
        // A change of 1e-5 in the next sweep: more than the tolerance allows, but not f32.
        let mut ranks = [0.25; 4];
        (ranks[0], ranks[1]) = (0.25 + 2.7e-6, 0.25 - 2.7e-6);
        let mut options = PageRankOptions::default();
        assert!(verify(&graph, &options, &ranks, allowed(&options, options.tolerance)).is_ok());
        options.algorithm = Algorithm::Push;
        assert!(verify(&graph, &options, &ranks, allowed(&options, options.tolerance)).is_err());
        assert!(verify(&graph, &options, &[0.25; 4], options.tolerance).is_ok());
    }
}
