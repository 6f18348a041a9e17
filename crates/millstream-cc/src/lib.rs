//! Connected components (Ben-Nun et al., *Groute*, ACM TOPC 7(3), art. 18, 2020,
//! section 5.1.4): topology-driven, without a worklist. Every device hooks trees
//! of vertices together along its arcs, as many as the graph's shape asks for, jumping
//! over parents on the way; then the devices merge their trees, reading each other's
//! memory where they can and through a reduction router elsewhere. GPUs that reach each
//! other do all of it in one kernel each. Directions of arcs
//! do not count.

mod cc;
mod error;
mod gang;
mod hooking;
mod hubs;
mod kernels;
mod merge;
mod merging;
mod method;
mod search;
mod solver;
mod statistics;
mod streamed;
mod survey;
mod sync;

pub use cc::{Cc, CcOptions, CcResult, sends_packets};
pub use error::{Error, Result};
pub use kernels::cuda_sources;
pub use method::Method;
pub use millstream_traversal::{Layout, LayoutKind};
pub use statistics::{CcStatistics, DeviceStatistics};
