//! Whole-system tests, one binary.

#![allow(clippy::unwrap_used, clippy::panic)]

mod datasets;
mod delayed_runs;
mod generated;
mod gpu_links;
mod gpus;
mod worklist;
