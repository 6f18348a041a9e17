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
#[path = "../../../crates/millstream-flow/tests/flow/full_empty_copies.rs"]
mod full_empty_copies;
#[path = "../../../crates/millstream-flow/tests/flow/full_empty_kernels.rs"]
mod full_empty_kernels;
mod generated;
mod gpus;
mod levels;
#[path = "../../../crates/millstream-flow/tests/flow/link_cases.rs"]
mod link_cases;
mod near_far;
mod options;
mod pagerank;
#[path = "../../../crates/millstream-flow/tests/flow/shape_cases.rs"]
mod shape_cases;
mod sssp;
mod steps;
mod worklist;
mod wrong_partitions;
