//! Whole-system tests, one binary.

#![allow(clippy::unwrap_used, clippy::panic)]

mod awkward;
mod balance;
mod bfs;
mod cc;
#[path = "../../../crates/millstream-flow/tests/flow/collective_model.rs"]
mod collective_model;
#[cfg(feature = "cuda")]
mod compile;
mod datasets;
mod delayed_runs;
mod extremes;
#[path = "../../../crates/millstream-flow/tests/flow/full_empty_cases.rs"]
mod full_empty_cases;
mod generated;
mod gpus;
mod levels;
mod near_far;
mod pagerank;
mod sssp;
mod steps;
mod worklist;
