//! Collectives: operations that all devices of a context, its ranks, take part in. The host calls
//! them of a [`Communicator`], on buffers, one of each device; kernels that stay on their devices
//! call [`ResidentCollectives`] by themselves.
//!
//! | file | what |
//! |---|---|
//! | `communicator`, `series` | what the host calls: a communicator, and the operations of a series |
//! | `operands`, `operator`, `checks` | what operations take, and what is asked of it |
//! | `plan` | an operation as a pattern, and as rounds of transfers |
//! | `algorithm`; `ring`, `tree`, `bruck`, `direct` | which rounds |
//! | `packets`, `rank_links` | rounds as packets between any devices |
//! | `peers`, `programs`, `peer_words`, `rank_settings` | kernels of GPUs that reach each other |
//! | `line_settings`, `line_operations`; `pass_settings`; `chain_settings`; `ring_settings` | the four ways of these |
//! | `channel_settings` | what a chain and a ring pass tiles through |
//! | `resident`, `resident_rank` | what kernels take to call collectives by themselves |
//! | `block_collectives`, `block_lines` | the calls of their host twins, and the protocol of those |
//!
//! `README.md` has the protocols.

mod algorithm;
mod block_collectives;
mod block_lines;
mod bruck;
mod chain_settings;
#[cfg(test)]
mod channel_model;
mod channel_settings;
mod checks;
mod communicator;
mod direct;
mod line_operations;
mod line_settings;
mod operands;
mod operator;
mod packets;
mod pass_settings;
#[cfg(test)]
mod peer_model;
#[cfg(test)]
mod peer_tests;
mod peer_words;
mod peers;
mod plan;
#[cfg(test)]
mod plan_tests;
mod programs;
mod rank_links;
mod rank_settings;
mod resident;
mod resident_rank;
mod ring;
mod ring_settings;
mod series;
mod tree;

pub use algorithm::Algorithm;
pub use block_collectives::{BlockCollectives, Collected};
pub use communicator::{Communicator, CommunicatorOptions};
pub use operands::Operands;
pub use operator::{Number, Operator};
pub(crate) use resident::BlockSettings;
pub use resident::ResidentCollectives;
pub use resident_rank::{ResidentRank, ResidentRankView};
pub use series::Collectives;
