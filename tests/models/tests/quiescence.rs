//! `DeviceSet::quiesce` beside a thread that submits, on host devices, under every interleaving: what the
//! host's clock is said to cover has been done, and is visible.
//!
//! | here | there |
//! |---|---|
//! | `Set::submit` | `Stream::submit_without_end`, `Threads::submit` |
//! | `Set::work` | `drain` and `finished` of `host/threads.rs` |
//! | `Set::quiesce` | `DeviceSet::quiesce`, `Ledger::given`, `Threads::wait_until_idle` |
//!
//! A device's queue is the order of the submitting thread's operations and a thread for each; the ledger's
//! sequence is what `entered` counts.

#![allow(clippy::unwrap_used)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use loom::thread;
use millstream_models::{fails_with, holds, is_seeded};

#[derive(Clone, Copy)]
enum Fault {
    EnteredIsGiven,
    GivenBeforeCounted,
    RelaxedGiven,
    RelaxedEnd,
}

fn seeded(fault: Fault) -> bool {
    is_seeded(fault as usize)
}

fn unless(fault: Fault, order: Ordering) -> Ordering {
    if seeded(fault) { Ordering::Relaxed } else { order }
}

const OPERATIONS: usize = 2;

struct Set {
    /// The ledger's number of the last operation.
    entered: AtomicU64,
    given: AtomicU64,
    outstanding: AtomicUsize,
    done: [UnsafeCell<bool>; OPERATIONS],
}

impl Set {
    fn submit(set: &Arc<Set>, operation: usize) -> thread::JoinHandle<()> {
        let sequence = operation as u64 + 1;
        set.entered.store(sequence, Ordering::Release);
        let give = || set.given.store(sequence, unless(Fault::RelaxedGiven, Ordering::Release));
        if seeded(Fault::GivenBeforeCounted) {
            give();
        }
        set.outstanding.fetch_add(1, Ordering::Relaxed);
        let worker = Arc::clone(set);
        let working = thread::spawn(move || worker.work(operation));
        give();
        working
    }

    fn work(&self, operation: usize) {
        // SAFETY: nobody else writes it, and who reads comes after `outstanding`.
        self.done[operation].with_mut(|done| unsafe { *done = true });
        self.outstanding.fetch_sub(1, unless(Fault::RelaxedEnd, Ordering::Release));
    }

    /// How many operations are over.
    fn quiesce(&self) -> u64 {
        let given = match seeded(Fault::EnteredIsGiven) {
            true => self.entered.load(Ordering::Acquire),
            false => self.given.load(Ordering::Acquire),
        };
        while self.outstanding.load(Ordering::Acquire) > 0 {
            thread::yield_now();
        }
        given
    }
}

fn beside_a_submitter() {
    let set = Arc::new(Set {
        entered: AtomicU64::new(0),
        given: AtomicU64::new(0),
        outstanding: AtomicUsize::new(0),
        done: std::array::from_fn(|_| UnsafeCell::new(false)),
    });
    let submitter = Arc::clone(&set);
    let submitting = thread::spawn(move || {
        let working: Vec<_> =
            (0..OPERATIONS).map(|operation| Set::submit(&submitter, operation)).collect();
        working.into_iter().for_each(|working| working.join().unwrap());
    });
    for done in &set.done[..set.quiesce() as usize] {
        // SAFETY: the model looks for whoever writes it meanwhile.
        assert!(done.with(|done| unsafe { *done }), "not over");
    }
    submitting.join().unwrap();
}

#[test]
fn what_is_covered_is_over() {
    holds(beside_a_submitter);
}

#[test]
fn covering_what_is_not_given_yet_is_caught() {
    fails_with(Fault::EnteredIsGiven as usize, beside_a_submitter);
    fails_with(Fault::GivenBeforeCounted as usize, beside_a_submitter);
}

#[test]
fn weaker_orders_are_caught() {
    fails_with(Fault::RelaxedGiven as usize, beside_a_submitter);
    fails_with(Fault::RelaxedEnd as usize, beside_a_submitter);
}
