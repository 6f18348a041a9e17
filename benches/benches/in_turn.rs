//! BFS and SSSP on one host device and textbook algorithms on rayon in turn, in one
//! process, and the lowest time of each: what others do on the machine meanwhile
//! disturbs both alike. The graphs and sources of `textbook_paths`.

#![allow(missing_docs, clippy::unwrap_used)]

use std::time::Duration;

use clap::Parser;
use comfy_table::Table;
use millstream::graph::source::max_degree;
use millstream::graph::{Weights, reference};
use millstream::prelude::*;
use millstream::sssp::{Delta, Distances, SsspOptions};
use millstream_benches::textbook::{self, timed};

#[derive(Parser)]
struct Arguments {
    /// Runs of each.
    #[arg(long, default_value_t = 60)]
    runs: usize,
    /// Threads, one number after the other.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    threads: Vec<usize>,
    /// What is measured: those whose names contain this.
    #[arg(long, default_value = "")]
    only: String,
    /// Delta of SSSP, ours and the textbook's; the automatic one if it is not given.
    #[arg(long)]
    delta: Option<f64>,
    /// Cargo gives this.
    #[arg(long, hide = true)]
    bench: bool,
}

/// Runs both in turn; the lowest time of each.
fn lowest(
    runs: usize,
    ours: impl Fn() -> Duration,
    textbook: impl Fn() -> Duration,
) -> [Duration; 2] {
    let both = (0..runs).map(|_| [ours(), textbook()]);
    both.reduce(|[a, b], [c, d]| [a.min(c), b.min(d)]).unwrap()
}

fn main() {
    let arguments = Arguments::parse();
    let mut table = Table::new();
    table.set_header(["", "threads", "ours, ms", "textbook, ms", "ratio"]);
    for (graph_name, graph) in &textbook::graphs().unwrap() {
        let Some(Weights::Integer(weights)) = graph.weights() else { unreachable!("integers") };
        let source = max_degree(graph).unwrap();
        for &threads in &arguments.threads {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let builder = Context::builder().devices(Devices::host(1)).threads(threads);
            let context = builder.build().unwrap();
            let mut row = |algorithm: &str, [ours, textbook]: [Duration; 2]| {
                let milliseconds = |time: Duration| format!("{:.2}", time.as_secs_f64() * 1e3);
                table.add_row([
                    format!("{graph_name}, {algorithm}"),
                    threads.to_string(),
                    milliseconds(ours),
                    milliseconds(textbook),
                    format!("{:.2}", ours.as_secs_f64() / textbook.as_secs_f64()),
                ]);
            };
            let is_asked =
                |algorithm: &str| format!("{graph_name}, {algorithm}").contains(&arguments.only);
            if is_asked("BFS") {
                let bfs = context.block_on(Bfs::new(&context, graph)).unwrap().unwrap();
                let ours = || context.block_on(bfs.run(&[source])).unwrap().unwrap().run_time;
                let textbook = || pool.install(|| timed(|| textbook::bfs(graph, source)));
                row("BFS", lowest(arguments.runs, ours, textbook));
            }
            if is_asked("SSSP") {
                let mut options = SsspOptions::default();
                options.delta = arguments.delta.map_or(Delta::Auto, Delta::Step);
                let sssp = context.block_on(Sssp::new(&context, graph)).unwrap().unwrap();
                let sssp = sssp.with_options(options);
                let search = || context.block_on(sssp.run(&[source])).unwrap().unwrap();
                let delta = search().delta.unwrap().round().max(1.0) as u32;
                let expected = Distances::Integer(textbook::sssp(graph, weights, source, delta));
                assert_eq!(search().distances, expected, "{graph_name}");
                assert_eq!(reference::dijkstra(graph, &[source]).unwrap(), expected);
                let ours = || search().run_time;
                let run = || textbook::sssp(graph, weights, source, delta);
                let textbook = || pool.install(|| timed(run));
                row("SSSP", lowest(arguments.runs, ours, textbook));
            }
        }
    }
    println!("{table}");
}
