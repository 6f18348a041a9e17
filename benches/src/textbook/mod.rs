//! Algorithms as in textbooks, made parallel with rayon. Ours are measured against them on host devices.

mod components;
mod pagerank;
mod paths;

pub use components::components;
pub use pagerank::pagerank;
pub use paths::{bfs, sssp};

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

/// How long `run` takes, without freeing what it returns.
pub fn timed<T>(run: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    let result = std::hint::black_box(run());
    let time = start.elapsed();
    drop(result);
    time
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
            assert_eq!(bfs(&graph, 0), reference::bfs_levels(&graph, &[0], None));
            let Some(Weights::Integer(weights)) = graph.weights() else { unreachable!() };
            for delta in [1, 100, 100_000] {
                let distances = sssp(&graph, weights, 0, delta);
                let expected = reference::dijkstra(&graph, &[0]).unwrap();
                assert_eq!(Distances::Integer(distances), expected);
            }
            assert_eq!(components(&graph), reference::weak_components(&graph));
            let sources = graph.transposed().unwrap();
            let converged = reference::pagerank(&graph, &Default::default()).unwrap().ranks;
            let ranks = pagerank(&graph, &sources, 1e-6, 100);
            let distance: f64 =
                ranks.iter().zip(&converged).map(|(&a, b)| (f64::from(a) - b).abs()).sum();
            assert!(distance < 1e-4, "{distance}");
        }
    }
}
