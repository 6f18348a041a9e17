//! Validators: they check an answer against the graph and trust no solver.

mod bfs;
mod components;
mod pagerank;
mod predecessors;
mod sssp;

pub use bfs::{BfsFault, bfs_levels};
pub use components::{ComponentsFault, weak_components};
pub use pagerank::{PageRankFault, pagerank};
pub use predecessors::{bfs_predecessors, sssp_predecessors};
pub use sssp::{SsspFault, sssp_distances};
