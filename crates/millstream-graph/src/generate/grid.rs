//! A whole lattice.

use super::{GenerateError, GenerateOptions, road};
use crate::CsrGraph;

/// A lattice of `width * height` vertices, vertex `y * width + x` joined to its
/// right and to its lower neighbour: a [`road`](road()) that keeps every edge.
///
/// # Errors
/// More than 2^32 - 2 vertices, a largest weight of 0, more than fits in memory.
pub fn grid(width: u32, height: u32, options: &GenerateOptions) -> Result<CsrGraph, GenerateError> {
    road(width, height, 1000, options)
}
