//! BFS and SSSP on one host device beside textbook algorithms on rayon: the same graph,
//! source and number of threads. Throughput in arcs.

#![allow(missing_docs, clippy::unwrap_used)]

use std::time::Duration;

use criterion::{Bencher, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use millstream::graph::Weights;
use millstream::graph::source::max_degree;
use millstream::prelude::*;
use millstream_benches::textbook::{self, graphs, timed};

/// Times as often as asked; what `run` returns is one run's time.
fn time(bencher: &mut Bencher<'_>, mut run: impl FnMut() -> Duration) {
    bencher.iter_custom(|runs| (0..runs).map(|_| run()).sum());
}

fn paths(criterion: &mut Criterion) {
    for (name, graph) in &graphs().unwrap() {
        let Some(Weights::Integer(weights)) = graph.weights() else { unreachable!("integers") };
        let source = max_degree(graph).unwrap();
        let mut group = criterion.benchmark_group(*name);
        group.throughput(Throughput::Elements(graph.arcs())).sample_size(10);
        group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(2));
        let most = std::thread::available_parallelism().unwrap().get();
        for threads in [1, most] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let builder = Context::builder().devices(Devices::host(1)).threads(threads);
            let context = builder.build().unwrap();
            let of = |what| BenchmarkId::new(what, threads);
            let bfs = context.block_on(Bfs::new(&context, graph)).unwrap().unwrap();
            group.bench_function(of("bfs, ours"), |bencher| {
                time(bencher, || context.block_on(bfs.run(&[source])).unwrap().unwrap().run_time);
            });
            group.bench_function(of("bfs, textbook"), |bencher| {
                time(bencher, || pool.install(|| timed(|| textbook::bfs(graph, source))));
            });
            let sssp = context.block_on(Sssp::new(&context, graph)).unwrap().unwrap();
            let search = || context.block_on(sssp.run(&[source])).unwrap().unwrap();
            group.bench_function(of("sssp, ours"), |bencher| {
                time(bencher, || search().run_time);
            });
            let delta = search().delta.unwrap().round().max(1.0) as u32;
            group.bench_function(of("sssp, textbook"), |bencher| {
                let run = || textbook::sssp(graph, weights, source, delta);
                time(bencher, || pool.install(|| timed(run)));
            });
        }
        group.finish();
    }
}

criterion_group!(benches, paths);
criterion_main!(benches);
