//! PageRank (Ben-Nun et al., *Groute*, ACM TOPC 7(3), art. 18, 2020): the probability
//! of being at a vertex after many steps along arcs. Two algorithms give the same ranks:
//! full sweeps in which every vertex *pulls* from its predecessors, and residuals that
//! are *pushed* along arcs on a distributed worklist \[G §4.6.3\]. `README.md` in the
//! folder `src` says how both work, and what orders their memory accesses.

mod askers;
mod error;
mod gang_sweeps;
mod gpu_slices;
mod halo;
mod host_rows;
mod host_sweeps;
mod linked_sweeps;
mod options;
mod pagerank;
mod pull;
#[doc(hidden)]
pub mod push;
mod push_graph;
mod push_run;
mod real;
mod share;
mod sliced_rows;
mod slices;
mod sweep;
mod sweep_memory;

pub use error::{Error, Result};
pub use millstream_traversal::{Layout, LayoutKind, WorklistOptions, sends_packets};
pub use options::{Algorithm, PageRankOptions, Precision};
pub use pagerank::{PageRank, PageRankResult};
pub use real::Real;

/// The CUDA C++ of pushes and of sweeps, for compiling without running.
#[doc(hidden)]
pub fn cuda_sources() -> Vec<millstream_device::CudaSource> {
    push::cuda_sources().into_iter().chain(pull::cuda_sources()).collect()
}
