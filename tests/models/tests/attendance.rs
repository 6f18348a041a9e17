//! The watcher's thread, which parks while nobody waits and rings while somebody does: the
//! production file under every interleaving.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../../../crates/millstream-flow/src/full_empty/attendance.rs"]
mod attendance;
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    /// The fault of the production file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Fault {
        UnparkBeforeCounting,
    }

    pub(crate) fn seeded(fault: Fault) -> bool {
        millstream_models::is_seeded(fault as usize)
    }
}

use attendance::{Attendance, Next};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use millstream_models::{fails_with, holds};
use sync::Fault;

/// Rings since the beginning.
struct Bell {
    rings: Mutex<usize>,
    rung: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.rings.lock().unwrap() += 1;
        self.rung.notify_all();
    }

    /// Waits for a ring; for ever, which loom reports, if none comes.
    fn wait(&self) {
        let mut rings = self.rings.lock().unwrap();
        while *rings == 0 {
            rings = self.rung.wait(rings).unwrap();
        }
    }
}

/// As `Shared::run`, but that it rings once for those who have begun.
fn run(attendance: &Attendance, bell: &Bell) {
    let mut seen = 0;
    loop {
        match attendance.next(&mut seen) {
            Next::Stop => return,
            Next::Park => thread::park(),
            Next::Ring { has_begun: true } => bell.ring(),
            Next::Ring { has_begun: false } => thread::yield_now(),
        }
    }
}

/// Somebody waits for a ring, and then nobody does; then the thread ends.
fn waits_and_leaves() {
    let attendance = Arc::new(Attendance::new());
    let bell = Arc::new(Bell { rings: Mutex::new(0), rung: Condvar::new() });
    let watcher = {
        let (attendance, bell) = (Arc::clone(&attendance), Arc::clone(&bell));
        thread::spawn(move || run(&attendance, &bell))
    };
    let unpark = || watcher.thread().unpark();
    attendance.begin(unpark);
    bell.wait();
    attendance.end();
    attendance.stop(unpark);
    watcher.join().unwrap();
}

#[test]
fn whoever_waits_hears_the_bell_and_the_thread_ends() {
    holds(waits_and_leaves);
}

#[test]
fn a_watcher_that_is_woken_too_early_is_caught() {
    fails_with(Fault::UnparkBeforeCounting as usize, waits_and_leaves);
}
