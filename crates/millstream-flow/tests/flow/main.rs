//! Whole programs over links and routers, each on threads and simulated.

mod broken;
mod common;
mod failure;
mod links;
mod routers;
