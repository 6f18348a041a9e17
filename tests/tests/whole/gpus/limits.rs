//! Shortest paths with a cutoff, and too long for their numbers, by every algorithm, in integers and
//! in reals.

use millstream::flow::Context;
use millstream::graph::reference::{self, Distances};
use millstream::graph::{CsrGraph, Weights, partition};
use millstream::sssp::{Algorithm, Error, Sssp, SsspOptions, SsspResult};
use millstream::worklist::Worker;

use super::{context, fused};
use crate::near_far::road;
use crate::sssp::with_weights;

/// Of all algorithms that these devices have, what one finds from the first vertex.
fn by_all(
    context: &Context,
    graph: &CsrGraph,
    cutoff: Option<f64>,
    check: impl Fn(&str, Result<SsspResult, Error>),
) {
    let ways = [
        ("fused, or by the host", Algorithm::Asynchronous, fused(context)),
        ("by the host", Algorithm::Asynchronous, Worker::HostDriven),
        ("in steps", Algorithm::Stepping, Worker::Auto),
        ("near and far", Algorithm::NearFar, Worker::Auto),
    ];
    for (what, algorithm, worker) in ways {
        let mut options = SsspOptions::default();
        options.algorithm = algorithm;
        (options.cutoff, options.worklist.worker) = (cutoff, worker);
        let parts = partition::edge_balanced_blocks(graph, context.devices().len());
        let search =
            async { Sssp::with_partition(context, graph, parts, options).await?.run(&[0]).await };
        match context.block_on(search).unwrap() {
            Err(Error::NotStepping | Error::NotNearFar { .. }) => {
                println!("{what}: these devices cannot")
            }
            result => check(what, result),
        }
    }
}

/// Integers and reals that are alike.
fn both(graph: &CsrGraph, weights: Vec<u32>) -> [CsrGraph; 2] {
    let reals = weights.iter().map(|&weight| weight as f32 / 4.0).collect();
    [Weights::Integer(weights), Weights::Real(reals)].map(|weights| with_weights(graph, weights))
}

#[test]
fn cutoffs_by_every_algorithm() {
    let context = context();
    let road = road(24, 80, 9);
    let Some(Weights::Integer(weights)) = road.weights().cloned() else { panic!("no integers") };
    for graph in both(&road, weights) {
        let all = reference::dijkstra(&graph, &[0]).unwrap();
        let mut known: Vec<f64> = match &all {
            Distances::Integer(all) => all.iter().map(|&is| f64::from(is)).collect(),
            Distances::Real(all) => all.iter().map(|&is| f64::from(is)).collect(),
        };
        known.sort_by(f64::total_cmp);
        // As far as some vertex is.
        let cutoff = known[known.len() / 3];
        let expected = match all {
            Distances::Integer(all) => Distances::Integer(
                all.into_iter()
                    .map(|is| if f64::from(is) > cutoff { u32::MAX } else { is })
                    .collect(),
            ),
            Distances::Real(all) => Distances::Real(
                all.into_iter()
                    .map(|is| if f64::from(is) > cutoff { f32::INFINITY } else { is })
                    .collect(),
            ),
        };
        by_all(&context, &graph, Some(cutoff), |what, result| {
            let found = result.unwrap();
            assert!(found.distances == expected, "{what}, {cutoff}");
            assert!(found.reached() > 10 && found.reached() < u64::from(graph.vertices()));
        });
    }
}

/// A path there and back, whose third vertex is too far; the second is as far as numbers go.
#[test]
fn overflow_by_every_algorithm() {
    let context = context();
    let arcs: Vec<_> = (0..63).flat_map(|at| [(at, at + 1), (at + 1, at)]).collect();
    let path = CsrGraph::from_edges(64, &arcs).unwrap();
    let most = u32::MAX - 2;
    let ends = (0..path.vertices())
        .flat_map(|from| path.neighbors(from).iter().map(move |&to| from.min(to)));
    let nearer: Vec<u32> = ends.collect();
    let integers = nearer.iter().map(|&nearer| [most - 8, 9, 0][nearer.min(2) as usize]).collect();
    let reals =
        nearer.iter().map(|&nearer| [f32::MAX, f32::MAX, 0.0][nearer.min(2) as usize]).collect();
    for (weights, second) in [
        (Weights::Integer(integers), f64::from(most - 8)),
        (Weights::Real(reals), f64::from(f32::MAX)),
    ] {
        let graph = with_weights(&path, weights);
        by_all(&context, &graph, None, |what, result| match result {
            Err(Error::Overflow { .. }) => {}
            other => panic!("{what}: {:?}", other.map(|found| found.reached())),
        });
        by_all(&context, &graph, Some(second), |what, result| {
            assert_eq!(result.unwrap().reached(), 2, "{what}");
        });
    }
}
