//! CSR graphs: readers, writers, generators, partitioners, references, validators.

mod csr;
pub mod partition;
pub mod read;
pub mod reference;
pub mod validate;

pub use csr::{CsrGraph, GraphError, Weights};
pub use partition::Partition;
