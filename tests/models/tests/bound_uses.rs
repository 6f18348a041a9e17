//! A bound kernel is submitted while host code asks for a view: the production counts, with a ledger
//! of one entry, under every interleaving.

#![allow(clippy::unwrap_used)]

#[path = "../../../crates/millstream-device/src/bound_uses.rs"]
mod bound_uses;
mod ledger {
    #[allow(dead_code)]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum AccessKind {
        Read,
        Write,
        Shared,
    }
}
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicUsize, Ordering};

    /// The fault of the production file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Fault {
        AskTheLedgerFirst,
    }

    pub(crate) fn seeded(fault: Fault) -> bool {
        millstream_models::is_seeded(fault as usize)
    }
}

use bound_uses::BoundUses;
use ledger::AccessKind;
use loom::sync::Arc;
use loom::thread;
use millstream_models::{Mutex, fails_with, holds};
use sync::Fault;

#[derive(Debug)]
struct Memory {
    bound: BoundUses,
    /// Whether the kernel is in the ledger: nobody waits for it.
    entered: Mutex<bool>,
}

impl Memory {
    fn look(&self, kind: AccessKind) -> Result<(), ()> {
        let ask_ledger = || if *self.entered.lock() { Err(()) } else { Ok(()) };
        self.bound.check(kind, || (), ask_ledger)
    }
}

/// A kernel that was bound is submitted, and host code looks: it is refused.
fn submission(bound: AccessKind, looking: AccessKind) -> impl Fn() + Sync + Send + 'static {
    move || {
        let memory = Arc::new(Memory { bound: BoundUses::default(), entered: Mutex::new(false) });
        assert_eq!(memory.look(looking), Ok(()));
        memory.bound.begin(bound);
        let submitting = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || {
                *memory.entered.lock() = true;
                memory.bound.end(bound);
            })
        };
        assert_eq!(memory.look(looking), Err(()));
        submitting.join().unwrap();
    }
}

#[test]
fn no_view_is_given_of_what_a_kernel_writes() {
    holds(submission(AccessKind::Write, AccessKind::Read));
}

#[test]
fn no_mutable_view_is_given_of_what_a_kernel_uses() {
    holds(submission(AccessKind::Write, AccessKind::Write));
    holds(submission(AccessKind::Read, AccessKind::Write));
}

#[test]
fn asking_the_ledger_first_is_caught() {
    let submission = submission(AccessKind::Write, AccessKind::Read);
    fails_with(Fault::AskTheLedgerFirst as usize, submission);
}
