//! CSR graphs: readers, writers, generators, partitioners, references, validators.

mod csr;
pub mod generate;
pub mod partition;
mod random;
pub mod read;
pub mod reference;
pub mod source;
mod symmetric;
pub mod validate;

pub use csr::{CsrGraph, GraphError, Weights};
pub use partition::Partition;
