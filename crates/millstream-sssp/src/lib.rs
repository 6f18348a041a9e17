//! Single-source shortest paths: distances in the weights' own type, u32 or f32, and
//! predecessors, from one source or several, on one device or many; in steps of
//! distance, by near and far piles, or asynchronously on a distributed worklist \[G §4.5, §4.6.3\] (Ben-Nun
//! et al., *Groute*, ACM TOPC 7(3), art. 18, 2020). See [`Algorithm`].

mod algorithm;
mod divided_rows;
mod error;
mod means;
mod near_graph;
mod options;
mod result;
mod rule;
mod sssp;
mod step_graph;
mod step_lights;
mod step_pilot;
mod step_search;
mod step_twin;
mod step_width;

pub use algorithm::Algorithm;
pub use error::{Error, Result};
pub use millstream_graph::reference::Distances;
pub use millstream_traversal::{Delta, Layout, LayoutKind, UNREACHED, Unsuitable, WorklistOptions};
pub use options::SsspOptions;
pub use result::SsspResult;
pub use rule::{IntegerDistances, RealDistances, cuda_sources};
pub use sssp::Sssp;
