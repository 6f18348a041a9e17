//! `millstream bfs GRAPH`.

use clap::{Args, ValueEnum};
use millstream::bfs::{Algorithm, Bfs, BfsOptions, BfsResult, Delta, Error as BfsError};
use millstream::graph::{CsrGraph, validate};
use millstream::traversal::Error as TraversalError;
use serde::Serialize;

use crate::error::Error;
use crate::input::{Input, original_ids, sources};
use crate::job::Job;
use crate::options::{Predecessors, Spread, Worklist, delta, impossible, meaningless};
use crate::output::{check_all_writable, write_values};
use crate::progress::phase;
use crate::report::{Answer, Clock, Common, LayoutReport, arcs_reached};

/// Breadth-first search.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Which way to search; on the worklist if one of its options is given.
    #[arg(long, value_enum, default_value_t = AlgorithmOption::Auto)]
    algorithm: AlgorithmOption,
    /// A vertex, several (1,2,3), max-degree or center.
    #[arg(long, value_name = "V,...|max-degree|center", default_value = "max-degree")]
    source: String,
    /// Last level to reach.
    #[arg(long, value_name = "N")]
    depth_limit: Option<u32>,
    /// Step in levels: of the worklist's priority threshold (auto: 32), or between near and far piles
    /// (auto: 128, on GPUs 64 to 512, the fewer the longer rows are); off: no steps. Asks for the worklist
    /// unless --algorithm is near-far.
    #[arg(long, value_name = "X|auto|off", default_value = "auto", value_parser = delta)]
    delta: Delta,
    /// Makes no layouts beside the graph's rows (degree order, packed rows, hubs): a faster upload, but
    /// slower searches, never by near and far piles.
    #[arg(long)]
    no_layouts: bool,
    #[command(flatten)]
    predecessors: Predecessors,
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
    /// Level by level where the devices can, by near and far piles if there are many thin levels,
    /// unless an option of the worklist is given.
    Auto,
    /// On the distributed worklist, in no order.
    Asynchronous,
    /// Level by level, top-down or bottom-up.
    LevelSynchronous,
    /// By near and far piles of vertices, in graphs of few arcs and thin levels.
    NearFar,
}

#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    common: Common,
    /// The algorithm that gave the answer.
    method: String,
    reached: u64,
    max_level: Option<u32>,
    delta: Option<u32>,
    layouts: Vec<LayoutReport>,
}

/// Reads, searches, checks and answers.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Error> {
    let Arguments { input, spread, answer: how, .. } = arguments;
    let options = options(arguments)?;
    options.check()?;
    let outputs = [
        ("--output", how.output.as_ref()),
        ("--predecessors", arguments.predecessors.file.as_ref()),
        ("--trace", spread.trace()),
    ];
    check_all_writable(&outputs, &[input.named(), spread.topology()])?;
    let context = spread.context()?;
    let clock = Clock::start();
    let graph = input.read()?;
    let sources = sources(&arguments.source, input, &graph)?;
    let mut job = Job::new("bfs", (input, how), (&context, &graph), clock);
    job.common.source = Some(original_ids(&graph, &sources));
    let partition = spread.partition(&graph, context.devices().len())?;
    job.partitioned();
    let upload = async {
        match partition {
            Some(partition) => Bfs::with_partition(&context, &graph, partition, options).await,
            None => Bfs::with_options(&context, &graph, options).await,
        }
    };
    let run = async |bfs: &Bfs| bfs.run(&sources).await;
    let (result, layouts) = job
        .run("searching", upload, Bfs::layouts, run)?
        .map_err(|error| outside(error, options.algorithm))?;
    job.verify(|| verify(&graph, &sources, options.depth_limit, &result));
    let written = phase("writing", || write(arguments, &graph, &result));
    job.went_along(arcs_reached(&graph, |vertex| result.is_reached(vertex)));
    job.common.count(&result.statistics);
    job.common.useful_work_items = Some(result.reached());
    let report = |common| Report {
        common,
        method: result.algorithm.to_string(),
        reached: result.reached(),
        max_level: result.max_level(),
        delta: result.delta,
        layouts,
    };
    job.answer(report, table, written)
}

/// An error in terms of the command line.
fn outside(error: BfsError, algorithm: Algorithm) -> Error {
    match error {
        BfsError::NotLevelSynchronous
        | BfsError::NotNearFar { .. }
        | BfsError::Traversal(TraversalError::NotPushed { .. }) => impossible(algorithm, error),
        error => error.into(),
    }
}

fn options(arguments: &Arguments) -> Result<BfsOptions, Error> {
    let mut options = BfsOptions::default();
    options.algorithm = algorithm(arguments)?;
    options.worklist = arguments.worklist.options();
    options.patience = arguments.worklist.patience.time;
    options.depth_limit = arguments.depth_limit;
    options.layouts = !arguments.no_layouts;
    options.predecessors = arguments.predecessors.file.is_some();
    options.delta = arguments.delta;
    Ok(options)
}

fn algorithm(arguments: &Arguments) -> Result<Algorithm, Error> {
    let delta = match (arguments.algorithm, arguments.delta) {
        // Piles have steps, too.
        (AlgorithmOption::NearFar, _) | (_, Delta::Auto) => None,
        _ => Some("--delta"),
    };
    let given = arguments.worklist.given().or(delta);
    let algorithm = match (arguments.algorithm, given) {
        (AlgorithmOption::Auto, None) => Algorithm::Auto,
        (AlgorithmOption::LevelSynchronous, None) => Algorithm::LevelSynchronous,
        (AlgorithmOption::LevelSynchronous, Some(option)) => {
            return Err(meaningless(option, "level-synchronous"));
        }
        (AlgorithmOption::NearFar, None) => Algorithm::NearFar,
        (AlgorithmOption::NearFar, Some(option)) => return Err(meaningless(option, "near-far")),
        (AlgorithmOption::Auto | AlgorithmOption::Asynchronous, _) => Algorithm::Asynchronous,
    };
    match (algorithm, given) {
        _ if !arguments.no_layouts => Ok(algorithm),
        (Algorithm::Asynchronous, Some(option)) => Err(Error::Usage(format!(
            "--no-layouts has no meaning with {option}, which asks for the worklist"
        ))),
        (Algorithm::Asynchronous, None) => Err(meaningless("--no-layouts", "asynchronous")),
        (Algorithm::NearFar, _) => {
            let reason = "that reads packed rows";
            Err(Error::Usage(format!(
                "--no-layouts does not go with --algorithm near-far: {reason}"
            )))
        }
        _ => Ok(algorithm),
    }
}

/// Writes the requested files; tries the second even if the first could not be written.
fn write(arguments: &Arguments, graph: &CsrGraph, result: &BfsResult) -> Result<(), Error> {
    let ids = graph.original_ids();
    let levels = arguments.answer.output.as_ref();
    let levels = levels.map_or(Ok(()), |path| write_values(path, ids, &result.levels));
    levels.and(arguments.predecessors.write(ids, result.predecessors.as_deref()))
}

fn verify(
    graph: &CsrGraph,
    sources: &[u32],
    depth_limit: Option<u32>,
    result: &BfsResult,
) -> Result<(), validate::BfsFault> {
    validate::bfs_levels(graph, sources, depth_limit, &result.levels)?;
    match &result.predecessors {
        Some(predecessors) => validate::bfs_predecessors(graph, &result.levels, predecessors),
        None => Ok(()),
    }
}

fn table(report: &Report) -> String {
    let max_level = report.max_level.map_or("-".to_string(), |level| level.to_string());
    let found = format!("{}, last level {max_level}", report.reached);
    report.common.table(&[("method", report.method.clone()), ("reached", found)])
}
