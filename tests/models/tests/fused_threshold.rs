//! Moving the threshold of the fused worker and bringing deferred items back, step
//! by step as in `kernels/src/fused.cuh`, under every interleaving.
//!
//! | here | there |
//! |---|---|
//! | `lead` | a turn of `FusedService::lead`: all consumed, then all produced; the end, or another threshold |
//! | `falls`, `move_threshold`, `follow` | those of `FusedService` |
//! | `bring_back`: ticket, item, token | `Gang::bring_back` |
//! | `undefer` | `Split::undefer`: `Queue::claim`, `count_now`; `keep`; `tell` after it |
//! | `process` | `Worklist::begin`, and `Split::tell` after it |
//! | `defer` | `Split::defer`: `Queue::mark`, `OpenQueue::put` |
//!
//! A warp is one thread, which looks at one deferred item at a time and processes
//! then what has become ready. The steps of the threshold are 1; it starts at 0, and falls back there
//! after so many items, if it does.

#![allow(clippy::unwrap_used)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::thread;
use millstream_models::{fails_with, holds, holds_within_two, is_seeded};

#[derive(Clone, Copy)]
enum Fault {
    TokenNotCounted,
    EpochWithoutRelease,
    /// What has been processed is told after what has been consumed.
    WorkToldLate,
}

fn seeded(fault: Fault) -> bool {
    is_seeded(fault as usize)
}

const ITEMS: usize = 2;
/// Both are deferred at threshold 0; the second one stays at threshold 1.
const PRIORITIES: [u32; ITEMS] = [1, 2];
/// It only rises.
const NEVER: u64 = u64::MAX;
const ENTRIES: usize = 5;

#[derive(Default)]
struct Gang {
    produced: AtomicU64,
    consumed: AtomicU64,
    deferred_in: AtomicU64,
    deferred_out: AtomicU64,
    work_items: AtomicU64,
    // The gang's words.
    stopped: AtomicU32,
    threshold: AtomicU32,
    epoch: AtomicU32,
    undefer_first: AtomicU32,
    undefer_left: AtomicU32,
    undefer: AtomicU64,
    // The queue of deferred items.
    bits: AtomicU32,
    entries: [AtomicU32; ENTRIES],
    head: AtomicU32,
    tail: AtomicU32,
    processed: [AtomicU32; ITEMS],
    // The leader's own.
    falls_after: u64,
    worked_there: AtomicU64,
}

impl Gang {
    /// Both items are deferred.
    fn new(falls_after: u64) -> Arc<Gang> {
        let gang = Gang { falls_after, ..Gang::default() };
        (0..ITEMS as u32).for_each(|item| gang.defer(item));
        gang.produced.store(2, Ordering::Relaxed);
        gang.deferred_in.store(2, Ordering::Relaxed);
        Arc::new(gang)
    }

    fn defer(&self, item: u32) {
        self.bits.fetch_or(1 << item, Ordering::Release);
        let position = self.tail.fetch_add(1, Ordering::Relaxed);
        self.entries[position as usize].store(item + 1, Ordering::Relaxed);
    }

    /// A turn of the leader: the end, or another threshold.
    fn lead(&self) {
        let load = |word: &AtomicU64| word.load(Ordering::Acquire);
        let done = load(&self.consumed) + load(&self.deferred_in);
        let made = load(&self.produced) + load(&self.deferred_out);
        if done == made && load(&self.deferred_in) == load(&self.deferred_out) {
            self.stopped.store(1, Ordering::Relaxed);
        } else if done == made {
            let threshold = self.threshold.load(Ordering::Relaxed);
            self.move_threshold(if self.falls() { 0 } else { threshold + 1 });
        }
    }

    fn falls(&self) -> bool {
        let worked = self.work_items.load(Ordering::Relaxed);
        let processed = self.processed.iter().map(|item| item.load(Ordering::Relaxed)).sum::<u32>();
        assert_eq!(worked, processed.into(), "work that nobody has told");
        let falls = worked - self.worked_there.load(Ordering::Relaxed) >= self.falls_after;
        if falls {
            self.worked_there.store(worked, Ordering::Relaxed);
        }
        falls
    }

    fn move_threshold(&self, threshold: u32) {
        if !seeded(Fault::TokenNotCounted) {
            self.produced.fetch_add(1, Ordering::Relaxed);
        }
        self.threshold.store(threshold, Ordering::Relaxed);
        let order = match seeded(Fault::EpochWithoutRelease) {
            true => Ordering::Relaxed,
            false => Ordering::Release,
        };
        self.epoch.store(self.epoch.load(Ordering::Relaxed) + 1, order);
    }

    fn follow(&self, epoch: u32) -> u32 {
        let now = self.epoch.load(Ordering::Acquire);
        if now == epoch {
            return epoch;
        }
        assert_eq!(self.undefer_left.load(Ordering::Relaxed), 0, "moved while items come back");
        let end = self.tail.load(Ordering::Relaxed);
        let first = self.head.load(Ordering::Relaxed);
        if first == end {
            self.consumed.fetch_add(1, Ordering::Release);
        } else {
            self.head.store(end, Ordering::Relaxed);
            self.undefer_first.store(first, Ordering::Relaxed);
            self.undefer_left.store(end - first, Ordering::Relaxed);
            // There a store: loom would let a late ticket of the last epoch undo it.
            self.undefer.swap(u64::from(end - first) << 32, Ordering::Release);
        }
        now
    }

    /// A turn of a worker: looks at one deferred item, if there is one to look at.
    fn bring_back(&self) {
        let seen = self.undefer.load(Ordering::Relaxed);
        if seen as u32 >= (seen >> 32) as u32 {
            return;
        }
        let word = self.undefer.fetch_add(1, Ordering::AcqRel);
        if word as u32 >= (word >> 32) as u32 {
            return;
        }
        let position = self.undefer_first.load(Ordering::Relaxed) + word as u32;
        let threshold = self.threshold.load(Ordering::Relaxed);
        let entry = self.entries[position as usize].swap(0, Ordering::Relaxed);
        assert_ne!(entry, 0, "nobody has reserved it");
        let is_ready = self.undefer(entry - 1, threshold);
        if self.undefer_left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.consumed.fetch_add(1, Ordering::Release);
        }
        if is_ready {
            self.process(entry - 1);
        }
    }

    /// Makes an item ready, or defers it anew and tells. Whether it is ready.
    fn undefer(&self, item: u32, threshold: u32) -> bool {
        if self.bits.fetch_and(!(1 << item), Ordering::Acquire) >> item & 1 == 0 {
            return false;
        }
        self.deferred_out.fetch_add(1, Ordering::Relaxed);
        let is_ready = PRIORITIES[item as usize] <= threshold;
        if !is_ready {
            self.defer(item);
            self.deferred_in.fetch_add(1, Ordering::Release);
        }
        is_ready
    }

    /// Processes a ready item; then tells.
    fn process(&self, item: u32) {
        self.processed[item as usize].fetch_add(1, Ordering::Relaxed);
        if !seeded(Fault::WorkToldLate) {
            self.work_items.fetch_add(1, Ordering::Relaxed);
        }
        self.consumed.fetch_add(1, Ordering::Release);
        if seeded(Fault::WorkToldLate) {
            self.work_items.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Goes on alone; then all items have been processed, each at the first threshold that
/// it can be.
fn finish(gang: &Gang, mut epoch: u32) {
    for _ in 0..10 {
        epoch = gang.follow(epoch);
        gang.bring_back();
        gang.lead();
    }
    assert_eq!(gang.stopped.load(Ordering::Relaxed), 1, "the end is never seen");
    for item in &gang.processed {
        assert_eq!(item.load(Ordering::Relaxed), 1, "an item is lost");
    }
    assert_eq!(gang.threshold.load(Ordering::Relaxed), 2, "raised without need");
    // Once at each threshold below its own: 1, or 1, 0 and 1.
    let again = if gang.falls_after == NEVER { 1 } else { 3 };
    let deferred = gang.deferred_in.load(Ordering::Relaxed);
    assert_eq!(deferred, 2 + again, "deferred again without need");
}

/// The leader's own device: its service block leads and follows, and two workers take
/// tickets. Nobody waits, so that loom sees an end of every interleaving.
fn leader_and_two_workers(falls_after: u64) {
    let gang = Gang::new(falls_after);
    gang.lead();
    let workers: Vec<_> = [2, 1]
        .into_iter()
        .map(|turns| {
            let gang = Arc::clone(&gang);
            thread::spawn(move || (0..turns).for_each(|_| gang.bring_back()))
        })
        .collect();
    let mut epoch = 0;
    for _ in 0..2 {
        epoch = gang.follow(epoch);
        gang.lead();
    }
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    finish(&gang, epoch);
}

/// Another device: its service block follows the leader, and one worker takes tickets.
fn leader_and_follower(falls_after: u64) {
    let gang = Gang::new(falls_after);
    let service = {
        let gang = Arc::clone(&gang);
        thread::spawn(move || (0..2).fold(0, |epoch, _| gang.follow(epoch)))
    };
    let worker = {
        let gang = Arc::clone(&gang);
        thread::spawn(move || (0..2).for_each(|_| gang.bring_back()))
    };
    (0..2).for_each(|_| gang.lead());
    worker.join().unwrap();
    finish(&gang, service.join().unwrap());
}

#[test]
fn two_workers_share_what_comes_back() {
    holds_within_two(|| leader_and_two_workers(NEVER));
}

#[test]
fn a_service_block_follows_the_leader() {
    holds(|| leader_and_follower(NEVER));
}

#[test]
fn a_threshold_that_falls_back_is_followed() {
    holds(|| leader_and_follower(1));
    holds_within_two(|| leader_and_two_workers(1));
}

#[test]
fn a_token_that_is_not_counted_is_caught() {
    fails_with(Fault::TokenNotCounted as usize, || leader_and_two_workers(NEVER));
}

#[test]
fn an_epoch_without_release_is_caught() {
    fails_with(Fault::EpochWithoutRelease as usize, || leader_and_follower(NEVER));
}

#[test]
fn work_that_is_told_late_is_caught() {
    fails_with(Fault::WorkToldLate as usize, || leader_and_two_workers(1));
}
