//! Breadth-first search on a distributed worklist \[G §4.5, Fig. 11\]
//! (Ben-Nun et al., *Groute*, ACM TOPC 7(3), art. 18, 2020): levels and
//! predecessors, from several sources, on one device or many.

mod bfs;
mod error;
mod program;

pub use bfs::{Bfs, BfsOptions, BfsResult};
pub use error::{Error, Result};
pub use program::{UNREACHED, cuda_sources};
