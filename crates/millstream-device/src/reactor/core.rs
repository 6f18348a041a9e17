//! Completion words without their devices: who is woken, and when the reactor
//! may park. States and orderings are in `README.md`.

use std::task::{Context, Poll, Waker};

use crate::sync::{AtomicBool, AtomicU32, Fault, Mutex, Ordering, Thread, park, seeded};

/// Whether a word that shows `value` has come to `target`. Words only grow, and
/// wrap around; at most 2^31 - 1 operations of a stream are outstanding.
pub(crate) fn reached(value: u32, target: u32) -> bool {
    if seeded(Fault::PlainCompare) {
        return value >= target;
    }
    value.wrapping_sub(target) as i32 >= 0
}

#[derive(Debug)]
struct Waiter {
    target: u32,
    waker: Waker,
}

/// The completion word of a stream: how many of its operations are done.
#[derive(Debug)]
pub(crate) struct Word {
    value: AtomicU32,
    waiters: Mutex<Vec<Waiter>>,
}

impl Word {
    /// A word that shows `value`.
    pub(crate) fn new(value: u32) -> Word {
        Word { value: AtomicU32::new(value), waiters: Mutex::new(Vec::new()) }
    }

    /// What the device does: operations up to `value` are done, and all they
    /// wrote is visible to whoever sees it.
    pub(crate) fn complete(&self, value: u32) {
        // Pairs with `is_done`.
        self.value.store(value, Ordering::Release);
    }

    /// Whether operation `target` is done.
    pub(crate) fn is_done(&self, target: u32) -> bool {
        reached(self.value.load(Ordering::Acquire), target)
    }

    /// Ready once `target` is done; else the task is woken when `sweep` sees it.
    pub(crate) fn poll(&self, target: u32, context: &mut Context<'_>) -> Poll<()> {
        if self.is_done(target) {
            return Poll::Ready(());
        }
        let waker = context.waker();
        let mut waiters = self.waiters.lock();
        if !waiters.iter().any(|other| other.target == target && other.waker.will_wake(waker)) {
            waiters.push(Waiter { target, waker: waker.clone() });
        }
        drop(waiters);
        // A sweep may have passed between the check and the registration, and it
        // may have been the last.
        if !seeded(Fault::RegisterWithoutRecheck) && self.is_done(target) {
            return Poll::Ready(());
        }
        Poll::Pending
    }

    /// Wakes the tasks whose operations are done. True if others still wait.
    pub(crate) fn sweep(&self) -> bool {
        let mut waiters = self.waiters.lock();
        let done: Vec<Waiter> =
            waiters.extract_if(.., |waiter| self.is_done(waiter.target)).collect();
        let armed = !waiters.is_empty();
        drop(waiters);
        done.into_iter().for_each(|waiter| waiter.waker.wake());
        armed
    }
}

/// Lets the reactor's thread sleep while no word is armed.
#[derive(Debug)]
pub(crate) struct Parking {
    parked: AtomicBool,
}

impl Parking {
    /// For a reactor that is awake.
    pub(crate) fn new() -> Parking {
        Parking { parked: AtomicBool::new(false) }
    }

    /// What a waiter calls after it has registered.
    pub(crate) fn notify(&self, reactor: &Thread) {
        if self.parked.swap(false, Ordering::AcqRel) {
            reactor.unpark();
        }
    }

    /// What the reactor calls when a sweep left nothing armed: parks until
    /// notified, unless something has been armed since. May return early.
    pub(crate) fn park_unless(&self, armed: impl FnOnce() -> bool) {
        if seeded(Fault::ParkWithoutRecheck) {
            self.parked.store(true, Ordering::Release);
            return park();
        }
        // A waiter that registers after the check finds the mark: the lock of the
        // waiters orders the mark before its `notify`.
        self.parked.store(true, Ordering::Release);
        if !armed() {
            park();
        }
        self.parked.store(false, Ordering::Relaxed);
    }
}
