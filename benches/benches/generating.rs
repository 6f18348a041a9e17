//! Generating graphs: edges drawn a second.

#![allow(missing_docs, clippy::unwrap_used)]

use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use millstream::graph::generate::{self, GenerateOptions, KEEP_PERMILLE};

fn generating(criterion: &mut Criterion) {
    let options = GenerateOptions::default();
    let weighted = GenerateOptions { max_weight: Some(64), ..options };
    let mut group = criterion.benchmark_group("generate");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(2));
    group.throughput(Throughput::Elements(16 << 16));
    group.bench_function("kron 16 16", |bencher| {
        bencher.iter(|| generate::kron(16, 16, &options).unwrap());
    });
    group.bench_function("kron 16 16, weighted", |bencher| {
        bencher.iter(|| generate::kron(16, 16, &weighted).unwrap());
    });
    // Two edges of each vertex of the lattice are kept or not.
    group.throughput(Throughput::Elements(2 << 20));
    group.bench_function("road 1024 1024", |bencher| {
        bencher.iter(|| generate::road(1024, 1024, KEEP_PERMILLE, &options).unwrap());
    });
    group.finish();
}

criterion_group!(benches, generating);
criterion_main!(benches);
