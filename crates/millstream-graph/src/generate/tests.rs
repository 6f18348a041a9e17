use super::*;

fn options(seed: u64, max_weight: u32) -> GenerateOptions {
    GenerateOptions { seed, max_weight: Some(max_weight) }
}

fn all(options: &GenerateOptions) -> Vec<CsrGraph> {
    vec![
        kron(10, 12, options).unwrap(),
        social(10, 6, options).unwrap(),
        road(71, 43, KEEP_PERMILLE, options).unwrap(),
        grid(31, 17, options).unwrap(),
        random(1000, 5000, options).unwrap(),
    ]
}

fn weight(graph: &CsrGraph, arc: usize) -> u32 {
    match graph.weights() {
        Some(Weights::Integer(weights)) => weights[arc],
        _ => panic!("no integer weights"),
    }
}

/// Symmetric with equal weights, sorted, no self-loop, no repeated arc.
fn check(graph: &CsrGraph, max_weight: u32) {
    for from in 0..graph.vertices() {
        assert!(graph.neighbors(from).is_sorted_by(|one, next| one < next));
        for arc in graph.row(from) {
            let to = graph.targets()[arc];
            assert_ne!(from, to);
            let back = graph.neighbors(to).binary_search(&from).unwrap() + graph.row(to).start;
            assert_eq!(weight(graph, arc), weight(graph, back));
            assert!((1..=max_weight).contains(&weight(graph, arc)));
        }
    }
}

#[test]
fn graphs_are_symmetric_and_simple() {
    for graph in all(&options(3, 10)) {
        assert!(graph.arcs() > 0);
        check(&graph, 10);
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let graphs = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| all(&options(1, 1000)))
    };
    let one = graphs(1);
    assert_eq!(one, graphs(2));
    assert_eq!(one, graphs(5));
}

#[test]
fn seeds_change_everything() {
    for (one, other) in all(&options(1, 9)).iter().zip(&all(&options(2, 9))) {
        assert_ne!(one.weights(), other.weights());
    }
    assert_ne!(kron(8, 8, &options(1, 9)), kron(8, 8, &options(2, 9)));
    assert_ne!(road(20, 20, 500, &options(1, 9)), road(20, 20, 500, &options(2, 9)));
}

#[test]
fn weights_take_every_value() {
    let graph = grid(40, 40, &options(5, 7)).unwrap();
    let mut counts = [0; 8];
    (0..graph.targets().len()).for_each(|arc| counts[weight(&graph, arc) as usize] += 1);
    // 6,240 arcs over 7 values.
    assert!(counts[1..].iter().all(|count| (700..1100).contains(count)), "{counts:?}");
    let plain = CsrGraph::from_csr(graph.offsets().to_vec(), graph.targets().to_vec(), None);
    let plain = plain.unwrap();
    assert_eq!(random_weights(&plain, 7, 5), *graph.weights().unwrap());
    assert_eq!(unit_weights(&plain), Weights::Integer(vec![1; 6240]));
}

#[test]
fn real_weights_are_spread_evenly_and_the_same_both_ways() {
    let graph = grid(40, 40, &options(5, 7)).unwrap();
    let weights = random_real_weights(&graph, 3.5, 5);
    let Weights::Real(reals) = &weights else { panic!("{weights:?}") };
    let mut counts = [0; 7];
    reals.iter().for_each(|&weight| counts[(weight * 2.0).ceil() as usize - 1] += 1);
    assert!(counts.iter().all(|count| (700..1100).contains(count)), "{counts:?}");
    assert_ne!(weights, random_real_weights(&graph, 3.5, 6));
    let weighted = graph.with_weights(Some(weights)).unwrap();
    assert_eq!(weighted.transposed().unwrap().weights(), weighted.weights());
}

#[test]
fn a_grid_has_the_arcs_of_a_grid() {
    let graph = grid(4, 3, &GenerateOptions::default()).unwrap();
    assert_eq!((graph.vertices(), graph.arcs()), (12, 2 * (3 * 3 + 4 * 2)));
    assert_eq!(graph.neighbors(3), [2, 7]);
    assert_eq!(graph.neighbors(5), [1, 4, 6, 9]);
    assert_eq!(graph.lattice_width(), Some(4));
    assert_eq!(graph.weights(), None);
}

#[test]
fn a_road_keeps_its_share_of_the_lattice() {
    let graph = road(300, 200, 605, &options(9, 4)).unwrap();
    let lattice = 2.0 * (299.0 * 200.0 + 300.0 * 199.0);
    assert!((graph.arcs() as f64 / lattice - 0.605).abs() < 0.01);
    assert_eq!(road(30, 30, 0, &options(1, 4)).unwrap().arcs(), 0);
}

#[test]
fn kron_is_more_skewed_than_social_and_social_than_random() {
    let largest = |graph: &CsrGraph| (0..graph.vertices()).map(|v| graph.degree(v)).max().unwrap();
    let options = GenerateOptions::default();
    let kron = largest(&kron(12, 16, &options).unwrap());
    let social = largest(&social(12, 16, &options).unwrap());
    let random = largest(&random(1 << 12, 16 << 12, &options).unwrap());
    assert!(2 * kron > 3 * social && social > 3 * random, "{kron} {social} {random}");
}

#[test]
fn edges_of_a_random_graph_are_as_many_as_draws_but_for_repeats() {
    let graph = random(1000, 5000, &GenerateOptions::default()).unwrap();
    // 5 draws join a vertex to itself, 25 repeat an edge, on average.
    assert!((9_860..10_000).contains(&graph.arcs()), "{}", graph.arcs());
}

#[test]
fn the_smallest_graphs_exist() {
    let options = options(0, u32::MAX);
    assert_eq!(kron(0, 5, &options).unwrap().vertices(), 1);
    assert_eq!(kron(1, 5, &options).unwrap().arcs(), 2);
    assert_eq!(kron(3, 0, &options).unwrap().arcs(), 0);
    assert_eq!(grid(0, 7, &options).unwrap().vertices(), 0);
    assert_eq!(grid(1, 1, &options).unwrap().arcs(), 0);
    assert_eq!(grid(1, 4, &options).unwrap().arcs(), 6);
    assert_eq!(random(0, 9, &options).unwrap().vertices(), 0);
    assert_eq!(random(1, 9, &options).unwrap().arcs(), 0);
}

#[test]
fn impossible_graphs_are_errors() {
    let options = GenerateOptions::default();
    let many = |result| matches!(result, Err(GenerateError::TooManyVertices { .. }));
    assert_eq!(kron(32, 1, &options), Err(GenerateError::Scale { scale: 32 }));
    assert_eq!(social(200, 1, &options), Err(GenerateError::Scale { scale: 200 }));
    assert!(many(grid(1 << 16, 1 << 16, &options)));
    assert!(many(random(u32::MAX, 1, &options)));
    let edges = |result| match result {
        Err(GenerateError::TooManyEdges { edges }) => Some(edges),
        _ => None,
    };
    assert_eq!(edges(kron(20, u64::MAX, &options)), Some(u128::from(u64::MAX) << 20));
    assert_eq!(edges(social(0, (1 << 37) + 1, &options)), Some((1 << 37) + 1));
    assert_eq!(edges(random(1000, (1 << 37) + 1, &options)), Some((1 << 37) + 1));
    let keep = road(3, 3, 1001, &options);
    assert_eq!(keep, Err(GenerateError::Keep { permille: 1001 }));
    let weight = GenerateOptions { max_weight: Some(0), ..options };
    assert_eq!(grid(3, 3, &weight), Err(GenerateError::NoWeight));
}
