//! Files of some megabytes, which are parsed in several pieces, give the same
//! graph with one thread and with several.

#![allow(clippy::unwrap_used, reason = "all of this is a test")]

use std::path::Path;

use millstream_graph::read::{ReadOptions, read_graph};
use millstream_graph::write::write_graph;
use millstream_graph::{CsrGraph, Format, Weights};

const VERTICES: u32 = 50_000;

/// An undirected graph in which every vertex has an edge.
fn graph() -> CsrGraph {
    let edge = |index: u32| {
        let from = index % VERTICES;
        let step = 1 + index.wrapping_mul(2_654_435_761) % (VERTICES - 1);
        (from, (from + step) % VERTICES, index.wrapping_mul(747_796_405) >> 12)
    };
    let edges = (0..4 * VERTICES).map(edge);
    let both = edges.flat_map(|(from, to, weight)| [(from, to, weight), (to, from, weight)]);
    CsrGraph::from_weighted_edges(VERTICES, &both.collect::<Vec<_>>()).unwrap()
}

fn read_with_threads(threads: usize, path: &Path) -> CsrGraph {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| read_graph(path, &ReadOptions::default())).unwrap()
}

#[test]
fn large_files_are_the_same_with_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let integers = graph();
    let Some(Weights::Integer(weights)) = integers.weights() else { unreachable!() };
    let reals = weights.iter().map(|&weight| weight as f32 / 3.0).collect();
    let reals = integers.clone().with_weights(Some(Weights::Real(reals))).unwrap();
    for (name, graph, format) in [
        ("a.mtx", &integers, Format::MatrixMarket),
        ("a.mtx.gz", &reals, Format::MatrixMarket),
        ("a.gr", &integers, Format::Dimacs),
        ("b.gr", &integers, Format::Galois),
        ("a.graph", &integers, Format::Metis),
        ("a.wel", &reals, Format::EdgeList),
        ("a.csv.zst", &integers, Format::EdgeList),
        ("a.mill", &reals, Format::Millstream),
    ] {
        let path = folder.path().join(name);
        write_graph(&path, graph, Some(format)).unwrap();
        for threads in [1, 2, 7] {
            assert!(read_with_threads(threads, &path) == *graph, "{name}, {threads} threads");
        }
    }
}

#[test]
fn the_line_of_a_fault_is_right_in_a_large_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.el");
    let mut lines = vec!["123456 654321"; 500_000];
    lines[345_677] = "123456 -1";
    lines[456_788] = "x";
    std::fs::write(&path, lines.join("\n")).unwrap();
    let error = read_graph(&path, &ReadOptions::default()).unwrap_err();
    let expected = format!("{}:345678: \"-1\" is not a vertex id", path.display());
    assert_eq!(error.to_string(), expected);
}
