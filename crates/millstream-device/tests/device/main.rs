//! The device layer as its users see it. Cases run threaded and simulated unless they are about one of the two.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod bound;
mod common;
mod failures;
mod guarded;
mod hazards;
mod lent;
mod memory;
mod opening;
mod ordering;
mod simulation;
