//! Breadth-first search on a distributed worklist \[G §4.5, Fig. 11\]
//! (Ben-Nun et al., *Groute*, ACM TOPC 7(3), art. 18, 2020): levels and
//! predecessors, from several sources, on one device or many.

mod bfs;
mod rule;

pub use bfs::{Bfs, BfsOptions, BfsResult};
pub use millstream_traversal::{Error, Result, UNREACHED};
pub use rule::cuda_sources;
