//! What bound kernels will do with memory that the ledger knows nothing of yet.

use crate::ledger::AccessKind;
use crate::sync::{AtomicUsize, Fault, Ordering, seeded};

/// Accesses of kernels that are bound and not entered in the ledger. A bound kernel holds no borrow
/// of its buffers, so that host code would be given a view that the kernel changes once it is
/// submitted.
///
/// Whoever looks asks for the accesses that conflict with a view *before* it asks the ledger
/// ([`BoundUses::check`]). Its borrow of the buffer excludes the one with which such an access was
/// bound: the buffer has come from there in a way that orders the two, so that it finds the access
/// here as long as it counts. If it counts no more, it is in the ledger before, or given up. (A
/// [`BufferReader`] is used to bind without a borrow; it is counted itself until then.)
///
/// [`BufferReader`]: crate::BufferReader
#[derive(Debug, Default)]
pub(crate) struct BoundUses {
    reads: AtomicUsize,
    writes: AtomicUsize,
}

impl BoundUses {
    /// Host code is never given a view of what is shared.
    fn of(&self, kind: AccessKind) -> Option<&AtomicUsize> {
        match kind {
            AccessKind::Read => Some(&self.reads),
            AccessKind::Write => Some(&self.writes),
            AccessKind::Shared => None,
        }
    }

    /// A kernel is bound.
    pub(crate) fn begin(&self, kind: AccessKind) {
        if let Some(count) = self.of(kind) {
            // Relaxed: the borrows order it, see above.
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// It is in the ledger, or dropped.
    pub(crate) fn end(&self, kind: AccessKind) {
        if let Some(count) = self.of(kind) {
            // Release: pairs with the look, after which the ledger is asked.
            count.fetch_sub(1, Ordering::Release);
        }
    }

    /// Whether host code may do this: `conflict` if a kernel is bound that must not run beside it,
    /// else what the ledger says.
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
