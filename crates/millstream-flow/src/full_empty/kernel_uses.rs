//! Kernels that have been given a segment.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the kernels that hold a segment, from when they are bound until they are over: the ledger
/// knows nothing of one that is bound, and a packet's word not who has changed it.
#[derive(Debug, Default)]
pub(super) struct KernelUses {
    given: AtomicU64,
    over: AtomicU64,
}

impl KernelUses {
    /// A kernel is bound.
    pub(super) fn begin(&self) {
        // Relaxed: whoever finds a word that the kernel has changed comes after this by that.
        self.given.fetch_add(1, Ordering::Relaxed);
    }

    /// It is over, or given up.
    pub(super) fn end(&self) {
        // Release: pairs with the acquire in `under_way`, so that all that it did comes before.
        self.over.fetch_add(1, Ordering::Release);
    }

    /// How many have been given the segment so far.
    pub(super) fn given(&self) -> u64 {
        self.given.load(Ordering::Relaxed)
    }

    /// How many have it now. One that is bound meanwhile may be counted or not.
    pub(super) fn under_way(&self) -> u64 {
        // In this order: `over` never exceeds what was given before.
        let over = self.over.load(Ordering::Acquire);
        self.given() - over
    }

    /// How many have been given the segment, if none of them has it now.
    pub(super) fn given_to_none(&self) -> Option<u64> {
        let over = self.over.load(Ordering::Acquire);
        Some(self.given()).filter(|given| *given == over)
    }
}
