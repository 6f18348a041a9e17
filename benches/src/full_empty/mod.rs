//! The seven benchmarks of Lustig and Martonosi (HPCA 2013), each in four ways: without
//! full/empty segments, with the kernel launched before its data is there, with results
//! that leave while it runs, and with both.

mod bed;
#[cfg(test)]
mod tests;
mod twin;
mod workload;

pub use bed::{Bed, Mode, Moved};
pub use twin::source;
pub use workload::{EARLY_PACKET, NAMES, Sizes, Workload, vector_add, workloads};

use std::time::Duration;

/// The middle one of some times.
pub fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
