//! Runs a kernel's blocks.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::image::Kernel;

/// A launch, with its arguments copied.
pub(crate) struct Launch {
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) grid: [u32; 3],
    pub(crate) threads: [u32; 3],
    /// All parameters, each at its offset.
    pub(crate) arguments: Vec<u64>,
    /// Blocks that may run at once, each on a thread of its own.
    pub(crate) resident: u32,
}

/// What ended a kernel before its time; the text says where.
#[derive(Clone, Debug)]
pub(crate) struct Fault(pub(crate) String);

/// Runs all blocks to their ends, on the calling thread and others.
///
/// # Errors
/// A trap, a stray access, threads that wait for each other for ever; `stop` was set.
pub(crate) fn run(launch: &Launch, stop: &AtomicBool) -> Result<(), Fault> {
    todo!()
}
