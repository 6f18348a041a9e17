//! CSR graphs: readers, writers, generators, partitioners, references, validators.
//!
//! ```
//! use millstream_graph::generate::{self, GenerateOptions};
//! use millstream_graph::{CsrGraph, partition, reference, validate};
//!
//! let path = CsrGraph::from_edges(4, &[(0, 1), (1, 2), (2, 3)])?;
//! assert_eq!(path.neighbors(1), [2]);
//!
//! let road = generate::grid(10, 10, &GenerateOptions::default())?;
//! let parts = partition::automatic(&road, 2);
//! assert_eq!(parts.range(0), 0..50);
//! let levels = reference::bfs_levels(&road, &[0], None);
//! validate::bfs_levels(&road, &[0], None, &levels)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Files are read by [`read`] and written by [`write`](mod@write).

pub mod build;
mod changed;
mod csr;
mod degrees;
mod depth_probe;
mod format;
pub mod generate;
mod mill;
pub mod partition;
pub mod pieces;
mod random;
pub mod read;
pub mod reference;
mod rows;
pub mod sort;
pub mod source;
mod storage;
pub mod summary;
mod symmetric;
mod transpose;
pub mod validate;
mod weights;
pub mod write;

pub use csr::{CsrGraph, GraphError};
pub use degrees::{Degrees, RowIndex};
pub use depth_probe::DepthProbe;
pub use format::Format;
pub use partition::Partition;
pub use symmetric::imbalance;
pub use weights::{BadWeight, Weights};
