//! What a device tells its host, word by word.
//!
//! The status lies in the device's memory, and all kernels of the device change it.
//! At its end, each kernel copies the status into a report in host memory, which
//! belongs to the task that launched the kernel and is read when the kernel is over.
//! News is taken down as it is copied, so that only one task hears of it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{DEFERRED, OUTBOXES, READY};
use crate::statistics::COUNTERS;

/// The lowest priority that was deferred at the present threshold. A value not above the
/// threshold dates from before the threshold rose, and has no meaning.
pub(crate) const LOWEST_DEFERRED: usize = COUNTERS;
/// The first fault of a kernel: its kind in the upper half, the item in the lower half.
pub(crate) const FAULT: usize = COUNTERS + 1;
/// In a report only: how many items the kernel packed.
pub(crate) const PACKED: usize = COUNTERS + 2;
/// In a report only: about how many entries the queue of ready items has.
pub(crate) const READY_ENTRIES: usize = COUNTERS + 3;
/// In a report only: the same of deferred items.
pub(crate) const DEFERRED_ENTRIES: usize = COUNTERS + 4;
/// News: items are ready.
pub(crate) const READY_NEWS: usize = COUNTERS + 5;
/// News, from here on: items are in this outbox.
pub(crate) const OUTBOX_NEWS: usize = COUNTERS + 6;

/// A fault: an item is passed on, but there is only one device.
pub(crate) const PASSED_ALONE: u64 = 1;
/// A fault: an item is passed on, but it has no owner, or this device owns it.
pub(crate) const PASSED_TO_NOBODY: u64 = 2;

/// A fault of the fused worker: queue `item` has no room.
const QUEUE_FULL: u64 = 3;
/// A fault of the fused worker: nothing has changed for the patience.
const STALLED: u64 = 4;
/// A fault of the fused worker: only `item` blocks run at once, which is too few.
const TOO_FEW_BLOCKS: u64 = 5;

/// Words of the status of a device with `outboxes` outboxes.
pub(crate) const fn words(outboxes: usize) -> usize {
    outbox_traffic(outboxes, outboxes)
}

/// For the fused worker: the word with the packets sent from an outbox; the items sent follow it.
pub(crate) const fn outbox_traffic(outboxes: usize, outbox: usize) -> usize {
    OUTBOX_NEWS + outboxes + 2 * outbox
}

/// For the fused worker's report, which goes on after the status (`Standing` of `fused_words.cuh`) with
/// the threshold: the first word of an outbox, which is its entries; then come packets sent and taken.
pub(crate) const fn outbox_standing(outboxes: usize, outbox: usize) -> usize {
    words(outboxes) + 1 + 3 * outbox
}

/// Pieces of long rows that a GPU has room for.
pub(crate) const PIECES: usize = 1 << 18;

/// The text of the fault in a status word, for a device whose queues have `entries` entries.
pub(crate) fn fault_text(word: u64, entries: usize) -> Option<String> {
    let item = word as u32;
    match word >> 32 {
        0 => None,
        PASSED_ALONE => Some(format!("item {item} is passed on, but there is one device only")),
        PASSED_TO_NOBODY => Some(format!("item {item} is passed on, but no other device owns it")),
        QUEUE_FULL if item == u32::MAX => {
            Some(format!("the ring of pieces of long rows, of {PIECES}, is full; use fewer GPUs"))
        }
        QUEUE_FULL => Some(format!(
            "{}, of {entries} entries, is full; give queues more (--queue-entries, \
             `DistributedWorklist::queue_entries`)",
            queue_name(item)
        )),
        STALLED => Some("nothing has changed for as long as the patience allows".to_string()),
        TOO_FEW_BLOCKS => Some(format!(
            "{item} blocks are too few for a gang; let fewer virtual devices share a GPU"
        )),
        fault => Some(format!("fault {fault} at item {item}")),
    }
}

/// The name of the queue with this number in kernels.
fn queue_name(queue: u32) -> String {
    match queue as usize {
        READY => "the queue of ready items".to_string(),
        DEFERRED => "the queue of deferred items".to_string(),
        outbox => format!("outbox {}", outbox - OUTBOXES),
    }
}

/// Lowers [`LOWEST_DEFERRED`].
pub(crate) fn lower(word: &AtomicU64, priority: u64, threshold: u64) {
    let lower = |known| (known <= threshold || priority < known).then_some(priority);
    // Relaxed: the end of the kernel publishes it.
    let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lower);
}

/// Raises news. Not by a store: whoever takes the news down must see the items of all who have raised it,
/// and a store would break the release sequence of those before.
pub(crate) fn raise(word: &AtomicU64) {
    // Release: pairs with the swap of whoever takes it down.
    word.fetch_or(1, Ordering::Release);
}

/// Copies the status into a report, and takes news down. `entries` are those of the
/// queues of ready and of deferred items.
pub(crate) fn publish(status: &[AtomicU64], report: &[AtomicU64], packed: u64, entries: [u64; 2]) {
    for (place, (from, to)) in status.iter().zip(report).enumerate() {
        let word = match place {
            PACKED => packed,
            READY_ENTRIES => entries[0],
            DEFERRED_ENTRIES => entries[1],
            // Acquire: pairs with the release in `raise`.
            READY_NEWS.. => from.swap(0, Ordering::AcqRel),
            _ => from.load(Ordering::Acquire),
        };
        to.store(word, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_say_what_is_full() {
        let text = |fault: u64, item: u32| fault_text(fault << 32 | u64::from(item), 64).unwrap();
        assert_eq!(fault_text(0, 64), None);
        for (queue, name) in [
            (0, "the queue of ready items"),
            (1, "the queue of deferred items"),
            (2, "outbox 0"),
            (9, "outbox 7"),
        ] {
            let text = text(QUEUE_FULL, queue);
            assert!(text.starts_with(&format!("{name}, of 64 entries, is full; ")), "{text}");
            assert!(text.contains("--queue-entries"), "{text}");
        }
        assert!(text(QUEUE_FULL, u32::MAX).contains("of long rows, of 262144, is full"));
        assert!(text(TOO_FEW_BLOCKS, 2).starts_with("2 blocks are too few"));
        assert_eq!(text(99, 5), "fault 99 at item 5");
    }
}
