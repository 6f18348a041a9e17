//! Sequential reference algorithms: slow, short, and independent of the rest.

mod bfs;

pub use bfs::bfs_levels;

/// The level of a vertex that is not reached.
pub const UNREACHED: u32 = u32::MAX;
