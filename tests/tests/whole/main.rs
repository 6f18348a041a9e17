//! Whole-system tests, one binary.

#![allow(clippy::unwrap_used, clippy::panic)]

mod awkward;
mod bfs;
mod cc;
mod datasets;
mod delayed_runs;
mod generated;
mod gpus;
mod pagerank;
mod sssp;
mod worklist;
