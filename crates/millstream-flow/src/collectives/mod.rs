//! Collectives: operations that all devices of a context take part in.

mod algorithm;
mod checks;
mod communicator;
mod direct;
mod exchange;
#[cfg(test)]
mod exchange_model;
mod operands;
mod operator;
mod packets;
mod plan;
#[cfg(test)]
mod plan_tests;
mod ring;
mod series;
mod settings;
mod tree;

pub use algorithm::Algorithm;
pub use communicator::{Communicator, CommunicatorOptions};
pub use operands::Operands;
pub use operator::{Number, Operator};
pub use series::Collectives;

/// The CUDA source of the kernel that moves items of this type, for tests that
/// compile it.
#[doc(hidden)]
#[cfg(feature = "cuda")]
pub fn exchange_source<T: crate::Item>() -> millstream_device::CudaSource {
    exchange::source(exchange::program::<T>(None), 1)
}
