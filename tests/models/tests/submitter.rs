//! What is left to a GPU's thread, and waiting for it: the production order of submissions, with
//! the thread and `settle` step by step as in `crates/millstream-device/src/cuda/submitter.rs` and
//! `settle.rs`, under every interleaving.
//!
//! | here | there |
//! |---|---|
//! | `Gpu::hold_and_begin` | `Lane::hold`, `Lane::let_go` |
//! | `Gpu::leave`, and who resumes | `Lane::leave`, `Submitted::finish`, `Lane::resume_soon` |
//! | `Gpu::resume_on_the_thread`, `Gpu::is_awake` | `Submitter::resume`, `Submitting::is_awake` |
//! | `Gpu::run`, `Gpu::next` | `run` and `next` of `submitter.rs`, which looks once before it sleeps |
//! | `Lanes` | the channel to the thread: closed with the submitter, it ends after the last |
//! | `Gpu::resume` | `Lane::resume` with `Resuming` |
//! | `Busy` | `Busy` of `settle.rs` |
//! | `Gpu::settle` | `settle` |
//!
//! What the driver was given is plain memory: loom knows whether who settles comes after it.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../../../crates/millstream-device/src/cuda/in_order.rs"]
mod in_order;
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicUsize, Ordering};
    pub(crate) use millstream_models::Mutex;

    /// The faults of the production file; `held_up_submissions.rs` seeds the others.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Fault {
        OvertakeTheHeldUp,
        OvertakeWhatIsUnderWay,
        LetGoLate,
    }

    pub(crate) fn seeded(fault: Fault) -> bool {
        fault == Fault::LetGoLate && super::seeded(super::Fault::LetGoLate)
    }
}

use std::collections::VecDeque;

use in_order::{InOrder, Rest, Step};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use millstream_models::{fails_with, holds, is_seeded};

#[derive(Clone, Copy)]
enum Fault {
    /// Who settles does not acquire what others have done.
    SettleWithoutAcquire,
    /// Who has resumed does not release what it did.
    BusyWithoutRelease,
    /// It is said that somebody will resume after others could see that something is left.
    BusyAfterLeaving,
    /// It is said that nobody is before the lane is resumed.
    BusyEndsBeforeResuming,
    /// Whoever resumes waits for what it resumes itself.
    ResumingSettles,
    /// The thread ends with its submitter, whatever it was given.
    EndAtOnce,
    /// Who finds the thread asleep takes it for told.
    NobodyIsTold,
    /// What is held is not let go before the thread resumes it.
    LetGoLate,
}

fn seeded(fault: Fault) -> bool {
    is_seeded(fault as usize)
}

const AWAKE: u8 = 0;
const ASLEEP: u8 = 1;
const WAKING: u8 = 2;

const OPERATIONS: usize = 2;

/// What the thread is sent: to resume, or to wake only.
struct Lanes {
    sent: Mutex<(VecDeque<Option<Busy>>, bool)>,
    more: Condvar,
}

impl Lanes {
    fn send(&self, left: Option<Busy>) {
        self.sent.lock().unwrap().0.push_back(left);
        self.more.notify_one();
    }

    fn close(&self) {
        self.sent.lock().unwrap().1 = true;
        self.more.notify_one();
    }

    /// `None`, if there is nothing now; `Some(None)` when there is nothing any more.
    fn look(&self, waits: bool) -> Option<Option<Option<Busy>>> {
        let mut sent = self.sent.lock().unwrap();
        loop {
            if sent.1 && seeded(Fault::EndAtOnce) {
                // What is left is left.
                sent.0.drain(..).for_each(std::mem::forget);
            }
            match sent.0.pop_front() {
                Some(left) => return Some(Some(left)),
                None if sent.1 => return Some(None),
                None if !waits => return None,
                None => sent = self.more.wait(sent).unwrap(),
            }
        }
    }
}

/// Counts those who resume, or will.
struct Busy(Arc<AtomicUsize>);

impl Busy {
    fn begin(all: &Arc<AtomicUsize>) -> Busy {
        all.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(all))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let release =
            if seeded(Fault::BusyWithoutRelease) { Ordering::Relaxed } else { Ordering::Release };
        self.0.fetch_sub(1, release);
    }
}

struct Gpu {
    submission: InOrder<(), usize>,
    /// How often the driver was given each operation.
    given: [UnsafeCell<u32>; OPERATIONS],
    busy: Arc<AtomicUsize>,
    lanes: Lanes,
    state: AtomicU8,
    /// Whoever hears of an operation settles.
    hearers_settle: bool,
}

// SAFETY: loom checks each access to what was given.
unsafe impl Sync for Gpu {}
// SAFETY: as above.
unsafe impl Send for Gpu {}

impl Gpu {
    fn new(state: u8, hearers_settle: bool) -> Arc<Gpu> {
        Arc::new(Gpu {
            submission: InOrder::new(()),
            given: Default::default(),
            busy: Arc::default(),
            lanes: Lanes { sent: Mutex::default(), more: Condvar::new() },
            state: AtomicU8::new(state),
            hearers_settle,
        })
    }

    fn leave(&self, operation: usize) {
        let left = match seeded(Fault::BusyAfterLeaving) {
            true => self.submission.leave(operation, || ()).0.map(|()| {
                thread::yield_now();
                Busy::begin(&self.busy)
            }),
            false => self.submission.leave(operation, || Busy::begin(&self.busy)).0,
        };
        let Some(left) = left else { return };
        if let Some(left) = self.resume_on_the_thread(left) {
            self.resume_for(left);
        }
    }

    /// Holds an operation, and begins it.
    fn hold_and_begin(&self, operation: usize) {
        if !self.submission.hold(operation) {
            return;
        }
        // Who has not begun it does not wait for it.
        self.settle(false);
        let left = Busy::begin(&self.busy);
        self.submission.let_go();
        if let Some(left) = self.resume_on_the_thread(left) {
            self.resume_for(left);
        }
    }

    fn resume_on_the_thread(&self, left: Busy) -> Option<Busy> {
        if !self.is_awake() {
            if seeded(Fault::NobodyIsTold) {
                return None;
            }
            return Some(left);
        }
        self.lanes.send(Some(left));
        None
    }

    fn is_awake(&self) -> bool {
        let relaxed = Ordering::Relaxed;
        let state = self.state.load(relaxed);
        if state == ASLEEP && self.state.compare_exchange(ASLEEP, WAKING, relaxed, relaxed).is_ok()
        {
            self.lanes.send(None);
        }
        state == AWAKE
    }

    /// The thread.
    fn run(&self) {
        self.state.store(AWAKE, Ordering::Relaxed);
        while let Some(left) = self.next() {
            left.into_iter().for_each(|left| self.resume_for(left));
        }
    }

    fn next(&self) -> Option<Option<Busy>> {
        if let Some(left) = self.lanes.look(false) {
            return left;
        }
        self.state.store(ASLEEP, Ordering::Relaxed);
        let left = self.lanes.look(true).flatten();
        self.state.store(AWAKE, Ordering::Relaxed);
        left
    }

    fn resume_for(&self, left: Busy) {
        let left = (!seeded(Fault::BusyEndsBeforeResuming)).then_some(left);
        self.resume();
        drop(left);
    }

    fn resume(&self) {
        let _resuming = Busy::begin(&self.busy);
        loop {
            let rest = self.submission.resume(
                |_, next| Some(next),
                |_| false,
                |(), operation| {
                    // SAFETY: one operation at a time is performed; loom checks that.
                    self.given[operation].with_mut(|times| unsafe { *times += 1 });
                    Step::<_, ()>::Done
                },
            );
            if self.hearers_settle {
                self.settle(!seeded(Fault::ResumingSettles));
            }
            match rest {
                Rest::None => return,
                Rest::More => {}
                Rest::Gathers | Rest::HeldUp(()) => unreachable!(),
            }
        }
    }

    fn settle(&self, is_resuming: bool) {
        let acquire =
            if seeded(Fault::SettleWithoutAcquire) { Ordering::Relaxed } else { Ordering::Acquire };
        if self.busy.load(acquire) == 0 || is_resuming {
            return;
        }
        let arrived = self.submission.arrived();
        while !self.submission.has_performed(arrived) {
            thread::yield_now();
        }
    }

    /// Settles, and then the driver has been given these.
    fn has_settled(&self, operations: &[usize]) {
        self.settle(false);
        for &operation in operations {
            // SAFETY: loom checks that it is not given meanwhile.
            let times = self.given[operation].with(|times| unsafe { *times });
            assert_eq!(times, 1, "operation {operation}");
        }
    }
}

fn start(gpu: &Arc<Gpu>) -> thread::JoinHandle<()> {
    let gpu = Arc::clone(gpu);
    thread::spawn(move || gpu.run())
}

/// A thread that may be asleep, awake or between; one caller.
fn leaves_and_settles() {
    let gpu = Gpu::new(WAKING, false);
    let thread = start(&gpu);
    gpu.leave(0);
    gpu.leave(1);
    gpu.has_settled(&[0, 1]);
    gpu.lanes.close();
    thread.join().unwrap();
}

/// The same, with what is held until it is begun, and more behind it.
fn begins_and_settles() {
    let gpu = Gpu::new(WAKING, false);
    let thread = start(&gpu);
    gpu.hold_and_begin(0);
    gpu.has_settled(&[0]);
    gpu.leave(1);
    gpu.lanes.close();
    thread.join().unwrap();
    gpu.has_settled(&[0, 1]);
}

/// Nobody settles: the submitter is dropped, and the thread ends after what it was given.
fn leaves_and_drops() {
    let gpu = Gpu::new(AWAKE, false);
    let thread = start(&gpu);
    gpu.leave(0);
    gpu.lanes.close();
    thread.join().unwrap();
    gpu.has_settled(&[0]);
}

/// Two callers, and no thread: either may resume what both leave.
fn two_leave() {
    let gpu = Gpu::new(WAKING, false);
    let other = {
        let gpu = Arc::clone(&gpu);
        thread::spawn(move || gpu.leave(0))
    };
    gpu.leave(1);
    gpu.has_settled(&[1]);
    other.join().unwrap();
    gpu.has_settled(&[0, 1]);
}

/// Whoever hears of an operation settles, with another one behind it.
fn hearers_settle() {
    let gpu = Gpu::new(AWAKE, true);
    gpu.leave(0);
    gpu.leave(1);
    gpu.lanes.close();
    gpu.run();
    gpu.has_settled(&[0, 1]);
}

#[test]
fn who_settles_comes_after_what_was_left() {
    holds(leaves_and_settles);
    holds(two_leave);
}

#[test]
fn who_settles_comes_after_what_was_begun() {
    holds(begins_and_settles);
}

#[test]
fn letting_go_late_is_caught() {
    fails_with(Fault::LetGoLate as usize, begins_and_settles);
}

#[test]
fn the_thread_ends_after_what_it_was_given() {
    holds(leaves_and_drops);
}

#[test]
fn whoever_resumes_waits_for_nobody() {
    holds(hearers_settle);
}

#[test]
fn settling_without_acquire_is_caught() {
    fails_with(Fault::SettleWithoutAcquire as usize, leaves_and_settles);
}

#[test]
fn resuming_without_release_is_caught() {
    fails_with(Fault::BusyWithoutRelease as usize, leaves_and_settles);
}

#[test]
fn saying_so_after_leaving_is_caught() {
    fails_with(Fault::BusyAfterLeaving as usize, two_leave);
}

#[test]
fn saying_too_early_that_nobody_resumes_is_caught() {
    fails_with(Fault::BusyEndsBeforeResuming as usize, leaves_and_settles);
}

#[test]
fn waiting_for_oneself_is_caught() {
    fails_with(Fault::ResumingSettles as usize, hearers_settle);
}

#[test]
fn a_thread_that_ends_at_once_is_caught() {
    fails_with(Fault::EndAtOnce as usize, leaves_and_drops);
}

#[test]
fn a_thread_that_is_not_told_is_caught() {
    fails_with(Fault::NobodyIsTold as usize, leaves_and_settles);
}
