//! BFS over 1, 2 and 4 devices: a lattice (many levels) and Debian's packages
//! (few). Time from the first item to the last; throughput in arcs.

#![allow(missing_docs, clippy::unwrap_used)]

use std::path::Path;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use millstream::graph::generate::{self, GenerateOptions};
use millstream::graph::read::{ReadOptions, read_graph};
use millstream::prelude::*;

fn packages() -> CsrGraph {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../datasets/debian-dependencies.el.gz");
    let mut options = ReadOptions::default();
    options.symmetrize = true;
    read_graph(&file, &options).unwrap()
}

fn scaling(criterion: &mut Criterion) {
    let lattice = generate::grid(300, 300, &GenerateOptions::default()).unwrap();
    for (name, graph, source) in [("lattice 300", lattice, 0), ("packages", packages(), 16_821)] {
        let mut group = criterion.benchmark_group(format!("bfs {name}"));
        group.throughput(Throughput::Elements(graph.arcs())).sample_size(10);
        group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(2));
        for devices in [1, 2, 4] {
            let context = Context::builder().devices(Devices::host(devices)).build().unwrap();
            let bfs = context.block_on(Bfs::new(&context, &graph)).unwrap().unwrap();
            group.bench_function(BenchmarkId::from_parameter(devices), |bencher| {
                bencher.iter_custom(|runs| {
                    let run = || context.block_on(bfs.run(&[source])).unwrap().unwrap().run_time;
                    (0..runs).map(|_| run()).sum()
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, scaling);
criterion_main!(benches);
