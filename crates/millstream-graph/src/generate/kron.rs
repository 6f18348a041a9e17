//! The Kronecker graph of Graph500.

use super::rmat::rmat;
use super::{GenerateError, GenerateOptions};
use crate::CsrGraph;

/// A Graph500 graph: `2^scale` vertices, `edge_factor` times as many draws by R-MAT
/// with .57/.19/.19. Draws that repeat an edge or join a vertex to itself do not
/// count, so there are at most `2 * edge_factor * 2^scale` arcs.
///
/// # Errors
/// A scale above 31, more than 2^37 draws, a largest weight of 0, more than fits in memory.
pub fn kron(
    scale: u32,
    edge_factor: u64,
    options: &GenerateOptions,
) -> Result<CsrGraph, GenerateError> {
    rmat(scale, edge_factor, [57, 19, 19], options)
}
