use proptest::prelude::*;

use super::*;
use crate::generate::{self, GenerateOptions};
use crate::{BadWeight, CsrGraph, Weights, validate};

/// Zachary's karate club, each friendship once.
const KARATE: [(u32, u32); 78] = [
    (0, 1),
    (0, 2),
    (0, 3),
    (0, 4),
    (0, 5),
    (0, 6),
    (0, 7),
    (0, 8),
    (0, 10),
    (0, 11),
    (0, 12),
    (0, 13),
    (0, 17),
    (0, 19),
    (0, 21),
    (0, 31),
    (1, 2),
    (1, 3),
    (1, 7),
    (1, 13),
    (1, 17),
    (1, 19),
    (1, 21),
    (1, 30),
    (2, 3),
    (2, 7),
    (2, 8),
    (2, 9),
    (2, 13),
    (2, 27),
    (2, 28),
    (2, 32),
    (3, 7),
    (3, 12),
    (3, 13),
    (4, 6),
    (4, 10),
    (5, 6),
    (5, 10),
    (5, 16),
    (6, 16),
    (8, 30),
    (8, 32),
    (8, 33),
    (9, 33),
    (13, 33),
    (14, 32),
    (14, 33),
    (15, 32),
    (15, 33),
    (18, 32),
    (18, 33),
    (19, 33),
    (20, 32),
    (20, 33),
    (22, 32),
    (22, 33),
    (23, 25),
    (23, 27),
    (23, 29),
    (23, 32),
    (23, 33),
    (24, 25),
    (24, 27),
    (24, 31),
    (25, 31),
    (26, 29),
    (26, 33),
    (27, 33),
    (28, 31),
    (28, 33),
    (29, 32),
    (29, 33),
    (30, 32),
    (30, 33),
    (31, 32),
    (31, 33),
    (32, 33),
];

fn karate() -> CsrGraph {
    let arcs: Vec<_> = KARATE.iter().flat_map(|&(from, to)| [(from, to), (to, from)]).collect();
    CsrGraph::from_edges(34, &arcs).unwrap()
}

fn weighted(vertices: u32, edges: &[(u32, u32, u32)]) -> CsrGraph {
    let mut edges = edges.to_vec();
    edges.sort_unstable();
    let arcs: Vec<_> = edges.iter().map(|&(from, to, _)| (from, to)).collect();
    let weights = edges.iter().map(|&(_, _, weight)| weight).collect();
    let graph = CsrGraph::from_edges(vertices, &arcs).unwrap();
    graph.with_weights(Some(Weights::Integer(weights))).unwrap()
}

fn graphs() -> impl Strategy<Value = CsrGraph> {
    (1u32..30).prop_flat_map(|vertices| {
        let end = 0..vertices;
        let edges = prop::collection::vec((end.clone(), end, 0u32..5), 0..90);
        edges.prop_map(move |edges| weighted(vertices, &edges))
    })
}

/// Shortest distances without a queue: relaxes all arcs n times.
fn bellman_ford(graph: &CsrGraph, source: u32) -> Vec<u32> {
    let Some(Weights::Integer(weights)) = graph.weights() else { panic!("no weights") };
    let mut distances = vec![u32::MAX; graph.vertices() as usize];
    distances[source as usize] = 0;
    for _ in 0..graph.vertices() {
        for from in 0..graph.vertices() {
            for arc in graph.row(from) {
                let to = graph.targets()[arc] as usize;
                let through = distances[from as usize].saturating_add(weights[arc]);
                distances[to] = distances[to].min(through);
            }
        }
    }
    distances
}

proptest! {
    #[test]
    fn references_agree_with_each_other_and_with_the_validators(graph in graphs()) {
        let distances = dijkstra(&graph, &[0]).unwrap();
        prop_assert_eq!(&distances, &Distances::Integer(bellman_ford(&graph, 0)));
        prop_assert_eq!(validate::sssp_distances(&graph, &[0], None, &distances), Ok(()));

        let levels = bfs_levels(&graph, &[0], None);
        prop_assert_eq!(validate::bfs_levels(&graph, &[0], None, &levels), Ok(()));
        let unit = graph.clone().with_weights(Some(generate::unit_weights(&graph))).unwrap();
        prop_assert_eq!(dijkstra(&unit, &[0]), Ok(Distances::Integer(levels)));

        let labels = weak_components(&graph);
        prop_assert_eq!(validate::weak_components(&graph, &labels), Ok(()));
        let arcs = (0..graph.vertices()).flat_map(|from| {
            graph.neighbors(from).iter().flat_map(move |&to| [(from, to), (to, from)])
        });
        let symmetric = CsrGraph::from_edges(graph.vertices(), &arcs.collect::<Vec<_>>()).unwrap();
        for vertex in 0..graph.vertices() {
            let levels = bfs_levels(&symmetric, &[vertex], None);
            let smallest = levels.iter().position(|&level| level != UNREACHED).unwrap();
            prop_assert_eq!(labels[vertex as usize], smallest as u32);
        }

        let question = PageRankQuestion { tolerance: 1e-12, ..PageRankQuestion::default() };
        let result = pagerank(&graph, &question).unwrap();
        prop_assert!(result.converged && (result.ranks.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        prop_assert!(validate::pagerank(&graph, &question, &result.ranks, 1e-11).is_ok());
    }

    #[test]
    fn integers_and_reals_agree_while_sums_are_exact(graph in graphs()) {
        let Some(Weights::Integer(weights)) = graph.weights() else { panic!("no weights") };
        let real = Weights::Real(weights.iter().map(|&weight| weight as f32).collect());
        let Ok(Distances::Integer(integers)) = dijkstra(&graph, &[0]) else { panic!() };
        let real = graph.clone().with_weights(Some(real)).unwrap();
        let Ok(Distances::Real(reals)) = dijkstra(&real, &[0]) else { panic!() };
        for (integer, real) in integers.into_iter().zip(reals) {
            let expected = if integer == u32::MAX { f32::INFINITY } else { integer as f32 };
            prop_assert_eq!(real, expected);
        }
    }
}

#[test]
fn the_karate_club_is_as_others_know_it() {
    let levels = bfs_levels(&karate(), &[33], None);
    let of_level = |wanted| levels.iter().filter(|&&level| level == wanted).count();
    assert_eq!([0, 1, 2, 3, 4].map(of_level), [1, 17, 6, 9, 1]);
    assert_eq!(weak_components(&karate()), [0; 34]);
    let question = PageRankQuestion { tolerance: 1e-12, ..PageRankQuestion::default() };
    let ranks = pagerank(&karate(), &question).unwrap().ranks;
    // As published for this graph and damping .85: vertices 33 and 0 have the highest ranks.
    assert!((ranks[33] - 0.1009).abs() < 1e-4, "{}", ranks[33]);
    assert!((ranks[0] - 0.0970).abs() < 1e-4, "{}", ranks[0]);
}

#[test]
fn several_sources_and_a_depth_limit() {
    let path: Vec<_> = (0..6).map(|vertex| (vertex, vertex + 1)).collect();
    let path = CsrGraph::from_edges(7, &path).unwrap();
    let un = UNREACHED;
    assert_eq!(bfs_levels(&path, &[0, 4, 4], None), [0, 1, 2, 3, 0, 1, 2]);
    assert_eq!(bfs_levels(&path, &[1], Some(2)), [un, 0, 1, 2, un, un, un]);
    assert_eq!(bfs_levels(&path, &[], Some(2)), [un; 7]);
    let path = path.with_weights(Some(Weights::Integer(vec![5; 6]))).unwrap();
    assert_eq!(dijkstra(&path, &[0, 4]), Ok(Distances::Integer(vec![0, 5, 10, 15, 0, 5, 10])));
}

#[test]
fn paths_that_overflow_matter_only_if_shortest() {
    let far = Distances::TOO_FAR - 1;
    let detour = weighted(3, &[(0, 1, far), (1, 2, far), (0, 2, 7)]);
    assert_eq!(dijkstra(&detour, &[0]), Ok(Distances::Integer(vec![0, far, 7])));
    let only = weighted(3, &[(0, 1, far), (1, 2, far)]);
    assert_eq!(dijkstra(&only, &[0]), Err(SsspError::Overflow { vertex: 2 }));
    for no_distance in [Distances::TOO_FAR, u32::MAX] {
        let largest = weighted(2, &[(0, 1, no_distance)]);
        assert_eq!(dijkstra(&largest, &[0]), Err(SsspError::Overflow { vertex: 1 }));
    }
    let real = only.with_weights(Some(Weights::Real(vec![f32::MAX, f32::MAX]))).unwrap();
    assert_eq!(dijkstra(&real, &[0]), Err(SsspError::Overflow { vertex: 2 }));
}

#[test]
fn weights_and_sources_that_are_none_are_errors() {
    let graph = CsrGraph::from_edges(2, &[(0, 1)]).unwrap();
    assert_eq!(dijkstra(&graph, &[0]), Err(SsspError::NoWeights));
    let real = |weight| graph.clone().with_weights(Some(Weights::Real(vec![weight]))).unwrap();
    let bad = BadWeight { from: 0, to: 1, weight: -1.0 };
    assert_eq!(dijkstra(&real(-1.0), &[0]), Err(SsspError::Weight(bad)));
    let source = SsspError::Source { source_vertex: 2, vertices: 2 };
    assert_eq!(dijkstra(&real(1.0), &[2]), Err(source));
}

fn assert_ranks(graph: &CsrGraph, question: &PageRankQuestion, expected: &[f64]) {
    let question = PageRankQuestion { tolerance: 1e-14, ..question.clone() };
    let ranks = pagerank(graph, &question).unwrap().ranks;
    let close = |(rank, expected): (&f64, &f64)| (rank - expected).abs() < 1e-12;
    assert!(ranks.iter().zip(expected).all(close), "{ranks:?} {expected:?}");
}

#[test]
fn ranks_that_can_be_worked_out_by_hand() {
    let plain = PageRankQuestion::default();
    // r0 = (.15 + .85 r1) / 2, since 1 is dangling, and r1 = r0 + .85 r0.
    let arc = CsrGraph::from_edges(2, &[(0, 1)]).unwrap();
    assert_ranks(&arc, &plain, &[1.0 / 2.85, 1.85 / 2.85]);
    // r0 = .15 + .85 r1 and r1 = .85 r0.
    let pair = CsrGraph::from_edges(2, &[(0, 1), (1, 0)]).unwrap();
    let personal = PageRankQuestion { personalization: vec![0], ..plain.clone() };
    let first = 0.15 / (1.0 - 0.85 * 0.85);
    assert_ranks(&pair, &personal, &[first, 0.85 * first]);
    // Three quarters of the first vertex's followers go to the second.
    let star = weighted(3, &[(0, 1, 3), (0, 2, 1), (1, 0, 1), (2, 0, 9)]);
    let by_weight = PageRankQuestion { weighted: true, ..plain.clone() };
    let first = 0.135 / (1.0 - 0.85 * 0.85);
    let of_first = |share: f64| 0.05 + 0.85 * share * first;
    assert_ranks(&star, &by_weight, &[first, of_first(0.75), of_first(0.25)]);
    assert_ranks(&star, &plain, &[first, of_first(0.5), of_first(0.5)]);
}

#[test]
fn pagerank_says_whether_it_converged() {
    let question = PageRankQuestion { max_iterations: 2, ..PageRankQuestion::default() };
    let result = pagerank(&karate(), &question).unwrap();
    assert_eq!((result.iterations, result.converged), (2, false));
    assert!(result.change > question.tolerance);
    let empty = pagerank(&CsrGraph::from_edges(0, &[]).unwrap(), &question).unwrap();
    assert!(empty.converged && empty.ranks.is_empty());
}

#[test]
fn pagerank_questions_without_meaning_are_errors() {
    let graph = karate();
    let check = |question| pagerank(&graph, &question).unwrap_err();
    let plain = PageRankQuestion::default();
    for damping in [1.0, -0.1, f64::NAN] {
        let question = PageRankQuestion { damping, ..plain.clone() };
        assert!(matches!(check(question), PageRankError::Damping { .. }));
    }
    let question = PageRankQuestion { personalization: vec![3, 34], ..plain.clone() };
    assert_eq!(check(question), PageRankError::Personalization { vertex: 34, vertices: 34 });
    let question = PageRankQuestion { weighted: true, ..plain.clone() };
    assert_eq!(check(question.clone()), PageRankError::NoWeights);
    let real = |weight| Weights::Real(vec![weight; 156]);
    let negative = karate().with_weights(Some(real(-1.0))).unwrap();
    let bad = BadWeight { from: 0, to: 1, weight: -1.0 };
    assert_eq!(pagerank(&negative, &question), Err(PageRankError::Weight(bad)));
}

#[test]
fn references_and_validators_take_generated_graphs() {
    let options = GenerateOptions { seed: 4, max_weight: Some(20) };
    for graph in [
        generate::kron(9, 8, &options).unwrap(),
        generate::road(40, 30, generate::KEEP_PERMILLE, &options).unwrap(),
    ] {
        let sources = [crate::source::max_degree(&graph).unwrap()];
        let distances = dijkstra(&graph, &sources).unwrap();
        assert_eq!(validate::sssp_distances(&graph, &sources, None, &distances), Ok(()));
        let levels = bfs_levels(&graph, &sources, None);
        assert_eq!(validate::bfs_levels(&graph, &sources, None, &levels), Ok(()));
        let labels = weak_components(&graph);
        assert_eq!(validate::weak_components(&graph, &labels), Ok(()));
    }
}
