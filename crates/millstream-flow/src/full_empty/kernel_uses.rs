//! Counts of the kernels that have been given a segment.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the kernels that hold a segment, from binding until they are over. The ledger does not
/// know of kernels that are only bound, and a packet's word does not tell who changed it.
#[derive(Debug, Default)]
pub(super) struct KernelUses {
    given: AtomicU64,
    over: AtomicU64,
}

impl KernelUses {
    /// A kernel has been bound.
    pub(super) fn begin(&self) {
        // Relaxed: whoever finds a word that the kernel has changed is ordered after this by that word.
        self.given.fetch_add(1, Ordering::Relaxed);
    }

    /// A kernel is over, or has been given up.
    pub(super) fn end(&self) {
        // Release: pairs with the acquire in `under_way`, so that all that the kernel did comes before.
        self.over.fetch_add(1, Ordering::Release);
    }

    /// How many kernels have been given the segment so far.
    pub(super) fn given(&self) -> u64 {
        self.given.load(Ordering::Relaxed)
    }

    /// How many kernels have the segment now. One that is bound meanwhile may or may not be counted.
    pub(super) fn under_way(&self) -> u64 {
        // Read in this order: then `over` cannot exceed `given`.
        let over = self.over.load(Ordering::Acquire);
        self.given() - over
    }

    /// How many kernels have been given the segment, if none of them has it now.
    pub(super) fn given_to_none(&self) -> Option<u64> {
        let over = self.over.load(Ordering::Acquire);
        Some(self.given()).filter(|given| *given == over)
    }
}
