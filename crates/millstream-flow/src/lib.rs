//! Asynchronous dataflow over devices: a program is a [`Graph`] of endpoints
//! joined by links and [`Router`]s; segments move through it in packets while
//! kernels run (Ben-Nun et al., *Groute*, ACM TOPC 7(3), art. 18, 2020, cited
//! as \[G §n\]).
//!
//! No executor is assumed: [`Graph::run`] polls its own tasks.
//!
//! | for | start with |
//! |---|---|
//! | the devices in use | [`Context`], [`Devices`] |
//! | pipelines | [`Graph`], its links ([`Sender`], [`Receiver`], [`Buffers`]) and [`Router`]s |
//! | who gets a message | the policies [`first_available`], [`round_robin`], [`broadcast`], [`scatter`], [`gather`], [`ring`], [`tree_reduce`] and [`all_to_all`]; [`RoutingPolicy`] for one's own |
//! | collectives of all devices | [`Communicator`] |
//! | kernels that begin before their data is there | [`FullEmpty`] |
//! | kernels that stay on their devices | [`Gang`]; between them [`DeviceLink`] and [`ResidentCollectives`] |

mod buffers;
mod collectives;
mod context;
mod counter;
mod error;
mod failure;
mod full_empty;
mod gang;
mod gang_memory;
mod gang_permit;
mod gang_turns;
mod graph;
mod joining;
mod kernel_parameters;
mod message;
mod multiplexer;
mod outgoing;
mod patience;
mod peer_ring;
mod policy;
mod port;
mod receiver;
mod reservation;
mod router;
mod segment;
mod segmenter;
mod send_buffer;
mod send_buffers;
mod sender;
mod sender_shared;
mod staging;
mod statistics;
mod sync;
mod task_thread;
mod wait;
mod waking;
mod warm_up;
mod watched;
mod ways;

pub use buffers::Buffers;
pub use collectives::{
    Algorithm, BlockCollectives, Collected, Collectives, Communicator, CommunicatorOptions, Number,
    Operands, Operator, ResidentCollectives, ResidentRank, ResidentRankView,
};
pub use context::{Context, ContextBuilder, Devices};
pub use counter::Counter;
pub use error::{Error, Result};
pub use full_empty::{
    Action, EarlyKernel, FullEmpty, FullEmptyPackets, FullEmptySegment, Guard, PacketShape,
    PacketsView, Trigger,
};
pub use gang::{Gang, GangMember};
pub use gang_memory::GangMemory;
pub use graph::{Graph, GraphStatistics};
pub use half::{bf16, f16};
pub use peer_ring::{DeviceLink, DeviceLinkEnd, DeviceLinkView, LinkRoom};
pub use policy::{
    MessageInfo, Policy, Route, RoutingPolicy, all_to_all, broadcast, first_available, gather,
    ring, round_robin, scatter, tree_reduce,
};
pub use receiver::Receiver;
pub use router::Router;
pub use segment::{PendingSegment, Segment};
pub use send_buffer::SendBuffer;
pub use sender::{Sender, Sent};
pub use statistics::LinkStatistics;
pub use wait::Wait;

/// Items that links carry: plain data that any thread may copy.
pub trait Item: millstream_device::Pod + Send + Sync {}

impl<T: millstream_device::Pod + Send + Sync> Item for T {}

/// Device code that no program names, to be compiled without running it.
#[doc(hidden)]
pub fn cuda_sources() -> [millstream_device::CudaSource; 2] {
    [kernel_parameters::cuda_source(), warm_up::cuda_source()]
}
