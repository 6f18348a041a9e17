//! A distributed worklist over devices \[G §4.3\]: work-items that make new
//! work-items, spread over the devices that own them, moved in packets along a
//! ring or directly, with soft priorities and exact termination (Ben-Nun et al.,
//! *Groute*, ACM TOPC 7(3), art. 18, 2020).
//!
//! There are two ways to run it. Host-driven, on any devices: splitting, packing,
//! filtering and queueing are kernels on the owning device; the host reads counters
//! and moves packets. Fused \[G §5.2\], on GPUs that are peers: persistent kernels do
//! all of this among themselves.
//!
//! A [`Program`] says what happens to an item, and a [`DistributedWorklist`] runs it. Where items are
//! the vertices of a graph, `VertexProgram` of millstream-traversal leaves less to write.

mod common;
mod coordinator;
mod device_view;
mod error;
mod fused;
mod initial;
mod kernels;
mod notify;
mod packets;
mod problem;
mod program;
mod queue;
mod queue_size;
mod rounds;
mod solver;
mod statistics;
mod status;
mod steps;
mod sync;
mod termination;
mod watch;
mod worklist;

pub use error::{Error, Result};
pub use problem::Problem;
pub use program::{CudaProgram, Flags, Here, Program, Routing, View, Worker};
pub use statistics::{DeviceStatistics, WorklistStatistics};
pub use steps::{Queued, Steps};
pub use worklist::DistributedWorklist;

/// What the macro [`problem!`] and tests take.
#[doc(hidden)]
pub mod internals {
    pub use millstream_device::{Accesses, ArgumentWriter, Parameter, Result};

    pub use crate::problem::{Member, MemberLayout};
    #[cfg(feature = "seeded-faults")]
    pub use crate::sync::seed_count_after_publish;
}
