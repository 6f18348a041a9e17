//! Edges between any two vertices.

use super::{GenerateError, GenerateOptions, build, check_draws};
use crate::CsrGraph;
use crate::random::{CounterRandom, Purpose};
use crate::symmetric::EdgeSource;

struct Uniform {
    vertices: u32,
    edges: u64,
    random: CounterRandom,
}

/// A graph of `vertices` vertices from `edges` draws of two ends, each vertex as
/// likely as another. Draws that repeat an edge or join a vertex to itself do not
/// count, so there are at most `2 * edges` arcs.
///
/// # Errors
/// 2^32 - 1 vertices, more than 2^37 draws, a largest weight of 0, more than fits in memory.
pub fn random(
    vertices: u32,
    edges: u64,
    options: &GenerateOptions,
) -> Result<CsrGraph, GenerateError> {
    let edges = check_draws(edges.into())?;
    let random = CounterRandom::new(options.seed, Purpose::Edges);
    build(u64::from(vertices), &Uniform { vertices, edges, random }, options)
}

impl EdgeSource for Uniform {
    fn items(&self) -> u64 {
        // There is no edge among fewer than two vertices.
        if self.vertices > 1 { self.edges } else { 0 }
    }

    fn edges(&self, edge: u64, mut emit: impl FnMut(u32, u32)) {
        let end = |position| self.random.below(self.vertices, position);
        emit(end(2 * edge), end(2 * edge + 1));
    }
}
