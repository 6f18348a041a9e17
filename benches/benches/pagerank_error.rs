//! PageRank's time against its remaining error, by pulling and by pushing: `pagerank_error
//! [GRAPH...]`; without arguments, a road map and a Kronecker graph. Uses the devices that
//! `MILLSTREAM_DEVICES` names, or else those that there are. The error is the L1 distance to ranks
//! in f64 that have converged to 1e-12. Each way has one upload and one warm-up run; of five runs
//! to each tolerance, the one of median time counts.

#![allow(missing_docs, clippy::unwrap_used)]

use std::path::PathBuf;

use clap::Parser;
use millstream::graph::generate::{self, GenerateOptions, KEEP_PERMILLE};
use millstream::graph::read::{ReadOptions, read_graph};
use millstream::pagerank::{Algorithm, PageRank, PageRankOptions, PageRankResult, Precision};
use millstream::prelude::*;
use millstream_benches::{available, open, refuse};

#[derive(Parser)]
struct Arguments {
    /// Graphs; a road map and a Kronecker graph if none is named.
    graphs: Vec<PathBuf>,
    /// Given by `cargo bench`.
    #[arg(long, hide = true)]
    bench: bool,
}

const TOLERANCES: [f64; 6] = [1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7];
/// Of these, how many pulling in f32 reaches: on a road map rounding changes more than the next. Its
/// error is smaller than the tolerance; that of pushing, which is in f64, may be larger.
const PULLED: usize = 5;

fn graphs(files: &[PathBuf]) -> Vec<(String, CsrGraph)> {
    let read = |file: &PathBuf| {
        let graph = read_graph(file, &ReadOptions::default());
        (file.display().to_string(), graph.unwrap_or_else(|error| refuse(error)))
    };
    let named: Vec<_> = files.iter().map(read).collect();
    if !named.is_empty() {
        return named;
    }
    let options = GenerateOptions::default();
    let road = generate::road(300, 300, KEEP_PERMILLE, &options).unwrap();
    vec![
        ("road 300".into(), road),
        ("kron 12 16".into(), generate::kron(12, 16, &options).unwrap()),
    ]
}

/// Odd, so that one of them is the median.
const RUNS: usize = 5;

/// Makes one run that is not reported, then reports, for each tolerance, the run of median time.
fn runs(
    context: &Context,
    graph: &CsrGraph,
    mut options: PageRankOptions,
    tolerances: &[f64],
    mut tell: impl FnMut(f64, PageRankResult),
) {
    options.tolerance = tolerances[0];
    let runs = async {
        let mut pagerank = PageRank::with_options(context, graph, options.clone()).await?;
        pagerank.run().await?;
        for &tolerance in tolerances {
            options.tolerance = tolerance;
            pagerank.set_options(options.clone())?;
            let mut results = Vec::new();
            for _ in 0..RUNS {
                results.push(pagerank.run().await?);
            }
            results.sort_by_key(|result| result.run_time);
            tell(tolerance, results.swap_remove(RUNS / 2));
        }
        Ok::<_, millstream::pagerank::Error>(())
    };
    context.block_on(runs).unwrap().unwrap();
}

fn main() {
    set_driver_defaults();
    let arguments = Arguments::parse();
    let context = open(available());
    for (name, graph) in graphs(&arguments.graphs) {
        let mut options = PageRankOptions::default();
        options.precision = Precision::F64;
        let mut exact = Vec::new();
        runs(&context, &graph, options.clone(), &[1e-12], |_, result| exact = result.ranks);
        println!("{name}\nway   tolerance  iterations   time, ms   L1 error  work items");
        options.precision = Precision::F32;
        for (way, algorithm, tolerances) in [
            ("pull", Algorithm::Pull, &TOLERANCES[..PULLED]),
            ("push", Algorithm::Push, &TOLERANCES),
        ] {
            options.algorithm = algorithm;
            runs(&context, &graph, options.clone(), tolerances, |tolerance, result| {
                let pairs = exact.iter().zip(&result.ranks);
                let error: f64 = pairs.map(|(exact, rank)| (exact - rank).abs()).sum();
                let items = result.statistics.work_items();
                let (time, iterations) = (result.run_time.as_secs_f64() * 1e3, result.iterations);
                println!(
                    "{way} {tolerance:>10.0e} {iterations:>11} {time:>10.3} {error:>10.1e} {items:>11}"
                );
            });
        }
    }
}
