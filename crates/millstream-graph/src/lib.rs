//! CSR graphs: readers, writers, generators, partitioners, references, validators.

pub mod build;
mod csr;
pub mod partition;
pub mod read;
pub mod reference;
mod rows;
mod storage;
pub mod validate;

pub use csr::{CsrGraph, GraphError, Weights};
pub use partition::Partition;
