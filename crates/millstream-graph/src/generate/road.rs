//! A lattice with holes, whose degrees and diameter resemble a road map's.

use super::{GenerateError, GenerateOptions, build};
use crate::CsrGraph;
use crate::random::{CounterRandom, Purpose};
use crate::symmetric::EdgeSource;

/// Edges kept of 1000 unless said otherwise: one large component, a mean degree of
/// 2.4 as in road maps.
pub const KEEP_PERMILLE: u32 = 605;

struct Lattice {
    width: u32,
    height: u32,
    keep_permille: u32,
    random: CounterRandom,
}

/// Bond percolation on a lattice: vertex `y * width + x` is joined to its right and
/// to its lower neighbour, each with probability `keep_permille / 1000`. The graph
/// knows its [`lattice_width`](CsrGraph::lattice_width).
///
/// # Errors
/// More than 2^32 - 2 vertices, more than 1000 of 1000 edges, a largest weight of
/// 0, more than fits in memory.
pub fn road(
    width: u32,
    height: u32,
    keep_permille: u32,
    options: &GenerateOptions,
) -> Result<CsrGraph, GenerateError> {
    if keep_permille > 1000 {
        return Err(GenerateError::Keep { permille: keep_permille });
    }
    let random = CounterRandom::new(options.seed, Purpose::Edges);
    let lattice = Lattice { width, height, keep_permille, random };
    Ok(build(lattice.items(), &lattice, options)?.with_lattice_width(Some(width)))
}

impl EdgeSource for Lattice {
    fn items(&self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }

    fn edges(&self, vertex: u64, mut emit: impl FnMut(u32, u32)) {
        let keeps = |edge| self.random.below(1000, edge) < self.keep_permille;
        let (width, id) = (u64::from(self.width), vertex as u32);
        if !(vertex + 1).is_multiple_of(width) && keeps(2 * vertex) {
            emit(id, id + 1);
        }
        if vertex + width < self.items() && keeps(2 * vertex + 1) {
            emit(id, id + self.width);
        }
    }
}
