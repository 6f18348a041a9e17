//! What the answers of all algorithms say, as in JSON output.

use std::time::{Duration, Instant};

use clap::Args;
use millstream::flow::Context;
use millstream::graph::CsrGraph;
use millstream::traversal::Layout;
use millstream::worklist::{Routing, Worker, WorklistStatistics};
use serde::Serialize;
use std::path::PathBuf;

use crate::input::Input;
use crate::output::{Link, PerDevice, facts, link_table, links, per_device};
use crate::repeat::Repeat;

/// What a layout beside the graph's rows has cost; making it is part of the upload.
#[derive(Debug, Serialize)]
pub(crate) struct LayoutReport {
    kind: String,
    bytes: u64,
    time_ms: f64,
}

impl LayoutReport {
    pub(crate) fn of_all(layouts: Vec<Layout>) -> Vec<LayoutReport> {
        let report = |Layout { kind, bytes, time }| LayoutReport {
            kind: kind.to_string(),
            bytes,
            time_ms: milliseconds(time),
        };
        layouts.into_iter().map(report).collect()
    }
}

/// How the answer is given.
#[derive(Debug, Args)]
#[command(next_help_heading = "Answer")]
pub(crate) struct Answer {
    /// Checks the answer with a validator that is independent of the solvers.
    #[arg(long)]
    pub(crate) verify: bool,
    /// Prints one JSON object instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
    /// Writes a line `vertex value` for each vertex; inf if it is not reached. With the
    /// extension .npy writes an array, in which 4294967295 stands for inf, except for
    /// reals; with --relabel an array of records of a vertex and its value. A final
    /// extension .gz or .zst compresses either.
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) repeat: Repeat,
}

/// Milliseconds of each part of the work.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Phases {
    pub(crate) read: f64,
    pub(crate) partition: f64,
    pub(crate) upload: f64,
    pub(crate) prepare: f64,
    pub(crate) run: f64,
    pub(crate) gather: f64,
}

/// The keys that all answers have.
#[derive(Debug, Serialize)]
pub(crate) struct Common {
    pub(crate) algorithm: &'static str,
    pub(crate) graph: String,
    pub(crate) vertices: u32,
    pub(crate) edges: u64,
    pub(crate) devices: Vec<String>,
    /// Where a search began, by the ids of the file; `null` for algorithms without sources.
    pub(crate) source: Option<Vec<u64>>,
    pub(crate) time_ms: f64,
    /// The times of all runs that count, in order.
    times_ms: Vec<f64>,
    pub(crate) phases_ms: Phases,
    pub(crate) teps: f64,
    /// Who drove the worklist, if there was one.
    worker: Option<&'static str>,
    /// The worklist's routing.
    routing: Option<&'static str>,
    pub(crate) work_items: u64,
    /// `null` where not all work is counted.
    pub(crate) useful_work_items: Option<u64>,
    pub(crate) verified: Option<bool>,
    pub(crate) links: Vec<Link>,
    pub(crate) per_device: Vec<PerDevice>,
}

impl Common {
    /// What is known before the algorithm runs.
    pub(crate) fn new(
        algorithm: &'static str,
        input: &Input,
        graph: &CsrGraph,
        context: &Context,
    ) -> Common {
        Common {
            algorithm,
            graph: input.graph.display().to_string(),
            vertices: graph.vertices(),
            edges: graph.arcs(),
            devices: context.devices().iter().map(ToString::to_string).collect(),
            source: None,
            time_ms: 0.0,
            times_ms: Vec::new(),
            phases_ms: Phases::default(),
            teps: 0.0,
            worker: None,
            routing: None,
            work_items: 0,
            useful_work_items: None,
            verified: None,
            links: Vec::new(),
            per_device: Vec::new(),
        }
    }

    /// Takes in the run times (their median, and each), the time to gather the answer on the host, and the
    /// time of everything else.
    pub(crate) fn ran(
        &mut self,
        prepare: Duration,
        (run, each): (Duration, &[Duration]),
        gather: Duration,
    ) {
        self.time_ms = milliseconds(run);
        self.times_ms = each.iter().copied().map(milliseconds).collect();
        self.phases_ms.prepare = milliseconds(prepare);
        self.phases_ms.run = self.time_ms;
        self.phases_ms.gather = milliseconds(gather);
    }

    /// Takes in what a run has counted.
    pub(crate) fn count(&mut self, statistics: &WorklistStatistics) {
        self.worker = statistics.worker.map(worker_name);
        self.routing = statistics.routing.map(routing_name);
        self.work_items = statistics.work_items();
        self.links = links(&statistics.links);
        self.per_device = per_device(&statistics.devices);
    }

    /// The table of an answer; `found` are the rows of the algorithm's own.
    pub(crate) fn table(&self, found: &[(&str, String)]) -> String {
        let size = format!("{} vertices, {} arcs", self.vertices, self.edges);
        let mut rows =
            vec![("graph", format!("{}, {size}", self.graph)), ("devices", self.devices.join(" "))];
        rows.extend(found.iter().cloned());
        if let (Some(worker), Some(routing)) = (self.worker, self.routing) {
            rows.push(("worklist", format!("{worker}, {routing}")));
        }
        rows.push(("time", format!("{:.3} ms", self.time_ms)));
        rows.push(("TEPS", format!("{:.3e}", self.teps)));
        if self.work_items > 0 {
            let share = |useful: u64| useful as f64 / self.work_items as f64 * 100.0;
            let useful = self.useful_work_items.map(|it| format!(" ({:.0} % useful)", share(it)));
            let useful = useful.unwrap_or_default();
            rows.push(("work items", format!("{}{useful}", self.work_items)));
        }
        let mut text = facts(&rows);
        if !self.links.is_empty() {
            text += &format!("\n{}", link_table(&self.links));
        }
        text + if self.verified == Some(true) { "\nverified" } else { "" }
    }
}

fn worker_name(worker: Worker) -> &'static str {
    match worker {
        Worker::Auto => "auto",
        Worker::HostDriven => "host",
        Worker::Fused => "fused",
    }
}

fn routing_name(routing: Routing) -> &'static str {
    match routing {
        Routing::Auto => "auto",
        Routing::Direct => "direct",
        Routing::Ring => "ring",
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Milliseconds since the last call.
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock(Instant::now())
    }

    pub(crate) fn lap(&mut self) -> f64 {
        let now = Instant::now();
        milliseconds(now - std::mem::replace(&mut self.0, now))
    }
}

/// The number of arcs that leave vertices for which `is_reached` holds.
pub(crate) fn arcs_reached(graph: &CsrGraph, is_reached: impl Fn(u32) -> bool) -> u64 {
    let reached = (0..graph.vertices()).filter(|&vertex| is_reached(vertex));
    reached.map(|vertex| graph.degree(vertex)).sum()
}
