//! Breadth-first search: levels and predecessors, from several sources, on one device
//! or many; level by level, by near and far piles, or asynchronously on a distributed worklist \[G §4.5,
//! Fig. 11\] (Ben-Nun et al., *Groute*, ACM TOPC 7(3), art. 18, 2020). See
//! [`Algorithm`].

mod algorithm;
mod bfs;
mod error;
mod hubs;
mod incoming;
mod isolated;
mod level_pilot;
mod level_search;
mod level_twin;
mod near;
mod options;
mod result;
mod rule;

pub use algorithm::Algorithm;
pub use bfs::Bfs;
pub use error::{Error, Result};
pub use millstream_traversal::{Delta, Layout, LayoutKind, UNREACHED, Unsuitable, WorklistOptions};
pub use options::BfsOptions;
pub use result::BfsResult;
pub use rule::{Levels, cuda_sources};
