//! Counting work-items and detecting the end \[G §4.3\].
//!
//! Each device has counters that only grow. *Produced* is raised before the
//! release that makes an item visible; *consumed* is raised after *produced* has
//! been raised for the item's children. Deferring an item counts as consuming it,
//! and bringing it back as producing it, in separate counters, so that the checker
//! can tell "nothing is ready" from "nothing is left".

use crate::sync::{Fault, seeded};

/// The monotone counters of one device, as the checker reads them: with acquire
/// loads.
pub(crate) trait WorkCounters {
    /// Items consumed, and items deferred.
    fn consumed(&self) -> u64;
    /// Items produced, and items brought back from deferral.
    fn produced(&self) -> u64;
}

/// Whether no item is ready, in a queue, in a packet or being processed.
///
/// All consumed counters are read before all produced ones. Both only grow, so equal
/// sums mean that at some moment between the two readings every item produced was
/// consumed. No further item can appear: it would come from an item being processed,
/// which would be produced but not consumed. The other order fails: an item produced
/// after the produced counters were read may be consumed before the consumed ones are.
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
