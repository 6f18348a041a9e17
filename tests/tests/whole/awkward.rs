//! Small graphs that algorithms tend to get wrong.

use millstream::graph::generate::{self, GenerateOptions};
use millstream::graph::{CsrGraph, Partition, Weights};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

/// Names and graphs, all without weights.
pub(crate) fn graphs() -> Vec<(&'static str, CsrGraph)> {
    let both = |edges: &[(u32, u32)]| -> Vec<(u32, u32)> {
        edges.iter().flat_map(|&(one, other)| [(one, other), (other, one)]).collect()
    };
    let chain: Vec<_> = (0..99).map(|vertex| (vertex, vertex + 1)).collect();
    let star: Vec<_> = (1..60).map(|leaf| (0, leaf)).collect();
    let mut cliques: Vec<_> =
        (0..8).flat_map(|one| (0..one).map(move |other| (one, other))).collect();
    cliques.extend(cliques.clone().iter().map(|(one, other)| (one + 20, other + 20)));
    cliques.extend((7..20).map(|vertex| (vertex, vertex + 1)));
    // A multiplicative walk: pseudo-random, connected, directed.
    let random: Vec<_> = (0..900u32).map(|arc| (arc * 7919 % 300, arc * 104_729 % 300)).collect();
    // Eight hubs spread evenly, with arcs to everyone.
    let hubs: Vec<_> =
        (0..8u32).flat_map(|hub| (0..160).map(move |leaf| (hub * 20 + 3, leaf))).collect();
    [
        ("one vertex", 1, vec![]),
        ("no edges", 5, vec![]),
        ("three vertices", 3, vec![(2, 1), (1, 0)]),
        ("chain", 100, both(&chain)),
        ("star", 60, both(&star)),
        ("two cliques and a path", 28, both(&cliques)),
        ("loops and duplicates", 6, vec![(0, 0), (0, 1), (0, 1), (1, 1), (3, 4)]),
        ("random", 300, random),
        ("hubs", 160, hubs),
    ]
    .map(|(name, vertices, edges)| (name, CsrGraph::from_edges(vertices, &edges).unwrap()))
    .into_iter()
    .chain([("shuffled road", shuffled_road())])
    .collect()
}

/// A road map whose ids say nothing of where a vertex is.
fn shuffled_road() -> CsrGraph {
    let options = GenerateOptions::default();
    let road = generate::road(20, 20, generate::KEEP_PERMILLE, &options).unwrap();
    let mut ids: Vec<u32> = (0..400).collect();
    ids.shuffle(&mut SmallRng::seed_from_u64(1));
    // A part for each vertex.
    Partition::from_parts(400, &ids).unwrap().renumber(&road)
}

/// Integer and real weights of several kinds, none of which overflows.
pub(crate) fn weights(graph: &CsrGraph) -> Vec<(&'static str, Weights)> {
    let arcs = graph.targets().len();
    let integers = |weight: fn(u32) -> u32| (0..arcs as u32).map(weight).collect();
    let reals = |weight: fn(u32) -> f32| (0..arcs as u32).map(weight).collect();
    vec![
        ("zero", Weights::Integer(vec![0; arcs])),
        ("zero or one", Weights::Integer(integers(|arc| arc * 37 % 5 / 4))),
        ("random", generate::random_weights(graph, 100, 1)),
        // No shortest path has as many arcs as vertices, at most 400.
        ("huge", Weights::Integer(integers(|arc| u32::MAX / 400 - arc * 7919 % 1000))),
        ("real", Weights::Real(reals(|arc| (arc * 7919 % 1000) as f32 / 37.0))),
        ("real zero", Weights::Real(reals(|arc| (arc % 3) as f32 * 0.1 - 0.0))),
        ("tiny", Weights::Real(reals(|arc| (arc % 4) as f32 * f32::from_bits(1)))),
    ]
}
