//! PageRank's time against the error it leaves, by pulling and by pushing:
//! `pagerank_error [GRAPH...]`, a road map and a Kronecker graph if none is named, on
//! the devices there are or those that `MILLSTREAM_DEVICES` names. The error is the L1
//! distance to ranks of f64 that are converged to 1e-12. Each way has a warm-up run.

#![allow(missing_docs, clippy::unwrap_used)]

use std::path::Path;

use millstream::device::DeviceList;
use millstream::graph::generate::{self, GenerateOptions, KEEP_PERMILLE};
use millstream::graph::read::{ReadOptions, read_graph};
use millstream::pagerank::{Algorithm, PageRank, PageRankOptions, PageRankResult, Precision};
use millstream::prelude::*;

const TOLERANCES: [f64; 5] = [1e-2, 1e-3, 1e-4, 1e-5, 1e-6];

fn graphs() -> Vec<(String, CsrGraph)> {
    // Those of cargo begin with a dash.
    let files = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    let read = |file: String| {
        let graph = read_graph(Path::new(&file), &ReadOptions::default()).unwrap();
        (file, graph)
    };
    let named: Vec<_> = files.map(read).collect();
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

/// The second of two runs.
fn run(context: &Context, graph: &CsrGraph, options: PageRankOptions) -> PageRankResult {
    let runs = async {
        let pagerank = PageRank::new(context, graph, options).await?;
        pagerank.run().await?;
        pagerank.run().await
    };
    context.block_on(runs).unwrap().unwrap()
}

fn main() {
    let list = DeviceList::available().unwrap();
    let context = Context::builder().devices(Devices::List(list)).build().unwrap();
    for (name, graph) in graphs() {
        let mut exact = PageRankOptions::default();
        (exact.tolerance, exact.precision) = (1e-12, Precision::F64);
        let expected = run(&context, &graph, exact).ranks;
        println!("{name}\nway   tolerance  iterations   time, ms   L1 error  work items");
        for (way, algorithm) in [("pull", Algorithm::Pull), ("push", Algorithm::Push)] {
            for tolerance in TOLERANCES {
                let mut options = PageRankOptions::default();
                (options.tolerance, options.algorithm) = (tolerance, algorithm);
                options.precision = Precision::F32;
                let result = run(&context, &graph, options);
                let pairs = expected.iter().zip(&result.ranks);
                let error: f64 = pairs.map(|(expected, rank)| (expected - rank).abs()).sum();
                let items: u64 = result.devices.iter().map(|device| device.work_items).sum();
                let (time, iterations) = (result.run_time.as_secs_f64() * 1e3, result.iterations);
                println!(
                    "{way} {tolerance:>10.0e} {iterations:>11} {time:>10.3} {error:>10.1e} {items:>11}"
                );
            }
        }
    }
}
