//! The built command, from its arguments to its answers and exit codes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bfs;
mod cc;
mod common;
mod devices;
mod exits;
mod files;
mod graphs;
mod interrupt;
mod others;
mod pagerank;
mod sssp;
mod topology;
mod trace;
mod transfer;
