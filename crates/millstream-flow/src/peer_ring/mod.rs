//! The peer ring: packets from a kernel to a kernel of another device, without the host
//! \[G §4.1, §5.2\].
//!
//! | file | what |
//! |---|---|
//! | `core` | the protocol without devices; `README.md` |
//! | `room` | how much a ring holds, and where |
//! | `traffic` | the counts of what was sent |
//! | `link` | the ring of two devices of a program |
//! | `ends` | what kernels and their host twins take |

mod core;
mod ends;
mod link;
mod room;
mod traffic;

pub use ends::{DeviceLinkEnd, DeviceLinkView};
pub use link::DeviceLink;
pub use room::LinkRoom;
pub(crate) use room::Settings;
