//! Raising the threshold of the host-driven worklist, step by step as in
//! `crates/millstream-worklist/src/coordinator.rs` and `solver.rs`, under every interleaving: one
//! device, whose worker has been woken for nothing while another task finds that nothing is ready.
//!
//! | here | there |
//! |---|---|
//! | `Run::work` | a turn of `Solver::work` |
//! | `Run::check`, its look and what it raises | `Coordinator::check`, `nothing_ready`, `raise_threshold` |
//! | `Run::begun`, `over` | `Launches`, around a kernel and its report |
//! | `Run::deferred`, an item and its priority | a deferred item of the device |
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
    /// The threshold is raised again before the device has brought its items back.
    RaiseWithoutWaiting,
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
    /// The report: items deferred.
    deferred: UnsafeCell<u32>,
}

// SAFETY: loom checks each access to the report.
unsafe impl Sync for Run {}
// SAFETY: as above.
unsafe impl Send for Run {}

impl Run {
    /// Brings the item back, if it is told to, up to the threshold.
    fn work(&self) {
        let early = self.threshold.load(Ordering::Acquire);
        self.begun.fetch_add(1, Ordering::AcqRel);
        let undefers = self.undefer.swap(false, Ordering::AcqRel);
        let threshold = match seeded(Fault::ThresholdBeforeFlag) {
            true => early,
            false => self.threshold.load(Ordering::Acquire),
        };
        if undefers {
            assert!(threshold >= PRIORITY, "nothing is brought back");
            // SAFETY: the checker waits for this report; loom checks that.
            self.deferred.with_mut(|deferred| unsafe { *deferred = 0 });
        }
        self.over.fetch_add(1, Ordering::AcqRel);
        if undefers {
            self.undeferring.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Raises the threshold if nothing is ready and the item is deferred; whether it did.
    fn check(&self) -> bool {
        if self.undeferring.load(Ordering::Acquire) > 0 && !seeded(Fault::RaiseWithoutWaiting) {
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
        self.threshold.fetch_max(PRIORITY, Ordering::AcqRel);
        self.undeferring.store(1, Ordering::Release);
        let release = match seeded(Fault::FlagWithoutRelease) {
            true => Ordering::Relaxed,
            false => Ordering::Release,
        };
        self.undefer.store(true, release);
        true
    }
}

fn raised_beside_a_turn() {
    let run = Arc::new(Run::default());
    // SAFETY: nobody else is there yet.
    run.deferred.with_mut(|deferred| unsafe { *deferred = 1 });
    let other = Arc::clone(&run);
    let worker = thread::spawn(move || {
        // Woken for nothing, and then perhaps for the threshold.
        other.work();
        other.work();
    });
    let raised = [run.check(), run.check()];
    assert_ne!(raised, [true; 2], "raised before the items are back");
    worker.join().unwrap();
}

#[test]
fn what_is_deferred_is_brought_back() {
    holds(raised_beside_a_turn);
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
fn raising_it_again_too_early_is_caught() {
    fails_with(Fault::RaiseWithoutWaiting as usize, raised_beside_a_turn);
}
