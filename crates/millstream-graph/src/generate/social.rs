//! A graph with the degrees of a social network.

use super::rmat::rmat;
use super::{GenerateError, GenerateOptions};
use crate::CsrGraph;

/// Like [`kron`](super::kron()), less skewed: R-MAT with .45/.22/.22.
///
/// # Errors
/// A scale above 31, more than 2^37 draws, a largest weight of 0, more than fits in memory.
pub fn social(
    scale: u32,
    edge_factor: u64,
    options: &GenerateOptions,
) -> Result<CsrGraph, GenerateError> {
    rmat(scale, edge_factor, [45, 22, 22], options)
}
