//! When the watcher's thread rings and when it sleeps, without the thread and the bell.
//! `tests/models/tests/attendance.rs` is its model.

use crate::sync::{AtomicBool, AtomicUsize, Fault, Ordering, seeded};

/// Those who wait for words that ring nothing.
#[derive(Debug)]
pub(crate) struct Attendance {
    waiting: AtomicUsize,
    /// Changes whenever somebody begins to wait.
    begun: AtomicUsize,
    stop: AtomicBool,
}

/// What the thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nobody waits: the thread parks, and looks again when it is unparked.
    Park,
    /// The thread rings.
    Ring {
        /// Whether somebody has begun to wait since the thread last looked.
        has_begun: bool,
    },
    Stop,
}

impl Attendance {
    /// Nobody waits.
    pub(crate) fn new() -> Attendance {
        let (waiting, begun) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Attendance { waiting, begun, stop: AtomicBool::new(false) }
    }

    /// Somebody waits from now on. `unpark` wakes the thread: now, or when it parks next.
    pub(crate) fn begin(&self, unpark: impl Fn()) {
        if seeded(Fault::UnparkBeforeCounting) {
            unpark();
        }
        // Relaxed: a thread that sees the increment of `begun` below sees this one, too.
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // Release: see `next`.
        self.begun.fetch_add(1, Ordering::Release);
        if !seeded(Fault::UnparkBeforeCounting) {
            unpark();
        }
    }

    /// One of them waits no more.
    pub(crate) fn end(&self) {
        // Relaxed: the thread looks again anyway.
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Those who wait.
    pub(crate) fn waiting(&self) -> usize {
        // Relaxed: the number is only looked at.
        self.waiting.load(Ordering::Relaxed)
    }

    /// Ends the thread: nobody will wait any more.
    pub(crate) fn stop(&self, unpark: impl Fn()) {
        // Release: see `next`.
        self.stop.store(true, Ordering::Release);
        unpark();
    }

    /// The thread's next step. `seen` keeps what the thread has seen of `begun`.
    pub(crate) fn next(&self, seen: &mut usize) -> Next {
        // Acquire: pairs with the release in `stop`.
        if self.stop.load(Ordering::Acquire) {
            return Next::Stop;
        }
        // Acquire: pairs with the release in `begin`. Somebody who begins after this look unparks
        // the thread after it, so the thread then parks only briefly.
        let latest = self.begun.load(Ordering::Acquire);
        let has_begun = std::mem::replace(seen, latest) != latest;
        match self.waiting() {
            0 => Next::Park,
            _ => Next::Ring { has_begun },
        }
    }
}
