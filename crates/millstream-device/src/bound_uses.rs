//! What bound kernels will do with memory, which the ledger does not know yet.

use crate::ledger::AccessKind;
use crate::sync::{AtomicUsize, Fault, Ordering, seeded};

/// Accesses of kernels that are bound but not entered in the ledger yet. A bound kernel holds no
/// borrow of its buffers; without this, host code could get a view that the kernel changes once it
/// is submitted.
///
/// Whoever wants a view asks for conflicting accesses here *before* it asks the ledger
/// ([`BoundUses::check`]). Its borrow of the buffer excludes the borrow with which such an access
/// was bound, and the buffer has passed from one to the other in a way that orders the two; so it
/// finds the access here as long as the access is counted. If the access is no longer counted, it
/// was entered in the ledger before, or was given up. (A [`BufferReader`] binds without a borrow;
/// until it does, the reader itself is counted.)
///
/// [`BufferReader`]: crate::BufferReader
#[derive(Debug, Default)]
pub(crate) struct BoundUses {
    reads: AtomicUsize,
    writes: AtomicUsize,
}

impl BoundUses {
    /// The count of such accesses. Shared ones have none, since host code never gets a view of what
    /// is shared.
    fn of(&self, kind: AccessKind) -> Option<&AtomicUsize> {
        match kind {
            AccessKind::Read => Some(&self.reads),
            AccessKind::Write => Some(&self.writes),
            AccessKind::Shared => None,
        }
    }

    /// A kernel has been bound.
    pub(crate) fn begin(&self, kind: AccessKind) {
        if let Some(count) = self.of(kind) {
            // Relaxed: ordered by the borrows, see above.
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A bound kernel has been entered in the ledger, or dropped.
    pub(crate) fn end(&self, kind: AccessKind) {
        if let Some(count) = self.of(kind) {
            // Release: pairs with the acquire in `check`, after which the ledger is asked.
            count.fetch_sub(1, Ordering::Release);
        }
    }

    /// Whether host code may have a view with which it makes accesses of `kind`: `conflict` if a
    /// kernel is bound that must not run beside it; otherwise, what the ledger says.
    pub(crate) fn check<E>(
        &self,
        kind: AccessKind,
        conflict: impl Fn() -> E,
        ask_ledger: impl Fn() -> Result<(), E>,
    ) -> Result<(), E> {
        if seeded(Fault::AskTheLedgerFirst) {
            ask_ledger()?;
        }
        // Acquire: see `end`.
        let is_any = |count: &AtomicUsize| count.load(Ordering::Acquire) > 0;
        if is_any(&self.writes) || kind == AccessKind::Write && is_any(&self.reads) {
            return Err(conflict());
        }
        if seeded(Fault::AskTheLedgerFirst) { Ok(()) } else { ask_ledger() }
    }
}
