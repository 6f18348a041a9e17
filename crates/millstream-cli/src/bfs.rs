//! `millstream bfs GRAPH`.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use millstream::bfs::{Bfs, BfsOptions, BfsResult, UNREACHED};
use millstream::graph::{CsrGraph, validate};
use serde::Serialize;

use crate::error::Error;
use crate::input::{Input, original_ids, sources};
use crate::interrupt::run_interruptibly;
use crate::options::Spread;
use crate::output::{
    Link, PerDevice, answer, check_writable, facts, link_table, links, per_device, write_values,
};
use crate::progress::phase;

/// Breadth-first search.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    spread: Spread,
    /// A vertex, several (1,2,3), max-degree or center.
    #[arg(long, default_value = "max-degree")]
    source: String,
    /// Last level to reach.
    #[arg(long)]
    depth_limit: Option<u32>,
    /// Steps of the priority threshold, in levels; auto is 1.
    #[arg(long, default_value = "auto")]
    delta: String,
    /// Bytes of a packet at most.
    #[arg(long, default_value_t = 1 << 18)]
    packet_bytes: usize,
    /// Packet buffers of each link.
    #[arg(long, default_value_t = 2)]
    buffers: usize,
    /// Checks the answer with a validator that trusts no solver.
    #[arg(long)]
    verify: bool,
    /// Prints one JSON object instead of a table.
    #[arg(long)]
    json: bool,
    /// Writes the level of each vertex; .npy by extension.
    #[arg(long)]
    output: Option<PathBuf>,
    /// Writes the predecessor of each vertex; .npy by extension.
    #[arg(long)]
    predecessors: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Phases {
    read: f64,
    partition: f64,
    upload: f64,
    run: f64,
    gather: f64,
}

#[derive(Debug, Serialize)]
struct Report {
    algorithm: &'static str,
    graph: String,
    vertices: u32,
    edges: u64,
    devices: Vec<String>,
    source: Vec<u64>,
    time_ms: f64,
    phases_ms: Phases,
    teps: f64,
    work_items: u64,
    useful_work_items: u64,
    verified: Option<bool>,
    reached: u64,
    max_level: Option<u32>,
    links: Vec<Link>,
    per_device: Vec<PerDevice>,
}

/// Milliseconds since the last call.
struct Clock(Instant);

impl Clock {
    fn lap(&mut self) -> f64 {
        let now = Instant::now();
        let lap = now - std::mem::replace(&mut self.0, now);
        lap.as_secs_f64() * 1e3
    }
}

/// Reads, searches, checks and answers.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Error> {
    let options = options(arguments)?;
    [&arguments.output, &arguments.predecessors]
        .into_iter()
        .flatten()
        .try_for_each(|path| check_writable(path))?;
    let context = arguments.spread.context()?;
    let mut clock = Clock(Instant::now());
    let graph = arguments.input.read()?;
    let sources = sources(&arguments.source, &graph)?;
    let read = clock.lap();
    let partition = arguments.spread.partition(&graph, context.devices().len())?;
    let partitioned = clock.lap();
    let search = async {
        let bfs = Bfs::with_partition(&context, &graph, partition).await?.with_options(options);
        let upload = clock.lap();
        Ok::<_, millstream::bfs::Error>((upload, bfs.run(&sources).await?))
    };
    let (upload, result) = phase("searching", || run_interruptibly(&context, search))??;
    let fault = match arguments.verify {
        true => phase("verifying", || verify(&graph, &sources, options.depth_limit, &result)).err(),
        false => None,
    };
    phase("writing", || write(arguments, &graph, &result))?;
    let run = result.run_time.as_secs_f64() * 1e3;
    let reached = (0..graph.vertices()).filter(|v| result.levels[*v as usize] != UNREACHED);
    let arcs: u64 = reached.map(|vertex| graph.degree(vertex)).sum();
    let report = Report {
        algorithm: "bfs",
        graph: arguments.input.graph.display().to_string(),
        vertices: graph.vertices(),
        edges: graph.arcs(),
        devices: context.devices().iter().map(ToString::to_string).collect(),
        source: original_ids(&graph, &sources),
        time_ms: run,
        phases_ms: Phases {
            read,
            partition: partitioned,
            upload,
            run,
            gather: result.gather_time.as_secs_f64() * 1e3,
        },
        teps: arcs as f64 / result.run_time.as_secs_f64(),
        work_items: result.statistics.work_items(),
        useful_work_items: result.reached(),
        verified: arguments.verify.then_some(fault.is_none()),
        reached: result.reached(),
        max_level: result.max_level(),
        links: links(&result.statistics.links),
        per_device: per_device(&result.statistics),
    };
    answer(&report, arguments.json, table)?;
    fault.map_or(Ok(()), |fault| Err(Error::NotVerified(fault.to_string())))
}

fn options(arguments: &Arguments) -> Result<BfsOptions, Error> {
    let mut options = BfsOptions::default();
    options.routing = arguments.spread.routing();
    options.depth_limit = arguments.depth_limit.unwrap_or(UNREACHED);
    options.predecessors = arguments.predecessors.is_some();
    options.packet_bytes = arguments.packet_bytes;
    options.buffers = arguments.buffers;
    options.delta = match arguments.delta.as_str() {
        "auto" => Some(1),
        delta => match delta.parse() {
            Ok(delta) if delta > 0 => Some(delta),
            _ => return Err(Error::Usage(format!("delta {delta:?} is neither auto nor positive"))),
        },
    };
    Ok(options)
}

/// Writes the files that were asked for.
fn write(arguments: &Arguments, graph: &CsrGraph, result: &BfsResult) -> Result<(), Error> {
    let ids = graph.original_ids();
    if let Some(path) = &arguments.output {
        write_values(path, ids, &result.levels)?;
    }
    match (&arguments.predecessors, &result.predecessors, ids) {
        (Some(path), Some(predecessors), None) => write_values(path, ids, predecessors),
        (Some(path), Some(predecessors), Some(original)) => {
            let named = |&vertex: &u32| original.get(vertex as usize).copied().unwrap_or(u64::MAX);
            let predecessors: Vec<u64> = predecessors.iter().map(named).collect();
            write_values(path, ids, &predecessors)
        }
        _ => Ok(()),
    }
}

fn verify(
    graph: &CsrGraph,
    sources: &[u32],
    depth_limit: u32,
    result: &BfsResult,
) -> Result<(), validate::BfsFault> {
    validate::bfs_levels(graph, sources, depth_limit, &result.levels)?;
    match &result.predecessors {
        Some(predecessors) => validate::bfs_predecessors(graph, &result.levels, predecessors),
        None => Ok(()),
    }
}

fn table(report: &Report) -> String {
    let useful = report.useful_work_items as f64 / report.work_items.max(1) as f64;
    let max_level = report.max_level.map_or("-".to_string(), |level| level.to_string());
    let size = format!("{} vertices, {} arcs", report.vertices, report.edges);
    let mut text = facts(&[
        ("graph", format!("{}, {size}", report.graph)),
        ("devices", report.devices.join(" ")),
        ("reached", format!("{}, last level {max_level}", report.reached)),
        ("time", format!("{:.3} ms", report.time_ms)),
        ("TEPS", format!("{:.3e}", report.teps)),
        ("work items", format!("{} ({:.0} % useful)", report.work_items, useful * 100.0)),
    ])
    .to_string();
    if !report.links.is_empty() {
        text += &format!("\n{}", link_table(&report.links));
    }
    text + if report.verified == Some(true) { "\nverified" } else { "" }
}
