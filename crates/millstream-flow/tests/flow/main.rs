//! Whole programs over links and routers, each on threads and simulated.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod broken;
mod collective_model;
mod collectives;
mod common;
mod device_links;
mod failing_copies;
mod failure;
mod full_empty;
mod full_empty_cases;
mod full_empty_claims;
mod full_empty_copies;
mod full_empty_kernels;
mod full_empty_refusals;
mod full_empty_streams;
mod in_place;
mod link_cases;
mod links;
mod random;
mod resident_collectives;
mod routers;
mod shape_cases;
mod shapes;
mod task_threads;
mod waits;
mod ways;
