//! BFS over 1, 2, 4 and 8 of the devices there are (all GPUs, host devices where
//! there are none, or those that `MILLSTREAM_DEVICES` names): a lattice (many
//! levels), Debian's packages (few) and, on GPUs, a larger graph of few levels.
//! Time from the first item to the last; throughput in arcs.

#![allow(missing_docs, clippy::unwrap_used)]

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use millstream::device::DeviceList;
use millstream::graph::generate::{self, GenerateOptions};
use millstream::graph::read::{ReadOptions, read_graph};
use millstream::graph::source::max_degree;
use millstream::prelude::*;
use millstream_benches::dataset;

fn packages() -> CsrGraph {
    let mut options = ReadOptions::default();
    options.symmetrize = true;
    read_graph(&dataset("debian-dependencies.el.gz"), &options).unwrap()
}

/// Graphs with names, and where to search from.
fn graphs(on_gpus: bool) -> Vec<(&'static str, CsrGraph, u32)> {
    let options = GenerateOptions::default();
    let lattice = generate::grid(300, 300, &options).unwrap();
    let mut graphs = vec![("lattice 300", lattice, 0), ("packages", packages(), 16_821)];
    if on_gpus {
        let kron = generate::kron(18, 32, &options).unwrap();
        let source = max_degree(&kron).unwrap();
        graphs.push(("kron 18 32", kron, source));
    }
    graphs
}

fn scaling(criterion: &mut Criterion) {
    let list = DeviceList::available().unwrap();
    let context = |devices: DeviceList| Context::builder().devices(Devices::List(devices)).build();
    let on_gpus = context(list.first(1)).unwrap().devices()[0].is_gpu();
    for (name, graph, source) in graphs(on_gpus) {
        let mut group = criterion.benchmark_group(format!("bfs {name}"));
        group.throughput(Throughput::Elements(graph.arcs())).sample_size(10);
        group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(2));
        for devices in [1, 2, 4, 8].into_iter().filter(|&devices| devices <= list.len()) {
            let context = context(list.first(devices)).unwrap();
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
