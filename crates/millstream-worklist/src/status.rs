//! What a device tells its host, word by word.
//!
//! The status lies in the device's memory and is changed by all of its kernels.
//! The end of each kernel copies it into a report of the task that launched it,
//! in host memory, which the host reads when the kernel is over. News is taken
//! down as it is copied, so that one task hears of it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::statistics::COUNTERS;

/// The lowest priority deferred since items were last brought back.
pub(crate) const LOWEST_DEFERRED: usize = COUNTERS;
/// The first fault of a kernel: what, and the item in the lower half.
pub(crate) const FAULT: usize = COUNTERS + 1;
/// In a report only: how many items the kernel packed.
pub(crate) const PACKED: usize = COUNTERS + 2;
/// News: items are ready.
pub(crate) const READY_NEWS: usize = COUNTERS + 3;
/// News, from here on: items are in this outbox.
pub(crate) const OUTBOX_NEWS: usize = COUNTERS + 4;

/// A fault: an item is passed on, but there is one device only.
pub(crate) const PASSED_ALONE: u64 = 1;
/// A fault: an item is passed on, but its owner is here, or nobody.
pub(crate) const PASSED_TO_NOBODY: u64 = 2;

/// Words of a device with so many outboxes.
pub(crate) const fn words(outboxes: usize) -> usize {
    OUTBOX_NEWS + outboxes
}

/// The fault in its word, in words.
pub(crate) fn fault_text(word: u64) -> Option<String> {
    let item = word as u32;
    match word >> 32 {
        0 => None,
        PASSED_ALONE => Some(format!("item {item} is passed on, but there is one device only")),
        PASSED_TO_NOBODY => Some(format!("item {item} is passed on, but no other device owns it")),
        fault => Some(format!("fault {fault} at item {item}")),
    }
}

/// Copies the status into a report, and takes news down.
pub(crate) fn publish(status: &[AtomicU64], report: &[AtomicU64], packed: u64) {
    for (place, (from, to)) in status.iter().zip(report).enumerate() {
        let word = match place {
            PACKED => packed,
            // Acquire: pairs with the release of whoever raised it.
            READY_NEWS.. => from.swap(0, Ordering::AcqRel),
            _ => from.load(Ordering::Acquire),
        };
        to.store(word, Ordering::Release);
    }
}
