//! The host's work in uploads, in arcs per second: vertices in the order of their degrees, for
//! GPUs; and rows under the new ids, for host devices and for GPUs beside them.

#![allow(missing_docs, clippy::unwrap_used)]

use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use millstream::graph::generate::{self, GenerateOptions};
use millstream::graph::partition;
use millstream::traversal::DegreeOrder;

/// The number of vertices in a window.
const WINDOWS: [(&str, u32); 2] = [("in windows", DegreeOrder::SPREAD), ("all together", u32::MAX)];

fn uploads(criterion: &mut Criterion) {
    let options = GenerateOptions { max_weight: Some(64), ..GenerateOptions::default() };
    for (name, graph) in [
        ("kron 16 32", generate::kron(16, 32, &options).unwrap()),
        ("social 17 9", generate::social(17, 9, &options).unwrap()),
    ] {
        let mut group = criterion.benchmark_group(format!("uploads of {name}"));
        group.throughput(Throughput::Elements(graph.arcs())).sample_size(10);
        group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
        let one = partition::edge_balanced_blocks(&graph, 1);
        for (order, window) in WINDOWS {
            group.bench_function(format!("order by degree, {order}"), |bencher| {
                bencher.iter(|| one.by_degree(&graph, window));
            });
            let ordered = one.by_degree(&graph, window);
            group.bench_function(format!("rows by target, {order}"), |bencher| {
                bencher.iter(|| ordered.renumber_structure(&graph));
            });
            group.bench_function(format!("rows by weight, {order}"), |bencher| {
                bencher.iter(|| ordered.renumber_by_weight(&graph));
            });
        }
        group.finish();
    }
}

criterion_group!(benches, uploads);
criterion_main!(benches);
