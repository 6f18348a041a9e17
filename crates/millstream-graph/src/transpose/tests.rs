use super::*;
use crate::changed::rebuild_graph;
use crate::generate::{self, GenerateOptions};
use crate::random::hash;
use crate::read::ReadOptions;

/// Offsets, targets, and the bits of weights, which tell 0 from -0.
fn bits(graph: &CsrGraph) -> (&[u64], &[u32], Option<Vec<u32>>) {
    let weights = graph.weights().map(|weights| match weights {
        Weights::Integer(weights) => weights.clone(),
        Weights::Real(weights) => weights.iter().map(|weight| weight.to_bits()).collect(),
    });
    (graph.offsets(), graph.targets(), weights)
}

fn assert_same(turned: &CsrGraph, expected: &CsrGraph) {
    // Compares kinds of weights, widths of lattices, and ids, too.
    assert!(turned == expected);
    assert!(bits(turned) == bits(expected));
}

/// Checks the transpose with several numbers of threads, and in several rounds.
fn check(graph: &CsrGraph) {
    let options = ReadOptions { transpose: true, ..ReadOptions::default() };
    let expected = rebuild_graph(graph, &options).unwrap();
    let structure = rebuild_graph(&graph.structure(), &options).unwrap();
    for threads in [1, 3] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            assert_same(&graph.transposed().unwrap(), &expected);
            assert_same(&graph.transposed_structure().unwrap(), &structure);
            // Each round goes through all arcs, so their number is limited.
            let arcs = graph.targets().len();
            for at_once in [arcs / 50, arcs / 3, usize::MAX] {
                assert_same(&turned(graph, graph.weights(), at_once).unwrap(), &expected);
            }
        });
    }
}

/// The graph without weights, with integer ones, with real ones and with few different ones.
fn check_with_weights(graph: &CsrGraph) {
    check(graph);
    let number = |arc: usize| hash(arc as u64) as u32;
    let arcs = 0..graph.targets().len();
    let integers = Weights::Integer(arcs.clone().map(number).collect());
    check(&graph.clone().with_weights(Some(integers)).unwrap());
    let reals = arcs.clone().map(|arc| number(arc) as i32 as f32 / 1e3).collect();
    check(&graph.clone().with_weights(Some(Weights::Real(reals))).unwrap());
    let few = [0.0, -0.0, -1.5, 2.0, f32::MIN, f32::MIN_POSITIVE];
    let reals = arcs.map(|arc| few[number(arc) as usize % few.len()]).collect();
    check(&graph.clone().with_weights(Some(Weights::Real(reals))).unwrap());
}

/// Unsorted rows, with self-loops and repeated arcs.
fn unsorted(vertices: u32, degree: impl Fn(u32) -> u64, target: impl Fn(u64) -> u32) -> CsrGraph {
    let mut offsets = vec![0];
    offsets.extend((0..vertices).scan(0, |end, vertex| {
        *end += degree(vertex);
        Some(*end)
    }));
    let targets = (0..offsets[vertices as usize]).map(target).collect();
    CsrGraph::from_csr(offsets, targets, None).unwrap()
}

#[test]
fn weights_go_with_their_arcs_and_twice_is_as_before() {
    let graph = CsrGraph::from_weighted_edges(4, &[(0, 1, 7u32), (2, 1, 5), (1, 0, 3)]).unwrap();
    let transposed = graph.transposed().unwrap();
    assert_eq!(transposed.neighbors(1), [0, 2]);
    assert_eq!(transposed.weights(), Some(&Weights::Integer(vec![3, 7, 5])));
    assert!(transposed.transposed().unwrap() == graph);
}

#[test]
fn kron_is_as_if_built_anew() {
    let options = GenerateOptions::default();
    check_with_weights(&generate::kron(12, 8, &options).unwrap());
    check_with_weights(&generate::kron(14, 16, &options).unwrap());
}

#[test]
fn widths_of_lattices_and_original_ids_stay_behind() {
    let graph = generate::grid(30, 40, &GenerateOptions::default()).unwrap();
    let ids = (0..1200).map(|id| id * 3).collect();
    let graph = graph.with_original_ids(ids).unwrap();
    assert!(graph.lattice_width().is_some());
    check_with_weights(&graph);
    let turned = graph.transposed().unwrap();
    assert_eq!((turned.lattice_width(), turned.original_ids()), (None, None));
}

#[test]
fn rows_of_hubs_are_divided() {
    let leaves = 150_000u32;
    let leaving: Vec<_> = (0..leaves).map(|leaf| (7, leaf)).collect();
    check_with_weights(&CsrGraph::from_edges(leaves, &leaving).unwrap());
    let entering: Vec<_> = (0..leaves).map(|leaf| (leaf, leaves - 1)).collect();
    check_with_weights(&CsrGraph::from_edges(leaves, &entering).unwrap());
    let both = [leaving, entering].concat();
    check_with_weights(&CsrGraph::from_edges(leaves, &both).unwrap());
}

#[test]
fn several_arcs_between_two_vertices_are_sorted_by_weight() {
    check_with_weights(&unsorted(50, |_| 60, |arc| hash(arc) as u32 % 50));
    check_with_weights(&unsorted(
        3,
        |vertex| [100_000, 0, 3][vertex as usize],
        |arc| arc as u32 % 3,
    ));
    let graph = unsorted(2, |_| 3, |_| 1);
    let graph = graph.with_weights(Some(Weights::Real(vec![0.0, -0.0, -1.0, 3.0, 2.0, 2.0])));
    let turned = graph.unwrap().transposed().unwrap();
    assert_eq!(turned.neighbors(1), [0, 0, 0, 1, 1, 1]);
    let expected = [-1.0f32, -0.0, 0.0, 2.0, 2.0, 3.0].map(f32::to_bits);
    assert_eq!(bits(&turned).2.unwrap(), expected);
}

#[test]
fn directed_graphs_with_many_empty_rows_are_turned() {
    let degree = |vertex| u64::from(vertex % 100 == 3) * 200;
    check_with_weights(&unsorted(100_000, degree, |arc| (hash(arc) % 90_001) as u32));
    check_with_weights(&unsorted(1025, |_| 2, |arc| (arc * arc % 1025) as u32));
}

#[test]
fn graphs_without_vertices_or_arcs_are_turned() {
    for vertices in [0, 1, 2, 1024, 1025, 70_000] {
        check_with_weights(&CsrGraph::from_edges(vertices, &[]).unwrap());
    }
    check_with_weights(&CsrGraph::from_edges(1, &[(0, 0), (0, 0)]).unwrap());
}

#[test]
fn rounds_have_as_many_arcs_as_allowed() {
    let graph = unsorted(4, |_| 2, |arc| [0, 1, 1, 1, 3, 3, 3, 3][arc as usize]);
    let places = Places::new(&graph);
    assert_eq!(places.begins, [0, 1, 4, 4, 8]);
    assert_eq!(places.rounds(3), [0..1, 1..3, 3..4]);
    assert_eq!(places.rounds(0), [0..1, 1..2, 2..3, 3..4]);
    assert_eq!(places.rounds(4), [0..3, 3..4]);
    assert_eq!(places.rounds(usize::MAX), vec![0..4; 1]);
}
