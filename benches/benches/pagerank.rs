//! PageRank by pulling, ten sweeps on one host device, beside a textbook pull: rayon
//! over the rows of the transposed graph as they are. Throughput in arcs.

#![allow(missing_docs, clippy::unwrap_used)]

use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use millstream::graph::generate::{self, GenerateOptions, KEEP_PERMILLE};
use millstream::pagerank::{PageRank, PageRankOptions, Precision};
use millstream::prelude::*;
use rayon::prelude::*;

const SWEEPS: u32 = 10;
const DAMPING: f32 = 0.85;

fn graphs() -> Vec<(&'static str, CsrGraph)> {
    let options = GenerateOptions::default();
    vec![
        ("road 700", generate::road(700, 700, KEEP_PERMILLE, &options).unwrap()),
        ("kron 16 32", generate::kron(16, 32, &options).unwrap()),
    ]
}

/// What everybody writes first; `transposed` has the arcs that come in.
fn textbook(graph: &CsrGraph, transposed: &CsrGraph) -> Vec<f32> {
    let vertices = graph.vertices();
    let mut ranks = vec![1.0 / vertices as f32; vertices as usize];
    for _ in 0..SWEEPS {
        let share = |vertex: u32| match graph.degree(vertex) {
            0 => 0.0,
            degree => ranks[vertex as usize] / degree as f32,
        };
        let shares: Vec<f32> = (0..vertices).into_par_iter().map(share).collect();
        let is_dangling = |&vertex: &u32| graph.degree(vertex) == 0;
        let dangling: f32 =
            (0..vertices).into_par_iter().filter(is_dangling).map(|v| ranks[v as usize]).sum();
        let base = (1.0 - DAMPING + DAMPING * dangling) / vertices as f32;
        let rank = |vertex: u32| -> f32 {
            let sources = transposed.neighbors(vertex).iter();
            base + DAMPING * sources.map(|&source| shares[source as usize]).sum::<f32>()
        };
        ranks = (0..vertices).into_par_iter().map(rank).collect();
    }
    ranks
}

fn side_by_side(criterion: &mut Criterion) {
    for (name, graph) in graphs() {
        let mut group = criterion.benchmark_group(format!("pagerank {name}"));
        let arcs = graph.arcs() * u64::from(SWEEPS);
        group.throughput(Throughput::Elements(arcs)).sample_size(10);
        group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
        let transposed = graph.transposed().unwrap();
        group.bench_function("textbook", |bencher| bencher.iter(|| textbook(&graph, &transposed)));
        let context = Context::builder().devices(Devices::host(1)).build().unwrap();
        let mut options = PageRankOptions::default();
        (options.tolerance, options.max_iterations) = (0.0, SWEEPS);
        options.precision = Precision::F32;
        let pagerank = context.block_on(PageRank::new(&context, &graph, options)).unwrap().unwrap();
        group.bench_function("host device", |bencher| {
            bencher.iter_custom(|runs| {
                let run = || context.block_on(pagerank.run()).unwrap().unwrap();
                (0..runs)
                    .map(|_| run())
                    .map(|run| (assert_eq!(run.iterations, SWEEPS), run.run_time).1)
                    .sum()
            });
        });
        group.finish();
    }
}

criterion_group!(benches, side_by_side);
criterion_main!(benches);
