//! CSR graphs: readers, writers, generators, partitioners, references, validators.

mod csr;

pub use csr::{CsrGraph, GraphError, Weights};
