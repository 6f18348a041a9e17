//! BFS, SSSP, PageRank and connected components over 1, 2, 4 and 8 devices (those that
//! `MILLSTREAM_DEVICES` names; otherwise all GPUs or, if there are none, host devices), on a road
//! map, Debian's packages, and a Kronecker graph, which is larger on GPUs. Times run from the graph
//! on the devices to the result on the devices. Throughput is in arcs; for PageRank, it counts the
//! arcs of all its sweeps.

#![allow(missing_docs, clippy::unwrap_used)]

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};
use millstream::graph::generate::{self, GenerateOptions, KEEP_PERMILLE};
use millstream::graph::read::{ReadOptions, read_graph};
use millstream::graph::source::max_degree;
use millstream::pagerank::Precision;
use millstream::prelude::*;
use millstream_benches::{available, dataset, open};

const SWEEPS: u32 = 10;
const MAX_WEIGHT: u32 = 1000;

/// Graphs with weights and names.
fn graphs(on_gpus: bool) -> [(&'static str, CsrGraph); 3] {
    let options = GenerateOptions { max_weight: Some(MAX_WEIGHT), ..GenerateOptions::default() };
    let mut symmetrize = ReadOptions::default();
    symmetrize.symmetrize = true;
    let packages = read_graph(dataset("debian-dependencies.el.gz"), &symmetrize).unwrap();
    let weights = generate::random_weights(&packages, MAX_WEIGHT, 0);
    let (name, scale) = if on_gpus { ("kron 20 32", 20) } else { ("kron 15 32", 15) };
    [
        ("road 500", generate::road(500, 500, KEEP_PERMILLE, &options).unwrap()),
        ("packages", packages.with_weights(Some(weights)).unwrap()),
        (name, generate::kron(scale, 32, &options).unwrap()),
    ]
}

/// Puts `graph` on the devices of `context` for one of the algorithms. Returns a function that runs
/// it once and returns how long that took.
fn uploaded<'a>(
    algorithm: &str,
    context: &'a Context,
    graph: &CsrGraph,
) -> Box<dyn Fn() -> Duration + 'a> {
    let source = max_degree(graph).unwrap();
    match algorithm {
        "bfs" => {
            let bfs = context.block_on(Bfs::new(context, graph)).unwrap().unwrap();
            Box::new(move || context.block_on(bfs.run(&[source])).unwrap().unwrap().run_time)
        }
        "sssp" => {
            let sssp = context.block_on(Sssp::new(context, graph)).unwrap().unwrap();
            Box::new(move || context.block_on(sssp.run(&[source])).unwrap().unwrap().run_time)
        }
        "pagerank" => {
            let mut options = PageRankOptions::default();
            (options.tolerance, options.max_iterations) = (0.0, SWEEPS);
            options.precision = Precision::F32;
            let pagerank = PageRank::with_options(context, graph, options);
            let pagerank = context.block_on(pagerank).unwrap().unwrap();
            Box::new(move || context.block_on(pagerank.run()).unwrap().unwrap().run_time)
        }
        _ => {
            let components = context.block_on(Cc::new(context, graph)).unwrap().unwrap();
            Box::new(move || context.block_on(components.run()).unwrap().unwrap().run_time)
        }
    }
}

fn scaling(criterion: &mut Criterion) {
    let list = available();
    let counts = || [1, 2, 4, 8].into_iter().filter(|&devices| devices <= list.len());
    let context = |devices| open(list.first(devices));
    let on_gpus = context(1).devices()[0].is_gpu();
    for (name, graph) in &graphs(on_gpus) {
        for algorithm in ["bfs", "sssp", "pagerank", "cc"] {
            let sweeps = if algorithm == "pagerank" { SWEEPS } else { 1 };
            let mut group = criterion.benchmark_group(format!("{algorithm} {name}"));
            group.throughput(Throughput::Elements(graph.arcs() * u64::from(sweeps)));
            group.sample_size(10).warm_up_time(Duration::from_millis(500));
            group.measurement_time(Duration::from_secs(1));
            for devices in counts() {
                let context = context(devices);
                let run = uploaded(algorithm, &context, graph);
                group.bench_function(BenchmarkId::from_parameter(devices), |bencher| {
                    bencher.iter_custom(|runs| (0..runs).map(|_| run()).sum());
                });
            }
            group.finish();
        }
    }
}

criterion_group!(benches, scaling);

fn main() {
    set_driver_defaults();
    benches();
    Criterion::default().configure_from_args().final_summary();
}
