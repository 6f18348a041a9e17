//! Whole-system tests, one binary.

#![allow(clippy::unwrap_used, clippy::panic)]

mod awkward;
mod bfs;
mod cc;
#[cfg(feature = "cuda")]
mod compile;
mod datasets;
mod delayed_runs;
mod generated;
mod gpus;
mod levels;

mod pagerank;
mod sssp;
mod worklist;
