//! CSR graphs: readers, writers, generators, partitioners, references, validators.

pub mod build;
mod csr;
pub mod generate;
pub mod partition;
mod random;
pub mod read;
pub mod reference;
mod rows;
pub mod source;
mod storage;
pub mod summary;
mod symmetric;
pub mod validate;

pub use csr::{CsrGraph, GraphError, Weights};
pub use partition::Partition;
