//! Whole-system tests, one binary.

#![allow(clippy::unwrap_used, clippy::panic)]

mod datasets;
mod delayed_runs;
mod generated;
mod gpu_links;
mod gpu_topology;
mod gpus;
mod worklist;
