//! The effect of each idea (Ben-Nun et al., *Groute*, ACM TOPC 7(3), art. 18, 2020, table 4):
//! shortest paths driven by the host, without priorities and along a ring; then with priorities;
//! then by the fused worker (where it can run); then straight to the owners. For each graph and
//! list of devices, prints the median time and the number of work items of each step, after one run
//! that does not count, and checks that all steps find the same distances:
//!
//!     cargo bench -p millstream-benches --bench ablation -- road.mill --devices cuda:0 --devices cuda:0-3

#![allow(missing_docs, clippy::unwrap_used)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use clap::Parser;
use clap::builder::RangedU64ValueParser;
use futures_util::future::abortable;
use millstream::device::DeviceList;
use millstream::graph::generate::{self, GenerateOptions};
use millstream::graph::partition;
use millstream::graph::read::{ReadOptions, read_graph};
use millstream::graph::source::{center, max_degree};
use millstream::prelude::*;
use millstream::sssp::Algorithm;
use millstream::worklist;
use millstream_benches::{available, open, refuse};

/// Steps from the plain distributed worklist to all ideas together, on shortest paths.
#[derive(Debug, Parser)]
struct Arguments {
    /// Graphs with weights; a small road map and a small Kronecker graph if none is named.
    graphs: Vec<PathBuf>,
    /// Lists of devices, one after the other; those of MILLSTREAM_DEVICES, or all, if none
    /// is named.
    #[arg(long)]
    devices: Vec<DeviceList>,
    /// Runs of each step.
    #[arg(long, default_value_t = 5, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    runs: usize,
    /// A run that takes longer than this is stopped, and its step ends.
    #[arg(long, default_value = "60", value_parser = seconds)]
    seconds: Duration,
    /// Passed by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|error| format!("{error}"))?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// One row of the table.
struct Step {
    name: &'static str,
    delta: Delta,
    worker: Worker,
    routing: Routing,
}

const STEPS: [Step; 4] = [
    Step {
        name: "unoptimized",
        delta: Delta::Off,
        worker: Worker::HostDriven,
        routing: Routing::Ring,
    },
    Step {
        name: "+ priority",
        delta: Delta::Auto,
        worker: Worker::HostDriven,
        routing: Routing::Ring,
    },
    Step {
        name: "+ fused worker",
        delta: Delta::Auto,
        worker: Worker::Fused,
        routing: Routing::Ring,
    },
    Step {
        name: "+ direct routing",
        delta: Delta::Auto,
        worker: Worker::Fused,
        routing: Routing::Direct,
    },
];

impl Step {
    fn options(&self, worker: Worker) -> SsspOptions {
        let mut options = SsspOptions::default();
        options.algorithm = Algorithm::Asynchronous;
        options.delta = self.delta;
        options.worklist.worker = worker;
        options.worklist.routing = self.routing;
        options
    }
}

/// Why there is no time for a step.
enum Missing {
    TooLong,
    Failed(millstream::sssp::Error),
}

/// Runs once, and stops after `limit`.
fn run(
    context: &Context,
    sssp: &Sssp,
    source: u32,
    limit: Duration,
) -> Result<SsspResult, Missing> {
    let (search, handle) = abortable(sssp.run(std::slice::from_ref(&source)));
    let (over, wait) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if wait.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
                handle.abort();
            }
        });
        let result = context.block_on(search).unwrap();
        drop(over);
        result.map_err(|_| Missing::TooLong)?.map_err(Missing::Failed)
    })
}

/// Runs all steps on one graph and one list of devices. Returns whether none failed.
fn ablation(name: &str, graph: &CsrGraph, list: &DeviceList, arguments: &Arguments) -> bool {
    let context = open(list.clone());
    let devices = context.devices().len();
    let source = graph.lattice_width().map_or_else(|| max_degree(graph), |_| center(graph));
    let source = source.unwrap_or_else(|| refuse(format_args!("{name} has no vertices")));
    let upload = |graph: &CsrGraph| {
        let parts = partition::edge_balanced_blocks(graph, devices);
        let options = STEPS[0].options(Worker::HostDriven);
        let uploaded = context.block_on(Sssp::with_partition(&context, graph, parts, options));
        uploaded.unwrap().unwrap_or_else(|error| refuse(format_args!("{name}: {error}")))
    };
    let arc = CsrGraph::from_weighted_edges(2, &[(0, 1, 1_u32)]).unwrap();
    let (mut sssp, mut of_an_arc) = (upload(graph), upload(&arc));
    let (mut distances, mut is_fused, mut all_ran) = (None, true, true);
    for step in &STEPS {
        let worker = if is_fused { step.worker } else { Worker::HostDriven };
        sssp.set_options(step.options(worker)).unwrap();
        of_an_arc.set_options(step.options(worker)).unwrap();
        // Compiles the kernels, which may take longer than a run may; the runs say what fails.
        let _ = context.block_on(of_an_arc.run(&[0])).unwrap();
        // The first run does not count.
        let results: Result<Vec<_>, _> =
            (0..=arguments.runs).map(|_| run(&context, &sssp, source, arguments.seconds)).collect();
        let row = match results {
            Err(Missing::TooLong) => format!("more than {:?} | ", arguments.seconds),
            Err(Missing::Failed(error)) => match not_fused(&error) {
                Some(reason) => {
                    is_fused = false;
                    format!("not here: {reason} | ")
                }
                None => {
                    all_ran = false;
                    format!("failed: {error} | ")
                }
            },
            Ok(mut results) => {
                for result in &results {
                    let expected = distances.get_or_insert_with(|| result.distances.clone());
                    assert!(*expected == result.distances, "{}: other distances", step.name);
                }
                results.remove(0);
                results.sort_by_key(|result| result.run_time);
                let median = &results[results.len() / 2];
                let milliseconds = median.run_time.as_secs_f64() * 1e3;
                format!("{milliseconds:.2} | {}", median.statistics.work_items())
            }
        };
        let by_host = if worker == step.worker { "" } else { ", driven by the host" };
        println!("| {name} | {devices} | {}{by_host} | {row} |", step.name);
    }
    all_ran
}

/// Why the fused worker cannot run, if that is the error.
fn not_fused(error: &millstream::sssp::Error) -> Option<&'static str> {
    use millstream::{sssp, traversal};
    match error {
        sssp::Error::Traversal(traversal::Error::Worklist(worklist::Error::NotFused {
            reason,
        })) => Some(reason),
        _ => None,
    }
}

/// The graphs of the command line, with their names.
fn graphs(files: &[PathBuf]) -> Vec<(String, CsrGraph)> {
    if files.is_empty() {
        let options = GenerateOptions { max_weight: Some(64), seed: 0 };
        let kron = generate::kron(12, 16, &options).unwrap();
        let road = generate::road(100, 100, 605, &options).unwrap();
        return vec![("road 100".into(), road), ("kron 12 16".into(), kron)];
    }
    let read = |file: &PathBuf| {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let graph = read_graph(file, &ReadOptions::default());
        (name, graph.unwrap_or_else(|error| refuse(error)))
    };
    files.iter().map(read).collect()
}

fn main() -> ExitCode {
    set_driver_defaults();
    let mut arguments = Arguments::parse();
    if arguments.devices.is_empty() {
        arguments.devices.push(available());
    }
    println!("| graph | devices | worklist | ms | work items |");
    println!("|---|---|---|---|---|");
    let mut all_ran = true;
    for (name, graph) in graphs(&arguments.graphs) {
        for list in &arguments.devices {
            all_ran &= ablation(&name, &graph, list, &arguments);
        }
    }
    if all_ran { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
