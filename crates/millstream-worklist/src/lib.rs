//! A distributed worklist over devices \[G §4.3\]: work-items that make new
//! work-items, spread over the devices that own them, moved in packets along a
//! ring or directly, with soft priorities and exact termination (Ben-Nun et al.,
//! *Groute*, ACM TOPC 7(3), art. 18, 2020).
//!
//! There are two ways to run it. Driven by the host: splitting, packing, filtering
//! and queueing are kernels on the owning device, the host sees counters and moves
//! packets; on any devices. Fused \[G §5.2\]: persistent kernels do all of it among
//! themselves; on GPUs that are peers.

mod common;
mod coordinator;
mod device_view;
mod error;
mod fused;
mod kernels;
mod notify;
mod problem;
mod program;
mod queue;
mod queue_size;
mod solver;
mod statistics;
mod status;
mod steps;
mod sync;
mod termination;
mod watch;
mod worklist;

pub use error::{Error, Result};
#[doc(hidden)]
pub use millstream_device as device;
pub use problem::Problem;
#[doc(hidden)]
pub use problem::{Member, MemberLayout};
pub use program::{CudaProgram, Flags, Here, Program, Routing, View, Worker};
pub use statistics::{DeviceStatistics, WorklistStatistics};
pub use steps::{Queued, Steps};
#[doc(hidden)]
#[cfg(feature = "seeded-faults")]
pub use sync::seed_count_after_publish;
pub use worklist::DistributedWorklist;
