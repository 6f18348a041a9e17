//! Validators: they check an answer against the graph and trust no solver.

mod bfs;

pub use bfs::{BfsFault, bfs_levels, bfs_predecessors};
