//! The four algorithms on host devices against textbook algorithms on rayon. Both run alternately
//! in one process, and the lowest time of each counts, so that other load on the machine disturbs
//! both alike. Both clocks begin when memory is ready. Either one device has all threads, or each
//! device has one. PageRank makes ten sweeps by pulling, in f32.

#![allow(missing_docs, clippy::unwrap_used)]

use std::time::{Duration, Instant};

use clap::Parser;
use clap::builder::RangedU64ValueParser;
use comfy_table::Table;
use millstream::graph::Weights;
use millstream::graph::generate::GenerateOptions;
use millstream::graph::source::max_degree;
use millstream::pagerank::Precision;
use millstream::prelude::*;
use millstream::sssp::{Delta, Distances, SsspOptions};
use millstream_benches::refuse;
use millstream_benches::textbook::{self, timed};
use rayon::ThreadPool;

/// No graph converges to this, so there are always equally many sweeps.
const TOLERANCE: f64 = 0.0;
const SWEEPS: u32 = 10;

/// The largest L1 distance allowed between ranks that sum to 1. Without a tolerance both make the
/// same sweeps, and differ only by what the textbook's sums in f32 round away: at most 9e-6 on
/// these graphs.
const ROUNDING: f64 = 2e-5;

#[derive(Parser)]
struct Arguments {
    /// Runs of each at most.
    #[arg(long, default_value_t = 60, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    runs: usize,
    /// Milliseconds after which there are no more than three runs.
    #[arg(long, default_value_t = 500)]
    milliseconds: u64,
    /// Threads, one number after the other; one, and one for each core, unless given.
    #[arg(long, value_delimiter = ',',
          value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    threads: Vec<usize>,
    /// What is measured: those whose names contain this.
    #[arg(long, default_value = "")]
    only: String,
    /// Delta of SSSP, ours and the textbook's; the automatic one if it is not given.
    #[arg(long, value_parser = delta)]
    delta: Option<f64>,
    /// Cargo gives this.
    #[arg(long, hide = true)]
    bench: bool,
}

fn delta(text: &str) -> Result<f64, String> {
    let delta = text.parse().ok().filter(|&delta: &f64| delta.is_finite() && delta >= 1.0);
    delta.ok_or_else(|| "not a number from 1 on".to_string())
}

/// The fewest runs of each, however long they take.
const LEAST_RUNS: usize = 3;

/// Where both run: host devices, and a pool for the textbook's algorithms, with as many threads as
/// all devices have together.
struct Bed {
    context: Context,
    pool: ThreadPool,
    runs: usize,
    time: Duration,
}

impl Bed {
    fn new(devices: usize, threads: usize, arguments: &Arguments) -> Bed {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let builder = Context::builder().devices(Devices::host(devices)).threads(threads);
        let (runs, time) = (arguments.runs, Duration::from_millis(arguments.milliseconds));
        Bed { context: builder.build().unwrap(), pool, runs, time }
    }

    /// Runs both alternately. Returns the lowest time of each, which begins when memory is ready:
    /// for the textbook's, what `arrays` makes.
    fn lowest<T>(
        &self,
        ours: impl Fn() -> Duration,
        arrays: impl Fn() -> T + Sync,
        textbook: impl Fn(&mut T) + Sync,
    ) -> [Duration; 2] {
        let textbook = || self.pool.install(|| timed(arrays(), &textbook));
        let start = Instant::now();
        let goes_on = |run: &usize| *run < LEAST_RUNS || start.elapsed() < self.time;
        let both = (0..self.runs).take_while(goes_on).map(|_| [ours(), textbook()]);
        both.reduce(|[a, b], [c, d]| [a.min(c), b.min(d)]).unwrap()
    }

    fn bfs(&self, graph: &CsrGraph, source: u32) -> [Duration; 2] {
        let bfs = self.context.block_on(Bfs::new(&self.context, graph)).unwrap().unwrap();
        let run = || self.context.block_on(bfs.run(&[source])).unwrap().unwrap();
        let unreached = || textbook::unreached(graph);
        let textbook = |levels: &[_]| textbook::bfs(graph, source, levels);
        assert_eq!(run().levels, textbook::answer(unreached(), textbook));
        self.lowest(|| run().run_time, unreached, |levels| textbook(levels))
    }

    fn sssp(&self, graph: &CsrGraph, source: u32, delta: Option<f64>) -> [Duration; 2] {
        let Some(Weights::Integer(weights)) = graph.weights() else { unreachable!("integers") };
        let mut options = SsspOptions::default();
        options.delta = delta.map_or(Delta::Auto, Delta::Step);
        let sssp = self
            .context
            .block_on(Sssp::with_options(&self.context, graph, options))
            .unwrap()
            .unwrap();
        let run = || self.context.block_on(sssp.run(&[source])).unwrap().unwrap();
        let delta = run().delta.unwrap().round().max(1.0) as u32;
        let unreached = || textbook::unreached(graph);
        let textbook = |distances: &[_]| textbook::sssp(graph, weights, source, delta, distances);
        let expected = Distances::Integer(textbook::answer(unreached(), textbook));
        assert_eq!(run().distances, expected);
        self.lowest(|| run().run_time, unreached, |distances| textbook(distances))
    }

    fn pagerank(&self, graph: &CsrGraph) -> [Duration; 2] {
        let mut options = PageRankOptions::default();
        (options.tolerance, options.max_iterations) = (TOLERANCE, SWEEPS);
        options.precision = Precision::F32;
        let pagerank = PageRank::with_options(&self.context, graph, options);
        let pagerank = self.context.block_on(pagerank).unwrap().unwrap();
        let run = || self.context.block_on(pagerank.run()).unwrap().unwrap();
        let transposed = graph.transposed().unwrap();
        let even = || textbook::Ranks::even(graph);
        let textbook = |ranks: &mut _| {
            textbook::pagerank(graph, &transposed, TOLERANCE, SWEEPS, ranks);
        };
        let (found, mut expected) = (run(), even());
        textbook(&mut expected);
        assert_eq!(found.iterations, SWEEPS);
        let pairs = found.ranks.iter().zip(expected.ranks);
        let distance: f64 = pairs.map(|(&one, other)| (one - f64::from(other)).abs()).sum();
        assert!(distance <= ROUNDING, "ranks are {distance:e} from the textbook's");
        self.lowest(|| run().run_time, even, textbook)
    }

    fn components(&self, graph: &CsrGraph) -> [Duration; 2] {
        let components = self.context.block_on(Cc::new(&self.context, graph)).unwrap().unwrap();
        let run = || self.context.block_on(components.run()).unwrap().unwrap();
        let unreached = || textbook::unreached(graph);
        let textbook = |labels: &[_]| textbook::components(graph, labels);
        assert_eq!(run().labels, textbook::answer(unreached(), textbook));
        self.lowest(|| run().run_time, unreached, |labels| textbook(labels))
    }
}

fn main() {
    set_driver_defaults();
    let mut arguments = Arguments::parse();
    if arguments.threads.is_empty() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        arguments.threads = if cores == 1 { vec![1] } else { vec![1, cores] };
    }
    // One device with all threads, and one device for each thread.
    let beds = arguments.threads.iter().flat_map(|&threads| match threads {
        1 => vec![(1, 1)],
        _ => vec![(1, threads), (threads, threads)],
    });
    let beds: Vec<_> = beds.collect();
    let mut table = Table::new();
    table.set_header(["", "devices", "threads", "ours, ms", "textbook, ms", "ratio"]);
    for (graph_name, generate) in textbook::GRAPHS {
        let name_of = |algorithm: &str| format!("{graph_name}, {algorithm}");
        let mut algorithms = vec!["BFS", "SSSP", "PageRank", "CC"];
        algorithms.retain(|algorithm| name_of(algorithm).contains(&arguments.only));
        if algorithms.is_empty() {
            continue;
        }
        let graph = generate(&GenerateOptions { max_weight: Some(64), seed: 0 }).unwrap();
        let source = max_degree(&graph).unwrap();
        for &(devices, threads) in &beds {
            let bed = Bed::new(devices, threads, &arguments);
            for &algorithm in &algorithms {
                let [ours, textbook] = match algorithm {
                    "BFS" => bed.bfs(&graph, source),
                    "SSSP" => bed.sssp(&graph, source, arguments.delta),
                    "PageRank" => bed.pagerank(&graph),
                    _ => bed.components(&graph),
                };
                let milliseconds = |time: Duration| format!("{:.2}", time.as_secs_f64() * 1e3);
                let ratio = format!("{:.2}", ours.as_secs_f64() / textbook.as_secs_f64());
                let times = [milliseconds(ours), milliseconds(textbook)];
                let what = [name_of(algorithm), devices.to_string(), threads.to_string()];
                table.add_row([&what, &times[..], &[ratio]].concat());
            }
        }
    }
    if table.is_empty() {
        refuse(format_args!("nothing that is measured has {:?} in its name", arguments.only));
    }
    println!("{table}");
}
