//! Rounds of a host-driven GPU, one of which may be launched ahead of what the host knows, while
//! another kernel queues an item: no item stays unnoticed. Steps and code:
//!
//! | here | there |
//! |---|---|
//! | `Device::process` | `process_items` of `host_driven.cuh`: `Snapshot::take`, `end_process`, `publish` |
//! | `Device::receive` | `split_received`: `keep`, `finish_block`, `publish`; `take_in` and `notify` of `solver.rs` |
//! | `work` | `work` and `end` of `millstream-worklist/src/rounds.rs`, where few items are ready |
//! | `Bell` | `hear`: the end of a round, or the worker's signal, wakes the task |
//!
//! Believed, and not modelled: a stream's kernels follow one another, each with what the last did
//! visible; queues and counting have models of their own.

#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;

use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use loom::sync::{Arc, Notify};
use loom::thread;
use millstream_models::{fails_with, holds, holds_within_two, is_seeded};

const MOST_ROUNDS: usize = 2;
const MOST: usize = 8;

#[derive(Clone, Copy)]
enum Fault {
    /// News of an item is raised before it is queued.
    NewsBeforeItem,
    /// News is raised by a plain store.
    RaiseByStore,
    /// What is left over by a round's batch is no news.
    LeaveInSilence,
    /// A signal that comes while all rounds are under way is taken for answered.
    ForgetSignal,
    /// A round that was launched before the signal is taken for its answer.
    AnswerByRoundAhead,
}

fn seeded(fault: Fault) -> bool {
    is_seeded(fault as usize)
}

/// What a device and the host have of it.
struct Device {
    queued: AtomicU32,
    ready_news: AtomicBool,
    /// What each round's report says, once it is over.
    reports: [AtomicU32; MOST],
    /// Rounds on the stream, or that there will be no more.
    launched: AtomicUsize,
    is_signalled: AtomicBool,
    /// The stream's, and the task's.
    submitted: Notify,
    woken: Notify,
    /// Not loom's: only where the model ends.
    left: std::sync::atomic::AtomicU32,
}

const UNDER_WAY: u32 = 0;
const NOTHING_READY: u32 = 1;
const READY: u32 = 2;
const NO_MORE: usize = usize::MAX;

impl Device {
    fn new(queued: u32, all: u32) -> Arc<Device> {
        Arc::new(Device {
            queued: AtomicU32::new(queued),
            ready_news: AtomicBool::new(false),
            reports: Default::default(),
            launched: AtomicUsize::new(0),
            is_signalled: AtomicBool::new(false),
            submitted: Notify::new(),
            woken: Notify::new(),
            left: all.into(),
        })
    }

    /// Whoever takes it down acquires from all who have raised it: by an operation that reads, since
    /// a store would hide those before.
    fn raise_news(&self) {
        if seeded(Fault::RaiseByStore) {
            self.ready_news.store(true, Ordering::Release);
        } else {
            self.ready_news.fetch_or(true, Ordering::Release);
        }
    }

    /// A batch is one item, which makes `children`.
    fn process(&self, round: usize, children: u32) {
        let item = self.queued.load(Ordering::Acquire).min(1);
        if item * children > 0 {
            self.queued.fetch_add(children, Ordering::AcqRel);
            self.raise_news();
        }
        if item > 0 {
            self.left.fetch_sub(1, Ordering::Relaxed);
            let is_left = self.queued.fetch_sub(1, Ordering::AcqRel) > 1;
            if is_left && !seeded(Fault::LeaveInSilence) {
                self.raise_news();
            }
        }
        let is_ready = self.ready_news.swap(false, Ordering::AcqRel);
        let report = if is_ready { READY } else { NOTHING_READY };
        self.reports[round].store(report, Ordering::Release);
        self.woken.notify();
    }

    /// A kernel of another stream queues an item; its task takes in what it says.
    fn receive(&self) {
        let queue = || self.queued.fetch_add(1, Ordering::AcqRel);
        if !seeded(Fault::NewsBeforeItem) {
            queue();
        }
        self.raise_news();
        if seeded(Fault::NewsBeforeItem) {
            queue();
        }
        if self.ready_news.swap(false, Ordering::AcqRel) {
            self.is_signalled.fetch_or(true, Ordering::Release);
            self.woken.notify();
        }
    }

    /// Does one round after another. The item of the first one makes `children`.
    fn stream(&self, children: u32) {
        for round in 0.. {
            loop {
                match self.launched.load(Ordering::Acquire) {
                    NO_MORE => return,
                    launched if launched > round => break,
                    _ => self.submitted.wait(),
                }
            }
            self.process(round, if round == 0 { children } else { 0 });
        }
    }

    fn launch(&self, launched: usize) {
        self.launched.store(launched, Ordering::Release);
        self.submitted.notify();
    }

    /// The task, until all items have been consumed.
    fn work(&self) {
        let (mut rounds, mut launched) = (VecDeque::new(), 0);
        let (mut wanted, mut is_signalled) = (1, false);
        // As the coordinator says.
        while self.left.load(Ordering::Relaxed) > 0 {
            if seeded(Fault::AnswerByRoundAhead) && !rounds.is_empty() {
                is_signalled = false;
            }
            while rounds.len() < MOST_ROUNDS && (is_signalled || rounds.len() < wanted) {
                is_signalled = false;
                rounds.push_back(launched);
                launched += 1;
                self.launch(launched);
            }
            if seeded(Fault::ForgetSignal) {
                is_signalled = false;
            }
            // `hear`
            let report = |&round: &usize| self.reports[round].load(Ordering::Acquire);
            match rounds.front().map_or(UNDER_WAY, report) {
                UNDER_WAY if self.is_signalled.swap(false, Ordering::AcqRel) => {
                    is_signalled = true;
                }
                UNDER_WAY => self.woken.wait(),
                report => {
                    rounds.pop_front();
                    wanted = if report == READY { MOST_ROUNDS } else { 0 };
                }
            }
        }
        self.launch(NO_MORE);
    }
}

fn run(items: u32, children: u32, receives: bool) {
    let device = Device::new(items, items + children + u32::from(receives));
    let stream = {
        let device = Arc::clone(&device);
        thread::spawn(move || device.stream(children))
    };
    let other = receives.then(|| {
        let device = Arc::clone(&device);
        thread::spawn(move || device.receive())
    });
    device.work();
    other.into_iter().for_each(|other| other.join().unwrap());
    stream.join().unwrap();
    assert_eq!(device.queued.load(Ordering::Acquire), 0);
}

/// More than a batch.
fn items_that_are_left() {
    run(2, 0, false);
}

/// Another kernel queues one meanwhile.
fn an_item_from_elsewhere() {
    run(1, 0, true);
}

/// The same while there are two rounds.
fn an_item_beside_a_round_ahead() {
    run(1, 1, true);
}

#[test]
fn no_item_stays_unnoticed() {
    holds(items_that_are_left);
    holds_within_two(an_item_from_elsewhere);
}

#[test]
#[ignore = "takes a minute"]
fn no_item_stays_unnoticed_beside_a_round_ahead() {
    holds_within_two(an_item_beside_a_round_ahead);
}

#[test]
fn news_before_the_item_is_caught() {
    fails_with(Fault::NewsBeforeItem as usize, an_item_from_elsewhere);
}

#[test]
fn news_raised_by_a_store_is_caught() {
    fails_with(Fault::RaiseByStore as usize, an_item_from_elsewhere);
}

#[test]
fn items_left_in_silence_are_caught() {
    fails_with(Fault::LeaveInSilence as usize, items_that_are_left);
}

#[test]
fn a_signal_that_is_forgotten_is_caught() {
    fails_with(Fault::ForgetSignal as usize, an_item_beside_a_round_ahead);
}

#[test]
fn a_round_ahead_is_no_answer() {
    fails_with(Fault::AnswerByRoundAhead as usize, an_item_from_elsewhere);
}
