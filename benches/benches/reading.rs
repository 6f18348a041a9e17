//! Reading a graph: bytes of the file a second.

#![allow(missing_docs, clippy::unwrap_used)]

use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use millstream::graph::generate::{self, GenerateOptions};
use millstream::graph::read::{ReadOptions, read_graph};
use millstream::graph::write::write_graph;
use millstream_benches::dataset;

fn reading(criterion: &mut Criterion) {
    let file = dataset("debian-dependencies.el.gz");
    let mut group = criterion.benchmark_group("read");
    group.throughput(Throughput::Bytes(file.metadata().unwrap().len())).sample_size(10);
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(2));
    group.bench_function("packages, gzip", |bencher| {
        bencher.iter(|| read_graph(&file, &ReadOptions::default()).unwrap());
    });
    let folder = tempfile::tempdir().unwrap();
    let graph = generate::kron(14, 16, &GenerateOptions::default()).unwrap();
    for name in ["kron.mtx", "kron.mill"] {
        let file = folder.path().join(name);
        write_graph(&file, &graph, None).unwrap();
        group.throughput(Throughput::Bytes(file.metadata().unwrap().len()));
        group.bench_function(name, |bencher| {
            bencher.iter(|| read_graph(&file, &ReadOptions::default()).unwrap());
        });
    }
    group.finish();
}

criterion_group!(benches, reading);
criterion_main!(benches);
