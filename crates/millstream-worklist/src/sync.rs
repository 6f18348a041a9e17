//! The only source of atomics, so that the cores of the protocols run unchanged
//! under a model checker.

pub(crate) use std::sync::atomic::{AtomicU32, Ordering};

/// Faults that models and test harnesses seed to show that they are caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The consumer reads the overflow count only after it has swept.
    CountAfterSweep,
    /// Items are counted only after others can see them.
    CountAfterPublish,
    /// The checker reads the produced counters before the consumed ones.
    WrongReadingOrder,
}

/// Whether `fault` is seeded: never, except by the harness that looks for
/// [`Fault::CountAfterPublish`] in whole runs.
#[inline(always)]
#[cfg(not(feature = "seeded-faults"))]
pub(crate) const fn seeded(_fault: Fault) -> bool {
    false
}

#[cfg(feature = "seeded-faults")]
pub(crate) fn seeded(fault: Fault) -> bool {
    fault == Fault::CountAfterPublish && COUNT_AFTER_PUBLISH.load(Ordering::Relaxed)
}

#[cfg(feature = "seeded-faults")]
static COUNT_AFTER_PUBLISH: std::sync::atomic::AtomicBool =
    std::sync::atomic::AtomicBool::new(false);

/// Makes every worklist of the process count remote items only after their
/// packets are sent: a fault that a harness must find.
#[cfg(feature = "seeded-faults")]
pub fn seed_count_after_publish(seeded: bool) {
    COUNT_AFTER_PUBLISH.store(seeded, Ordering::Relaxed);
}
