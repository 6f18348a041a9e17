//! Moving the threshold of the host-driven worklist, step by step as in
//! `crates/millstream-worklist/src/coordinator.rs` and `solver.rs`, under every interleaving: one
//! device, whose worker has been woken for nothing while another task finds that nothing is ready.
//! The threshold rises, or falls first, to where the worker finds out what is deferred.
//!
//! | here | there |
//! |---|---|
//! | `Run::work` | a turn of `Solver::work` |
//! | `Run::check`, its look and where it moves it | `Coordinator::check`, `nothing_ready`, `move_threshold` |
//! | `Run::begun`, `over` | `Launches`, around a kernel and its report |
//! | `Run::deferred`, an item and its priority | a deferred item of the device |
//! | `Run::known`, its priority once it has been looked at | the lowest that the device has deferred |
//!
//! A kernel is what its worker does; reports are plain memory.

#![allow(clippy::unwrap_used)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use loom::thread;
use millstream_models::{fails_with, holds, is_seeded};

#[derive(Clone, Copy)]
enum Fault {
    /// The worker reads the threshold, and then whether it is to bring items back.
    ThresholdBeforeFlag,
    /// The worker is told to bring items back before it can see up to where.
    FlagWithoutRelease,
    /// The threshold is moved again before the device has brought its items back.
    MoveWithoutWaiting,
}

fn seeded(fault: Fault) -> bool {
    is_seeded(fault as usize)
}

/// Of the one item that there is.
const PRIORITY: u32 = 5;

#[derive(Default)]
struct Run {
    begun: AtomicU64,
    over: AtomicU64,
    threshold: AtomicU32,
    undefer: AtomicBool,
    undeferring: AtomicUsize,
    /// Where it was last moved to: what whoever is told so must see.
    moved_to: UnsafeCell<u32>,
    /// The report: items deferred.
    deferred: UnsafeCell<u32>,
    /// The report: the lowest of them, as of the last look.
    known: UnsafeCell<u32>,
}

// SAFETY: loom checks each access to the report.
unsafe impl Sync for Run {}
// SAFETY: as above.
unsafe impl Send for Run {}

impl Run {
    /// Brings the item back, if it is told to, up to the threshold; or looks at it.
    fn work(&self) {
        let early = self.threshold.load(Ordering::Acquire);
        self.begun.fetch_add(1, Ordering::AcqRel);
        let undefers = self.undefer.swap(false, Ordering::AcqRel);
        let threshold = match seeded(Fault::ThresholdBeforeFlag) {
            true => early,
            false => self.threshold.load(Ordering::Acquire),
        };
        if undefers {
            // SAFETY: the checker waits for this report; loom checks that.
            let moved_to = self.moved_to.with(|moved_to| unsafe { *moved_to });
            assert_eq!(threshold, moved_to, "an older threshold");
        }
        if undefers && threshold >= PRIORITY {
            // SAFETY: as above.
            self.deferred.with_mut(|deferred| unsafe { *deferred = 0 });
        } else if undefers {
            // SAFETY: as above.
            self.known.with_mut(|known| unsafe { *known = PRIORITY });
        }
        self.over.fetch_add(1, Ordering::AcqRel);
        if undefers {
            self.undeferring.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Moves the threshold if nothing is ready and the item is deferred: down, if it `falls`, else up
    /// to what is known. Whether it did.
    fn check(&self, falls: bool) -> bool {
        if self.undeferring.load(Ordering::Acquire) > 0 && !seeded(Fault::MoveWithoutWaiting) {
            return false;
        }
        let over = self.over.load(Ordering::Acquire);
        if self.begun.load(Ordering::Acquire) != over {
            return false;
        }
        // SAFETY: no kernel runs that brings items back; loom checks that.
        if self.deferred.with(|deferred| unsafe { *deferred }) == 0 {
            return false;
        }
        // SAFETY: as above.
        let known = self.known.with(|known| unsafe { *known });
        let threshold = if falls { 0 } else { known };
        // SAFETY: as above.
        self.moved_to.with_mut(|moved_to| unsafe { *moved_to = threshold });
        self.threshold.store(threshold, Ordering::Release);
        self.undeferring.store(1, Ordering::Release);
        let release = match seeded(Fault::FlagWithoutRelease) {
            true => Ordering::Relaxed,
            false => Ordering::Release,
        };
        self.undefer.store(true, release);
        true
    }
}

/// A device that has last told `known` of its item, whose worker takes two turns.
fn run_of(known: u32) -> (Arc<Run>, thread::JoinHandle<()>) {
    let run = Arc::new(Run::default());
    // SAFETY: nobody else is there yet.
    run.deferred.with_mut(|deferred| unsafe { *deferred = 1 });
    // SAFETY: as above.
    run.known.with_mut(|its| unsafe { *its = known });
    let other = Arc::clone(&run);
    let worker = thread::spawn(move || {
        // Woken for nothing, and then perhaps for the threshold.
        other.work();
        other.work();
    });
    (run, worker)
}

fn raised_beside_a_turn() {
    let (run, worker) = run_of(PRIORITY);
    let raised = [run.check(false), run.check(false)];
    assert_ne!(raised, [true; 2], "raised before the items are back");
    worker.join().unwrap();
}

/// Nothing is known of the item but that it was less urgent.
fn fallen_and_raised() {
    let (run, worker) = run_of(PRIORITY + 1);
    if run.check(true) && run.check(false) {
        // SAFETY: nobody writes it any more.
        let known = run.known.with(|known| unsafe { *known });
        assert_eq!(known, PRIORITY, "raised before the device has looked");
    }
    worker.join().unwrap();
}

#[test]
fn what_is_deferred_is_brought_back() {
    holds(raised_beside_a_turn);
}

#[test]
fn what_has_become_urgent_is_found_after_a_fall() {
    holds(fallen_and_raised);
}

#[test]
fn a_threshold_that_is_read_early_is_caught() {
    fails_with(Fault::ThresholdBeforeFlag as usize, raised_beside_a_turn);
}

#[test]
fn a_flag_without_release_is_caught() {
    fails_with(Fault::FlagWithoutRelease as usize, raised_beside_a_turn);
}

#[test]
fn moving_it_again_too_early_is_caught() {
    fails_with(Fault::MoveWithoutWaiting as usize, raised_beside_a_turn);
}

#[test]
fn raising_it_before_all_have_looked_is_caught() {
    fails_with(Fault::MoveWithoutWaiting as usize, fallen_and_raised);
}
