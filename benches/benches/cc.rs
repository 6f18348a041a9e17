//! Connected components over 1, 2, 4 and 8 of the devices there are (all GPUs, host
//! devices where there are none, or those that `MILLSTREAM_DEVICES` names), side by
//! side with a textbook parallel union-find on all threads of the host: a road map,
//! Debian's packages and a Kronecker graph. Time from the graph on the devices to
//! the labels there; throughput in arcs.
//!
//! The textbook's union-find is Anderson and Woll's (STOC 1991): each thread unites
//! the ends of its arcs, larger root below smaller by compare-and-exchange, halving
//! paths on its way. Each undirected edge is taken once.

#![allow(missing_docs, clippy::unwrap_used)]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use millstream::device::DeviceList;
use millstream::graph::generate::{self, GenerateOptions, KEEP_PERMILLE};
use millstream::graph::read::{ReadOptions, read_graph};
use millstream::graph::reference;
use millstream::prelude::*;
use millstream_benches::dataset;
use rayon::prelude::*;

/// The parents of a forest, as the textbook has it.
struct UnionFind(Vec<AtomicU32>);

impl UnionFind {
    fn parent(&self, vertex: u32) -> u32 {
        // Relaxed, here and below: parents order no other memory.
        self.0[vertex as usize].load(Ordering::Relaxed)
    }

    fn find(&self, mut vertex: u32) -> u32 {
        loop {
            let parent = self.parent(vertex);
            let grandparent = self.parent(parent);
            if parent == grandparent {
                return parent;
            }
            let order = Ordering::Relaxed;
            let parents = &self.0[vertex as usize];
            let _ = parents.compare_exchange_weak(parent, grandparent, order, order);
            vertex = grandparent;
        }
    }

    fn unite(&self, mut one: u32, mut other: u32) {
        loop {
            (one, other) = (self.find(one), self.find(other));
            if one == other {
                return;
            }
            let (larger, smaller) = (one.max(other), one.min(other));
            let (root, order) = (&self.0[larger as usize], Ordering::Relaxed);
            if root.compare_exchange(larger, smaller, order, order).is_ok() {
                return;
            }
        }
    }
}

/// The labels, and the time they took.
fn textbook(graph: &CsrGraph) -> (Vec<u32>, Duration) {
    let start = Instant::now();
    let vertices = 0..graph.vertices();
    let sets = UnionFind(vertices.clone().into_par_iter().map(AtomicU32::new).collect());
    vertices.clone().into_par_iter().for_each(|vertex| {
        let smaller = graph.neighbors(vertex).iter().filter(|&&target| target < vertex);
        smaller.for_each(|&target| sets.unite(vertex, target));
    });
    let labels = vertices.into_par_iter().map(|vertex| sets.find(vertex)).collect();
    (labels, start.elapsed())
}

/// Graphs with names; every arc has its reverse.
fn graphs() -> Vec<(&'static str, CsrGraph)> {
    let options = GenerateOptions::default();
    let mut symmetrize = ReadOptions::default();
    symmetrize.symmetrize = true;
    vec![
        ("road 1000", generate::road(1000, 1000, KEEP_PERMILLE, &options).unwrap()),
        ("packages", read_graph(&dataset("debian-dependencies.el.gz"), &symmetrize).unwrap()),
        ("kron 17 32", generate::kron(17, 32, &options).unwrap()),
    ]
}

fn components(criterion: &mut Criterion) {
    let list = DeviceList::available().unwrap();
    let context = |devices: DeviceList| Context::builder().devices(Devices::List(devices)).build();
    for (name, graph) in graphs() {
        let mut group = criterion.benchmark_group(format!("cc {name}"));
        group.throughput(Throughput::Elements(graph.arcs())).sample_size(10);
        group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(2));
        assert!(textbook(&graph).0 == reference::weak_components(&graph), "{name}");
        group.bench_function("textbook", |bencher| {
            bencher.iter_custom(|runs| (0..runs).map(|_| textbook(&graph).1).sum());
        });
        for devices in [1, 2, 4, 8].into_iter().filter(|&devices| devices <= list.len()) {
            let context = context(list.first(devices)).unwrap();
            let cc = context.block_on(Cc::new(&context, &graph)).unwrap().unwrap();
            group.bench_function(BenchmarkId::new("millstream", devices), |bencher| {
                bencher.iter_custom(|runs| {
                    let run = || context.block_on(cc.run()).unwrap().unwrap().run_time;
                    (0..runs).map(|_| run()).sum()
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, components);
criterion_main!(benches);
