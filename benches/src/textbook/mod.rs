//! Algorithms as in textbooks, made parallel with rayon. Ours are measured against them on host devices.
//! They get their arrays ready, as ours do, and leave the answer in them.

mod components;
mod pagerank;
mod paths;

pub use components::components;
pub use pagerank::{Ranks, pagerank};
pub use paths::{bfs, sssp, unreached};

use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use millstream::graph::CsrGraph;
use millstream::graph::generate::{self, GenerateError, GenerateOptions, KEEP_PERMILLE};

/// Makes a graph with weights according to options.
type Generate = fn(&GenerateOptions) -> Result<CsrGraph, GenerateError>;

/// Graphs of few levels and of many, with their names: some that caches hold, and some that they
/// do not. Weights are integers.
pub const GRAPHS: [(&str, Generate); 6] = [
    ("kron 16 16", |options| generate::kron(16, 16, options)),
    ("social 16 16", |options| generate::social(16, 16, options)),
    ("road 500", |options| road(500, options)),
    ("kron 18 16", |options| generate::kron(18, 16, options)),
    ("social 18 16", |options| generate::social(18, 16, options)),
    ("road 1500", |options| road(1500, options)),
];

fn road(width: u32, options: &GenerateOptions) -> Result<CsrGraph, GenerateError> {
    let options = GenerateOptions { max_weight: Some(10_000), ..*options };
    generate::road(width, width, KEEP_PERMILLE, &options)
}

/// How long `run` takes with arrays that are ready, without freeing them.
pub fn timed<T>(mut arrays: T, run: impl FnOnce(&mut T)) -> Duration {
    let start = Instant::now();
    run(std::hint::black_box(&mut arrays));
    let time = start.elapsed();
    drop(std::hint::black_box(arrays));
    time
}

/// The answer that `run` leaves in such values of vertices.
pub fn answer(values: Vec<AtomicU32>, run: impl FnOnce(&[AtomicU32])) -> Vec<u32> {
    run(&values);
    values.into_iter().map(AtomicU32::into_inner).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use millstream::graph::generate::{self, GenerateOptions};
    use millstream::graph::{Weights, reference};
    use millstream::sssp::Distances;

    use super::*;

    #[test]
    fn textbooks_are_right() {
        let options = GenerateOptions { max_weight: Some(1000), seed: 0 };
        for graph in [
            generate::kron(8, 8, &options).unwrap(),
            generate::road(30, 30, 605, &options).unwrap(),
        ] {
            let levels = answer(unreached(&graph), |levels| bfs(&graph, 0, levels));
            assert_eq!(levels, reference::bfs_levels(&graph, &[0], None));
            let Some(Weights::Integer(weights)) = graph.weights() else { unreachable!() };
            for delta in [1, 100, 100_000] {
                let run = |distances: &[_]| sssp(&graph, weights, 0, delta, distances);
                let distances = answer(unreached(&graph), run);
                let expected = reference::dijkstra(&graph, &[0]).unwrap();
                assert_eq!(Distances::Integer(distances), expected);
            }
            let labels = answer(unreached(&graph), |labels| components(&graph, labels));
            assert_eq!(labels, reference::weak_components(&graph));
            let sources = graph.transposed().unwrap();
            let converged = reference::pagerank(&graph, &Default::default()).unwrap().ranks;
            let mut found = Ranks::even(&graph);
            pagerank(&graph, &sources, 1e-6, 100, &mut found);
            let distance: f64 =
                found.ranks.iter().zip(&converged).map(|(&a, b)| (f64::from(a) - b).abs()).sum();
            assert!(distance < 1e-4, "{distance}");
        }
    }
}
