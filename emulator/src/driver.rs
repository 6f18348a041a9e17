//! The driver's functions that the product calls.
//!
//! | file | what |
//! |---|---|
//! | `status` | answers, and their names |
//! | `asked` | answers that were asked for |
//! | `device` | devices, and what they say of themselves |
//! | `context` | primary contexts, which is current, peers |
//! | `handles` | what callers hold instead of addresses |
//! | `window`, `memory` | addresses of a device, memory of devices and of the host |
//! | `point`, `stream`, `event` | what runs in which order |
//! | `transfer` | copies, fills, words |
//! | `module`, `launch` | kernels |

mod asked;
mod context;
mod device;
mod event;
mod handles;
mod launch;
mod memory;
mod module;
mod point;
mod status;
mod stream;
mod transfer;
mod window;

pub(crate) use device::multiprocessors;

#[cfg(test)]
mod tests;
