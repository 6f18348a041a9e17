//! CSR graphs: readers, writers, generators, partitioners, references, validators.

pub mod build;
mod csr;
mod format;
pub mod generate;
mod mill;
pub mod partition;
mod random;
pub mod read;
pub mod reference;
mod rows;
pub mod source;
mod storage;
pub mod summary;
mod symmetric;
mod transpose;
pub mod validate;
mod weights;
pub mod write;

pub use csr::{CsrGraph, GraphError};
pub use format::Format;
pub use partition::Partition;
#[doc(hidden)]
pub use rows::sort_rows_by_weight;
pub use weights::{BadWeight, Weights};
