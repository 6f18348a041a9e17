//! Reference algorithms: slow, short, and independent of the rest.

mod bfs;
mod components;
mod dijkstra;
mod pagerank;

pub use bfs::bfs_levels;
pub use components::weak_components;
pub use dijkstra::{Distances, SsspError, dijkstra};
pub use pagerank::{PageRankAnswer, PageRankError, PageRankQuestion, pagerank};

pub(crate) use pagerank::Sweep;

/// The level of a vertex that is not reached.
pub const UNREACHED: u32 = u32::MAX;

#[cfg(test)]
mod tests;
