//! Whole-system tests, one binary.

#![allow(clippy::unwrap_used, clippy::panic)]

mod datasets;
mod delayed_runs;
mod generated;
mod gpus;
mod worklist;
