//! Counting work-items and detecting the end \[G §4.3\].
//!
//! Each device has counters that only grow. *Produced* is raised before the
//! release that makes an item visible, *consumed* after the produced of the
//! item's children. Deferring an item counts as consuming it and bringing it
//! back as producing it, in counters of their own, so that the checker can tell
//! "nothing is ready" from "nothing is left".

use crate::sync::{Fault, seeded};

/// The monotone counters of one device, as the checker reads them: each read
/// acquires.
pub(crate) trait WorkCounters {
    /// Items consumed, and items deferred.
    fn consumed(&self) -> u64;
    /// Items produced, and items brought back from deferral.
    fn produced(&self) -> u64;
}

/// Whether no item is ready, in a queue, in a packet or being processed.
///
/// All consumed is read before all produced. Both only grow, so equal sums mean
/// that at the moment between the two readings every item produced was consumed;
/// and an item that is not produced then could only come from one that is being
/// processed, which is not consumed. The other order can be fooled: an item read
/// as not yet produced may be consumed before that is read.
pub(crate) fn nothing_ready<C: WorkCounters>(devices: &[C]) -> bool {
    if seeded(Fault::WrongReadingOrder) {
        let produced: u64 = devices.iter().map(WorkCounters::produced).sum();
        let consumed: u64 = devices.iter().map(WorkCounters::consumed).sum();
        return produced == consumed;
    }
    let consumed: u64 = devices.iter().map(WorkCounters::consumed).sum();
    let produced: u64 = devices.iter().map(WorkCounters::produced).sum();
    produced == consumed
}
