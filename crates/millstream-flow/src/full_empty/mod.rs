//! Full/empty segments: readiness of each packet, so that kernels begin before their
//! data is there and results leave before kernels end (Lustig and Martonosi, *Reducing
//! GPU Offload Latency via Fine-Grained CPU-GPU Synchronization*, HPCA 2013).
//!
//! | file | what |
//! |---|---|
//! | `core` | the protocol of one packet, without devices; `README.md` |
//! | `group` | segments that end together, early launch |
//! | `early_kernel` | what a kernel that was launched early came to |
//! | `shape` | how a segment is cut into packets, and who writes them |
//! | `segment` | the segment: epochs, filling and waiting in host code |
//! | `claims` | who is at a packet's items |
//! | `holders` | copies, host code and twins, as those who are |
//! | `copies` | copies with triggers and actions |
//! | `trigger` | waiting for packets without a thread |
//! | `kernel_packets` | what kernels and their host twins take |
//! | `watcher` | who looks at words that GPUs write, and at the time |
//! | `attendance` | when that one rings and when it sleeps |

mod attendance;
mod claims;
mod copies;
mod core;
mod early_kernel;
mod group;
mod holders;
mod kernel_packets;
mod kernel_uses;
mod segment;
mod shape;
mod trigger;
mod watcher;

pub use copies::{Action, Guard, Trigger};
pub use early_kernel::EarlyKernel;
pub use group::FullEmpty;
pub(crate) use kernel_packets::Settings;
pub use kernel_packets::{FullEmptyPackets, PacketsView};
pub use segment::FullEmptySegment;
pub use shape::PacketShape;
pub(crate) use watcher::{Attention, Watcher};
