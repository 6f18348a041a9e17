//! `millstream sssp GRAPH`.

use clap::{Args, ValueEnum};
use millstream::graph::{CsrGraph, Weights, validate};
use millstream::sssp::{
    Algorithm, Delta, Distances, Error as SsspError, Sssp, SsspOptions, SsspResult,
};
use millstream::traversal::Error as TraversalError;
use serde::Serialize;

use crate::error::Error;
use crate::input::{Input, bad_weight, original_id, original_ids, sources};
use crate::job::Job;
use crate::options::{Predecessors, Spread, Worklist, delta, impossible, meaningless};
use crate::output::{check_all_writable, shortest, write_values};
use crate::progress::phase;
use crate::report::{Answer, Clock, Common, LayoutReport, arcs_reached};
use crate::weights::{WeightsOption, weights};

/// Shortest paths.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A vertex, several (1,2,3), max-degree or center.
    #[arg(long, value_name = "V,...|max-degree|center", default_value = "max-degree")]
    source: String,
    /// Weights in place of the graph's own: unit, or random:MAX for integers from 1
    /// to MAX (at most 4294967295), or for reals up to MAX if it has a decimal point (1.0).
    #[arg(long, value_name = "unit|random:MAX", value_parser = weights)]
    weights: Option<WeightsOption>,
    /// Which way to search; on the worklist if one of its options is given.
    #[arg(long, value_enum, default_value_t = AlgorithmOption::Auto)]
    algorithm: AlgorithmOption,
    /// Step of the priority threshold, or of the search, as a distance; auto, or off for
    /// none.
    #[arg(long, value_name = "X|auto|off", default_value = "auto", value_parser = delta)]
    delta: Delta,
    /// Largest distance to reach.
    #[arg(long, value_name = "X")]
    cutoff: Option<f64>,
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
    /// In steps where the devices can and the graph needs few steps; by near and far piles where it
    /// has few arcs; on the worklist if one of its options is given.
    Auto,
    /// On the distributed worklist, in no order but that of priorities.
    Asynchronous,
    /// In steps of distance, the devices meeting after each round.
    Stepping,
    /// By near and far piles of vertices, in graphs of few arcs a vertex.
    NearFar,
}

#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    common: Common,
    /// The algorithm that gave the answer.
    method: String,
    reached: u64,
    max_distance: serde_json::Value,
    delta: Option<f64>,
    layouts: Vec<LayoutReport>,
}

/// Reads, searches, checks and answers.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Error> {
    let Arguments { input, spread, answer: how, .. } = arguments;
    let mut options = options(arguments)?;
    options.check()?;
    let outputs = [
        ("--output", how.output.as_ref()),
        ("--predecessors", arguments.predecessors.file.as_ref()),
        ("--trace", spread.trace()),
    ];
    check_all_writable(&outputs, &[input.named(), spread.topology()])?;
    let context = spread.context()?;
    let clock = Clock::start();
    let graph = weighted(arguments, input.read()?)?;
    let sources = sources(&arguments.source, input, &graph)?;
    let cutoff = cutoff(arguments, &graph);
    options.cutoff = cutoff;
    let mut job = Job::new("sssp", (input, how), (&context, &graph), clock);
    job.common.source = Some(original_ids(&graph, &sources));
    let partition = spread.partition_of_paths(&graph, context.devices().len())?;
    job.partitioned();
    let upload = async {
        match partition {
            Some(partition) => Sssp::with_partition(&context, &graph, partition, options).await,
            None => Sssp::with_options(&context, &graph, options).await,
        }
    };
    let run = async |sssp: &Sssp| sssp.run(&sources).await;
    let (result, layouts) = job
        .run("searching", upload, Sssp::layouts, run)?
        .map_err(|error| outside(error, options.algorithm, (input, &graph)))?;
    job.verify(|| verify(&graph, &sources, cutoff, &result));
    let written = phase("writing", || write(arguments, &graph, &result));
    job.went_along(arcs_reached(&graph, |vertex| result.is_reached(vertex)));
    job.common.count(&result.statistics);
    job.common.useful_work_items = Some(result.reached());
    let report = |common| Report {
        common,
        method: result.algorithm.to_string(),
        reached: result.reached(),
        max_distance: max_distance(&result),
        delta: delta_used(&result),
        layouts,
    };
    job.answer(report, table, written)
}

/// The graph with the requested weights, or its own.
fn weighted(arguments: &Arguments, graph: CsrGraph) -> Result<CsrGraph, Error> {
    match arguments.weights {
        Some(weights) => weights.given_to(graph),
        None if graph.weights().is_some() => Ok(graph),
        None => Err(Error::Usage(format!(
            "{} has no weights; give it some with --weights unit or --weights random:MAX",
            arguments.input.graph.display()
        ))),
    }
}

fn algorithm(arguments: &Arguments) -> Result<Algorithm, Error> {
    match (arguments.algorithm, arguments.worklist.given()) {
        (AlgorithmOption::Auto, None) => Ok(Algorithm::Auto),
        (AlgorithmOption::Stepping, None) => Ok(Algorithm::Stepping),
        (AlgorithmOption::NearFar, None) => Ok(Algorithm::NearFar),
        (AlgorithmOption::Stepping, Some(option)) => Err(meaningless(option, "stepping")),
        (AlgorithmOption::NearFar, Some(option)) => Err(meaningless(option, "near-far")),
        (AlgorithmOption::Auto | AlgorithmOption::Asynchronous, _) => Ok(Algorithm::Asynchronous),
    }
}

/// The cutoff in the type of the weights, so that a cutoff of 0.1 is not less than a 32-bit weight
/// of 0.1.
fn cutoff(arguments: &Arguments, graph: &CsrGraph) -> Option<f64> {
    match graph.weights() {
        Some(Weights::Real(_)) => arguments.cutoff.map(|cutoff| f64::from(cutoff as f32)),
        _ => arguments.cutoff,
    }
}

/// The options; their cutoff is the number as written, whatever the type of the weights.
fn options(arguments: &Arguments) -> Result<SsspOptions, Error> {
    let mut options = SsspOptions::default();
    options.algorithm = algorithm(arguments)?;
    options.worklist = arguments.worklist.options();
    options.patience = arguments.worklist.patience.time;
    options.cutoff = arguments.cutoff;
    options.predecessors = arguments.predecessors.file.is_some();
    options.delta = arguments.delta;
    Ok(options)
}

/// An integer for integer weights; for reals, as in the file of distances, the shortest decimal that
/// identifies the 32-bit real.
fn max_distance(result: &SsspResult) -> serde_json::Value {
    match (&result.distances, result.max_distance()) {
        (Distances::Integer(_), Some(distance)) => serde_json::json!(distance as u64),
        (_, distance) => serde_json::json!(distance.and_then(shortest)),
    }
}

/// The step used, in the same form as [`max_distance`].
fn delta_used(result: &SsspResult) -> Option<f64> {
    match result.distances {
        Distances::Integer(_) => result.delta,
        Distances::Real(_) => result.delta.and_then(shortest),
    }
}

/// An error in terms of the command line and of the file: vertices by the file's ids, and faults of the
/// file with its name.
fn outside(error: SsspError, algorithm: Algorithm, (input, graph): (&Input, &CsrGraph)) -> Error {
    match error {
        SsspError::Weight(weight) => bad_weight(weight, input, graph),
        SsspError::Overflow { vertex } => {
            let (path, vertex) = (input.graph.clone(), original_id(graph, vertex));
            Error::Overflow { path, vertex }
        }
        SsspError::NotStepping
        | SsspError::NotNearFar { .. }
        | SsspError::Traversal(TraversalError::NotPushed { .. }) => impossible(algorithm, error),
        error => error.into(),
    }
}

/// Writes the requested files; tries the second even if the first could not be written.
fn write(arguments: &Arguments, graph: &CsrGraph, result: &SsspResult) -> Result<(), Error> {
    let ids = graph.original_ids();
    let distances = match (&arguments.answer.output, &result.distances) {
        (Some(path), Distances::Integer(distances)) => write_values(path, ids, distances),
        (Some(path), Distances::Real(distances)) => write_values(path, ids, distances),
        (None, _) => Ok(()),
    };
    distances.and(arguments.predecessors.write(ids, result.predecessors.as_deref()))
}

fn verify(
    graph: &CsrGraph,
    sources: &[u32],
    cutoff: Option<f64>,
    result: &SsspResult,
) -> Result<(), validate::SsspFault> {
    validate::sssp_distances(graph, sources, cutoff, &result.distances)?;
    match &result.predecessors {
        Some(predecessors) => {
            validate::sssp_predecessors(graph, sources, &result.distances, predecessors)
        }
        None => Ok(()),
    }
}

fn table(report: &Report) -> String {
    let largest = match &report.max_distance {
        serde_json::Value::Null => "-".to_string(),
        distance => distance.to_string(),
    };
    let found = format!("{}, largest distance {largest}", report.reached);
    let delta = report.delta.map_or("off".into(), |delta| match (1e-3..1e9).contains(&delta) {
        true => format!("{delta:.3}"),
        false => format!("{delta:.3e}"),
    });
    let method = report.method.clone();
    report.common.table(&[("method", method), ("reached", found), ("delta", delta)])
}
