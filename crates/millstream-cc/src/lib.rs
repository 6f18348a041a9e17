//! Connected components (Ben-Nun et al., *Groute*, ACM TOPC 7(3), art. 18, 2020,
//! section 5.1.4): topology-driven, without a worklist. Every device hooks trees of
//! vertices together along its arcs (as many of them as the graph's shape requires), with
//! pointer jumping on the way; then the devices merge their trees: they read each other's
//! memory where they can, and use a reduction router elsewhere. GPUs that reach each other
//! do all of this in one kernel each, and host devices in one shared forest. The directions
//! of arcs do not count.

mod cc;
mod error;
mod gang;
mod hooking;
mod host_search;
mod hubs;
mod kernels;
mod members;
mod method;
mod search;
mod sent_rows;
mod solver;
mod spread;
mod statistics;
mod streamed;
mod sync;

pub use cc::{Cc, CcOptions, CcResult};
pub use error::{Error, Result};
pub use kernels::cuda_sources;
pub use method::Method;
pub use millstream_traversal::{Layout, LayoutKind, sends_packets};
pub use statistics::{CcStatistics, DeviceStatistics};
