//! The one place where the protocols' atomics, locks and threads come from, and their way to call
//! code of the program, so that they run unchanged under a model checker (the models include the
//! production file and bring their own `sync`).

pub(crate) use crate::contain::contain;
pub(crate) use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub(crate) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
#[cfg(feature = "cuda")]
pub(crate) use std::thread::{Thread, park};

/// Faults that the models seed to show that they would be caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "cuda"), expect(dead_code))]
pub(crate) enum Fault {
    /// A word that wrapped around counts as not reached.
    PlainCompare,
    /// The reactor parks without checking whether something has come meanwhile.
    ParkWithoutRecheck,
    /// An operation is performed while one before it is held up.
    OvertakeTheHeldUp,
    /// An operation is performed while an earlier one, which had waited, is still being performed.
    OvertakeWhatIsUnderWay,
    /// Held operations are let go only after they are resumed.
    LetGoLate,
    /// A ring between a look and the wait that follows is missed.
    WaitWithoutNumber,
    /// Whoever is refused a turn does not try again after leaving the mark.
    RefuseWithoutRetry,
    /// Host code asks the ledger before it asks for bound uses.
    AskTheLedgerFirst,
}

/// Whether `fault` is seeded: never, outside the models.
#[inline(always)]
pub(crate) const fn seeded(_fault: Fault) -> bool {
    false
}
