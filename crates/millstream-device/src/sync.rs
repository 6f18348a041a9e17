//! The one place the protocols' atomics, locks and threads come from, so that they
//! run unchanged under a model checker (the models include the production file
//! and bring their own `sync`).

pub(crate) use parking_lot::Mutex;
pub(crate) use std::sync::atomic::AtomicUsize;
pub(crate) use std::sync::atomic::{AtomicBool, Ordering};
pub(crate) use std::thread::{Thread, park};

/// Faults that the models seed to show that they would be caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A word that wrapped around counts as not reached.
    PlainCompare,
    /// The reactor parks without looking for what came meanwhile.
    ParkWithoutRecheck,
    /// An operation is performed while one before it is held up.
    OvertakeTheHeldUp,
}

/// Whether `fault` is seeded: never, outside the models.
#[inline(always)]
pub(crate) const fn seeded(_fault: Fault) -> bool {
    false
}
