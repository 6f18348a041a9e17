use proptest::prelude::*;

use super::*;
use crate::Weights;
use crate::generate::{self, GenerateOptions};

type Partitioner = fn(&CsrGraph, usize) -> Partition;

fn partitioners() -> Vec<(&'static str, Partitioner)> {
    vec![
        ("blocks", contiguous_blocks),
        ("edges", edge_balanced_blocks),
        ("random", |graph, parts| random(graph, parts, 7)),
        ("regions", region_blocks),
        #[cfg(feature = "metis")]
        ("metis", |graph, parts| metis(graph, parts).unwrap()),
        ("automatic", automatic),
    ]
}

fn graphs() -> impl Strategy<Value = CsrGraph> {
    (0u32..40).prop_flat_map(|vertices| {
        let end = 0..vertices.max(1);
        let edges = prop::collection::vec((end.clone(), end, 1u32..9), 0..200);
        edges.prop_map(move |mut edges| {
            edges.retain(|_| vertices > 0);
            edges.sort_unstable();
            let arcs: Vec<_> = edges.iter().map(|&(from, to, _)| (from, to)).collect();
            let weights = edges.iter().map(|&(_, _, weight)| weight).collect();
            let graph = CsrGraph::from_edges(vertices, &arcs).unwrap();
            graph.with_weights(Some(Weights::Integer(weights))).unwrap()
        })
    })
}

/// Every arc with its weight, under original ids.
fn arcs(graph: &CsrGraph, original: impl Fn(u32) -> u32) -> Vec<(u32, u32, u32)> {
    let Some(Weights::Integer(weights)) = graph.weights() else { panic!("no weights") };
    let arcs =
        (0..graph.vertices()).flat_map(|vertex| graph.row(vertex).map(move |arc| (vertex, arc)));
    let mut arcs: Vec<_> = arcs
        .map(|(from, arc)| (original(from), original(graph.targets()[arc]), weights[arc]))
        .collect();
    arcs.sort_unstable();
    arcs
}

/// The graph with new ids, by definition: for each vertex, its arcs in the order of `key`, which
/// gets new targets and weights.
fn by_definition<K: Ord>(
    graph: &CsrGraph,
    partition: &Partition,
    key: impl Fn((u32, u32)) -> K,
) -> CsrGraph {
    let Some(Weights::Integer(weights)) = graph.weights() else { panic!("no weights") };
    let (mut offsets, mut arcs) = (vec![0], Vec::new());
    for original in (0..graph.vertices()).map(|new| partition.to_original(new)) {
        let new = |arc: usize| (partition.to_new(graph.targets()[arc]), weights[arc]);
        let mut row: Vec<_> = graph.row(original).map(new).collect();
        row.sort_unstable_by_key(|&arc| key(arc));
        arcs.append(&mut row);
        offsets.push(arcs.len() as u64);
    }
    let (targets, weights) = arcs.into_iter().unzip();
    CsrGraph::from_csr(offsets, targets, Some(Weights::Integer(weights))).unwrap()
}

/// With weights that are reals, half of them negative.
fn with_reals(graph: &CsrGraph) -> CsrGraph {
    let Some(Weights::Integer(weights)) = graph.weights() else { panic!("no weights") };
    let reals = weights.iter().map(|&weight| weight as f32 - 4.5).collect();
    graph.clone().with_weights(Some(Weights::Real(reals))).unwrap()
}

proptest! {
    #[test]
    fn a_renumbered_graph_is_the_one_by_definition(
        graph in graphs(),
        parts in 1usize..5,
        window in 0u32..50,
    ) {
        let random = random(&graph, parts, 2);
        let ordered = random.by_degree(&graph, window);
        let blocks = contiguous_blocks(&graph, parts).by_degree(&graph, window);
        for partition in [random, ordered, blocks] {
            let by_target = by_definition(&graph, &partition, |(target, weight)| (target, weight));
            prop_assert_eq!(&partition.renumber(&graph), &by_target);
            let structure = by_target.clone().with_weights(None).unwrap();
            prop_assert_eq!(partition.renumber_structure(&graph), structure);
            let by_weight = by_definition(&graph, &partition, |(target, weight)| (weight, target));
            prop_assert_eq!(&partition.renumber_by_weight(&graph), &by_weight);
            let reals = with_reals(&graph);
            prop_assert_eq!(partition.renumber(&reals), with_reals(&by_target));
            prop_assert_eq!(partition.renumber_by_weight(&reals), with_reals(&by_weight));
        }
        let same = contiguous_blocks(&graph, parts);
        let by_weight = by_definition(&graph, &same, |(target, weight)| (weight, target));
        prop_assert_eq!(same.renumber_by_weight(&graph), by_weight);
    }

    #[test]
    fn every_vertex_has_one_owner_and_keeps_its_arcs(graph in graphs(), parts in 1usize..60) {
        for (name, partitioner) in partitioners() {
            let partition = partitioner(&graph, parts);
            prop_assert_eq!(partition.parts(), parts, "{}", name);
            prop_assert_eq!(partition.boundaries()[0], 0);
            prop_assert!(partition.boundaries().is_sorted());
            prop_assert_eq!(partition.vertices(), graph.vertices());
            for vertex in 0..graph.vertices() {
                prop_assert_eq!(partition.to_original(partition.to_new(vertex)), vertex);
                prop_assert!(partition.range(partition.owner(vertex)).contains(&vertex));
            }
            // Regions come in the order of a search, and `automatic` may choose them.
            let in_order = !["regions", "automatic"].contains(&name);
            for part in (0..parts).filter(|_| in_order) {
                let mut originals = partition.range(part).map(|new| partition.to_original(new));
                prop_assert!(originals.by_ref().is_sorted());
            }
            let renumbered = partition.renumber(&graph);
            prop_assert_eq!(
                arcs(&renumbered, |new| partition.to_original(new)),
                arcs(&graph, |original| original)
            );
            for vertex in 0..graph.vertices() {
                prop_assert!(renumbered.neighbors(vertex).is_sorted());
            }
            let by_new = (0..graph.vertices()).map(|new| partition.to_original(new)).collect();
            let restored: Vec<u32> = partition.restore(by_new);
            prop_assert!(restored.into_iter().eq(0..graph.vertices()));
        }
    }

    #[test]
    fn the_most_arcs_come_first_in_windows(graph in graphs(), parts in 1usize..5, window in 0u32..9) {
        let random = random(&graph, parts, 1);
        let ordered = random.by_degree(&graph, window);
        prop_assert_eq!(random.boundaries(), ordered.boundaries());
        let place = |new| (random.owner(new), new / window.max(1));
        for new in 0..graph.vertices() {
            let original = ordered.to_original(new);
            prop_assert_eq!(place(random.to_new(original)), place(new));
            if new + 1 < graph.vertices() && place(new) == place(new + 1) {
                let next = ordered.to_original(new + 1);
                let (degree, before) = (graph.degree(next), graph.degree(original));
                prop_assert!(degree <= before);
                prop_assert!(degree < before || random.to_new(next) > random.to_new(original));
            }
        }
        let blocks = contiguous_blocks(&graph, parts);
        prop_assert_eq!(blocks.renumber_structure(&graph), graph.with_weights(None).unwrap());
    }

    #[test]
    fn the_cut_is_what_crosses(graph in graphs(), parts in 1usize..10) {
        for (_, partitioner) in partitioners() {
            let partition = partitioner(&graph, parts);
            let renumbered = partition.renumber(&graph);
            let mut expected = 0;
            for from in 0..graph.vertices() {
                for &to in renumbered.neighbors(from) {
                    expected += u64::from(partition.owner(from) != partition.owner(to));
                }
            }
            prop_assert_eq!(partition.edge_cut(&graph), expected);
            prop_assert!(partition.vertex_balance() >= 1.0 - 1e-12);
            prop_assert!(partition.vertex_balance() <= parts as f64 + 1e-12);
            prop_assert!(partition.arc_balance(&graph) >= 1.0 - 1e-12);
        }
    }
}

#[test]
fn balance_is_the_largest_part_over_the_mean() {
    let star = CsrGraph::from_edges(6, &[(0, 1), (0, 2), (0, 3), (4, 5)]).unwrap();
    let partition = Partition::from_parts(3, &[0, 1, 1, 1, 0, 1]).unwrap();
    assert_eq!(partition.boundaries(), [0, 2, 6, 6]);
    assert_eq!(partition.vertex_balance(), 2.0);
    assert_eq!(partition.arc_balance(&star), 3.0);
    assert_eq!(partition.edge_cut(&star), 4);
    let nothing = CsrGraph::from_edges(0, &[]).unwrap();
    assert_eq!(contiguous_blocks(&nothing, 3).vertex_balance(), 1.0);
}

#[test]
fn edge_balanced_blocks_balance_arcs() {
    let graph = generate::kron(12, 16, &GenerateOptions::default()).unwrap();
    for parts in [2, 4, 8] {
        let (edges, blocks) =
            (edge_balanced_blocks(&graph, parts), contiguous_blocks(&graph, parts));
        assert!(edges.arc_balance(&graph) < 1.15, "{}", edges.arc_balance(&graph));
        assert!(blocks.vertex_balance() < 1.001);
    }
}

#[test]
fn random_parts_are_about_equal() {
    let graph = generate::grid(100, 100, &GenerateOptions::default()).unwrap();
    let partition = random(&graph, 4, 1);
    assert!(partition.vertex_balance() < 1.1);
    assert_ne!(partition, random(&graph, 4, 2));
    // Three quarters of the arcs.
    let cut = partition.edge_cut(&graph) as f64 / graph.arcs() as f64;
    assert!((0.70..0.80).contains(&cut), "{cut}");
}

#[test]
fn parts_that_do_not_exist_are_errors() {
    let error = Partition::from_parts(2, &[0, 1, 2]).unwrap_err();
    assert_eq!(error, PartitionError::PartOutOfRange { vertex: 2, part: 2, parts: 2 });
}

#[test]
fn graphs_with_hubs_are_not_meshes() {
    let options = GenerateOptions::default();
    assert!(is_mesh_like(&generate::grid(50, 50, &options).unwrap()));
    assert!(is_mesh_like(&generate::road(50, 50, 605, &options).unwrap()));
    let kron = generate::kron(10, 16, &options).unwrap();
    assert!(!is_mesh_like(&kron));
    assert_eq!(automatic(&kron, 4), edge_balanced_blocks(&kron, 4));
    // A hub with incoming arcs only.
    let edges: Vec<_> = (1..=33).map(|leaf| (leaf, 0)).collect();
    assert!(!is_mesh_like(&CsrGraph::from_edges(34, &edges).unwrap()));
    assert!(is_mesh_like(&CsrGraph::from_edges(34, &edges[1..]).unwrap()));
}

/// Large enough that windows, rows and vertices are divided among threads.
#[test]
fn a_large_graph_is_the_one_by_definition() {
    let options = GenerateOptions { max_weight: Some(64), ..GenerateOptions::default() };
    let kron = generate::kron(14, 16, &options).unwrap();
    for window in [1024, u32::MAX] {
        let partition = edge_balanced_blocks(&kron, 3).by_degree(&kron, window);
        assert!(partition.renumber(&kron) == by_definition(&kron, &partition, |arc| arc));
        let turned = |(target, weight)| (weight, target);
        let by_weight = by_definition(&kron, &partition, turned);
        assert!(partition.renumber_by_weight(&kron) == by_weight);
    }
}

#[cfg(feature = "metis")]
mod with_metis {
    use super::*;

    #[test]
    fn metis_cuts_a_mesh_less_than_blocks_and_balances_it() {
        let graph = generate::grid(120, 120, &GenerateOptions::default()).unwrap();
        let partition = metis(&graph, 8).unwrap();
        let (cut, blocks) =
            (partition.edge_cut(&graph), contiguous_blocks(&graph, 8).edge_cut(&graph));
        assert!(cut * 5 < blocks * 4, "{cut} {blocks}");
        assert!(partition.arc_balance(&graph) < 1.05);
    }

    #[test]
    fn directions_and_self_loops_do_not_matter_to_metis() {
        let graph = generate::grid(30, 30, &GenerateOptions::default()).unwrap();
        let mut edges: Vec<(u32, u32)> = (0..900).map(|vertex| (vertex, vertex)).collect();
        for from in 0..900 {
            let later = graph.neighbors(from).iter().filter(|to| **to > from);
            edges.extend(later.flat_map(|&to| [(from, to), (from, to)]));
        }
        let directed = CsrGraph::from_edges(900, &edges).unwrap();
        assert_eq!(metis(&directed, 4), metis(&graph, 4));
    }

    #[test]
    fn metis_does_not_hear_of_vertices_without_neighbours() {
        let grid = generate::grid(30, 30, &GenerateOptions::default()).unwrap();
        // The grid's vertices are every tenth; one of the others has a self-loop.
        let arcs = (0..900).flat_map(|from| {
            let targets = grid.neighbors(from).iter();
            targets.map(move |&to| (10 * from, 10 * to))
        });
        let arcs: Vec<_> = arcs.chain([(5, 5)]).collect();
        let graph = CsrGraph::from_edges(9000, &arcs).unwrap();
        let (alone, among) = (metis(&grid, 4).unwrap(), metis(&graph, 4).unwrap());
        for vertex in 0..900 {
            let owner = |it: &Partition, vertex| it.owner(it.to_new(vertex));
            assert_eq!(owner(&among, 10 * vertex), owner(&alone, vertex));
        }
        assert_eq!(among.edge_cut(&graph), alone.edge_cut(&grid));
        // Degree + 1, not the number of vertices.
        let load = |part: usize| {
            let degree = |new| graph.degree(among.to_original(new)) + 1;
            among.range(part).map(degree).sum::<u64>()
        };
        let mean = (graph.arcs() + 9000) / 4;
        assert!((0..4).all(|part| load(part).abs_diff(mean) <= 2), "{mean}");
        // Fewer vertices have neighbours than there are parts.
        let few = metis(&CsrGraph::from_edges(100, &[(20, 80)]).unwrap(), 4).unwrap();
        assert!(few.vertex_balance() < 1.05, "{few:?}");
    }

    #[test]
    fn calls_at_the_same_time_do_not_disturb_each_other() {
        let graph = generate::road(60, 60, 700, &GenerateOptions::default()).unwrap();
        let alone = metis(&graph, 5).unwrap();
        std::thread::scope(|scope| {
            let calls: Vec<_> = (0..4).map(|_| scope.spawn(|| metis(&graph, 5))).collect();
            for call in calls {
                assert_eq!(call.join().unwrap().unwrap(), alone);
            }
        });
    }
}

/// Enough vertices for several threads to put them in order.
#[test]
fn many_values_are_restored_as_few_are() {
    let graph = CsrGraph::from_edges(4 * LEAST as u32 + 1, &[]).unwrap();
    for partition in [contiguous_blocks(&graph, 3), random(&graph, 3, 1)] {
        let restored = partition.restore_with(|new| partition.to_original(new));
        assert!(restored.into_iter().eq(0..graph.vertices()));
    }
}

#[test]
fn parts_that_cannot_be_counted_are_refused() {
    for parts in [usize::MAX, u32::MAX as usize + 1] {
        let error = Partition::from_parts(parts, &[0]).unwrap_err();
        assert!(matches!(error, PartitionError::TooLarge { vertices: 1, .. }), "{error}");
    }
}
