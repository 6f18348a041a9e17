//! What a twin does that may not wait: it looks, and asks to be told. The production
//! bell, and turns at guarded memory, under every interleaving.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../../../crates/millstream-device/src/bell.rs"]
mod bell;
#[allow(dead_code)]
#[path = "../../../crates/millstream-device/src/turns.rs"]
mod turns;
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicBool, Ordering, fence};
    pub(crate) use loom::sync::{RwLockReadGuard, RwLockWriteGuard};
    pub(crate) use millstream_models::Mutex;

    /// Loom's lock, with the guards returned directly, as the production one does.
    #[derive(Debug)]
    pub(crate) struct RwLock<T>(loom::sync::RwLock<T>);

    impl<T> RwLock<T> {
        pub(crate) fn new(value: T) -> RwLock<T> {
            RwLock(loom::sync::RwLock::new(value))
        }

        pub(crate) fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
            self.0.try_read().ok()
        }

        pub(crate) fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
            self.0.try_write().ok()
        }

        pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().unwrap()
        }
    }

    /// The faults of the production files.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Fault {
        WaitWithoutNumber,
        RefuseWithoutRetry,
    }

    /// What panics here, the model has found.
    pub(crate) fn contain(work: impl FnOnce()) {
        work();
    }

    pub(crate) fn seeded(fault: Fault) -> bool {
        millstream_models::is_seeded(fault as usize)
    }
}

use bell::Bell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use millstream_models::{fails_with, holds};
use sync::Fault;
use turns::Turns;

/// A word is written while a twin looks: it finds it, or is told.
fn word_and_bell() {
    let (bell, word) = (Arc::new(Bell::default()), Arc::new(AtomicBool::new(false)));
    let writer = {
        let (bell, word) = (Arc::clone(&bell), Arc::clone(&word));
        thread::spawn(move || {
            word.store(true, Ordering::Release);
            bell.ring();
        })
    };
    let told = Arc::new(AtomicBool::new(false));
    let seen = bell.rings();
    let found = word.load(Ordering::Acquire);
    if !found {
        let told = Arc::clone(&told);
        bell.at_next(seen, move || told.store(true, Ordering::Relaxed));
    }
    writer.join().unwrap();
    assert!(found || told.load(Ordering::Relaxed));
}

/// A copy has its turn while a twin tries: the twin gets one, or is told.
fn copy_and_twin() {
    let (bell, turns) = (Arc::new(Bell::default()), Arc::new(Turns::default()));
    let at_it = Arc::new(AtomicBool::new(false));
    let copy = {
        let (bell, turns, at_it) = (Arc::clone(&bell), Arc::clone(&turns), Arc::clone(&at_it));
        thread::spawn(move || {
            let turn = turns.lock.write();
            // So that loom looks at what others do meanwhile.
            at_it.store(true, Ordering::Relaxed);
            drop(turn);
            turns.released(&bell);
        })
    };
    let told = Arc::new(AtomicBool::new(false));
    let seen = bell.rings();
    at_it.load(Ordering::Relaxed);
    let got = turns.try_read().is_some();
    if !got {
        let told = Arc::clone(&told);
        bell.at_next(seen, move || told.store(true, Ordering::Relaxed));
    }
    copy.join().unwrap();
    assert!(got || told.load(Ordering::Relaxed));
}

#[test]
fn who_waits_for_a_word_is_told() {
    holds(word_and_bell);
}

#[test]
fn who_was_refused_a_turn_is_told() {
    holds(copy_and_twin);
}

#[test]
fn a_ring_that_is_missed_is_caught() {
    fails_with(Fault::WaitWithoutNumber as usize, word_and_bell);
}

#[test]
fn a_refusal_without_a_retry_is_caught() {
    fails_with(Fault::RefuseWithoutRetry as usize, copy_and_twin);
}
