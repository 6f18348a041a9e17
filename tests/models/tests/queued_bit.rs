//! The bit of a ready item in the word of its value, step by step as in
//! `kernels/src/vertex_value.cuh`, `relaxation.cuh` and `worklist.cuh`, under every
//! interleaving.
//!
//! | here | there |
//! |---|---|
//! | `Worker::count` | `Worklist::count_now`, with its fence |
//! | `Worker::emit`: ready, deferred | `Relaxation::visit_and_mark`: `lower_and_queue`, `lower`; then `Worklist::keep`, which pushes or defers |
//! | `Worker::take` | `Relaxation::claim`, which clears the bit and reads the value |
//! | `Worker::bring_back` | `Worklist::undefer`, `Relaxation::mark` |
//! | `Worker::tell` | `Worklist::tell`, with its fence |
//! | `is_over` | `Gang::lead`, `done` and `made` |
//!
//! One item, whose entries are counted only; its deferred bit is a word of its own, as
//! in `worklist_queue.rs`.

#![allow(clippy::unwrap_used)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering, fence};
use loom::thread;
use millstream_models::{fails_with, holds, is_seeded};

#[derive(Clone, Copy)]
enum Fault {
    BitBesideValue,
    DeferringClearsBit,
    CountWithoutFence,
    TellWithoutFence,
}

fn seeded(fault: Fault) -> bool {
    is_seeded(fault as usize)
}

const QUEUED: u32 = 1;
const UNREACHED: u32 = 100 << 1;

struct Gang {
    word: AtomicU32,
    entries: AtomicU32,
    deferred: AtomicU32,
    produced: AtomicU32,
    consumed: AtomicU32,
    /// The smallest key that has been processed.
    processed: AtomicU32,
}

impl Gang {
    fn new() -> Arc<Gang> {
        Arc::new(Gang {
            word: AtomicU32::new(UNREACHED),
            entries: AtomicU32::new(0),
            deferred: AtomicU32::new(0),
            produced: AtomicU32::new(0),
            consumed: AtomicU32::new(0),
            processed: AtomicU32::new(100),
        })
    }
}

struct Worker {
    gang: Arc<Gang>,
    consumed: u32,
}

impl Worker {
    fn new(gang: &Arc<Gang>) -> Worker {
        Worker { gang: Arc::clone(gang), consumed: 0 }
    }

    fn count(&self) {
        self.gang.produced.fetch_add(1, Ordering::Relaxed);
        if !seeded(Fault::CountWithoutFence) {
            fence(Ordering::AcqRel);
        }
    }

    /// An arc that gives the item a key, ready or deferred.
    fn emit(&mut self, key: u32, is_ready: bool) {
        self.count();
        let before = if is_ready { self.lower_and_queue(key << 1) } else { self.lower(key << 1) };
        let is_new = key < before >> 1 && before & QUEUED == 0;
        match (is_new, is_ready) {
            (false, _) => self.consumed += 1,
            (true, true) => _ = self.gang.entries.fetch_add(1, Ordering::Relaxed),
            (true, false) => {
                let merges = self.gang.deferred.swap(1, Ordering::Release) == 1;
                self.consumed += u32::from(merges);
            }
        }
    }

    fn lower_and_queue(&self, value: u32) -> u32 {
        if seeded(Fault::BitBesideValue) {
            let before = self.gang.word.fetch_or(QUEUED, Ordering::Relaxed);
            self.gang.word.fetch_min(value | QUEUED, Ordering::Relaxed);
            return before;
        }
        self.gang.word.fetch_min(value | QUEUED, Ordering::Relaxed)
    }

    fn lower(&self, value: u32) -> u32 {
        let word = &self.gang.word;
        if seeded(Fault::DeferringClearsBit) {
            return word.fetch_min(value, Ordering::Relaxed);
        }
        let mut before = word.load(Ordering::Relaxed);
        while value >> 1 < before >> 1 {
            let lowered = value | before & QUEUED;
            match word.compare_exchange(before, lowered, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => before = now,
            }
        }
        before
    }

    /// Takes an entry, if there is one.
    fn take(&mut self) {
        let entries = &self.gang.entries;
        let left = |entries: u32| entries.checked_sub(1);
        if entries.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).is_err() {
            return;
        }
        let word = self.gang.word.fetch_and(!QUEUED, Ordering::Relaxed);
        assert_ne!(word & QUEUED, 0, "an entry whose bit is clear");
        self.process(word >> 1);
    }

    /// Makes what is deferred ready, and takes it.
    fn bring_back(&mut self) {
        if self.gang.deferred.swap(0, Ordering::Acquire) == 0 {
            return;
        }
        if self.gang.word.fetch_or(QUEUED, Ordering::Relaxed) & QUEUED != 0 {
            self.consumed += 1;
        } else {
            self.gang.entries.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn process(&mut self, key: u32) {
        self.gang.processed.fetch_min(key, Ordering::Relaxed);
        self.consumed += 1;
    }

    fn tell(&mut self) {
        if !seeded(Fault::TellWithoutFence) {
            fence(Ordering::AcqRel);
        }
        self.gang.consumed.fetch_add(self.consumed, Ordering::Release);
        self.consumed = 0;
    }
}

fn is_over(gang: &Gang) -> bool {
    let consumed = gang.consumed.load(Ordering::Acquire);
    consumed == gang.produced.load(Ordering::Acquire)
}

/// Two workers give the item keys, `first` ready and `second` as said, while a third
/// one takes.
fn keys(first: u32, second: u32, second_is_ready: bool) -> impl Fn() + Sync + Send + 'static {
    move || {
        let gang = Gang::new();
        let mut own = Worker::new(&gang);
        let emitters = [(first, true), (second, second_is_ready)].map(|(key, is_ready)| {
            let mut worker = Worker::new(&gang);
            thread::spawn(move || {
                worker.emit(key, is_ready);
                worker.tell();
            })
        });
        own.take();
        emitters.into_iter().for_each(|emitter| emitter.join().unwrap());
        own.take();
        own.bring_back();
        own.take();
        own.tell();
        let least = gang.processed.load(Ordering::Relaxed);
        assert_eq!(least, first.min(second), "a key is lost");
        assert!(is_over(&gang), "the end is never seen");
    }
}

#[test]
fn no_key_is_lost() {
    holds(keys(5, 3, true));
}

#[test]
fn a_deferred_key_is_not_lost() {
    holds(keys(5, 3, false));
}

#[test]
fn setting_the_bit_by_itself_is_caught() {
    fails_with(Fault::BitBesideValue as usize, keys(5, 3, true));
}

#[test]
fn deferring_that_clears_the_bit_is_caught() {
    fails_with(Fault::DeferringClearsBit as usize, keys(5, 3, false));
}

/// An emission, somebody who takes the item and tells, and the leader.
fn counts() {
    let gang = Gang::new();
    let mut emitter = Worker::new(&gang);
    let mut taker = Worker::new(&gang);
    let threads = [
        thread::spawn(move || emitter.emit(5, true)),
        thread::spawn(move || {
            taker.take();
            taker.tell();
        }),
    ];
    // All consumed before all produced.
    let consumed = gang.consumed.load(Ordering::Acquire);
    let produced = gang.produced.load(Ordering::Acquire);
    assert!(consumed <= produced, "consumed is seen before produced");
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn an_item_is_counted_before_it_is_consumed() {
    holds(counts);
}

#[test]
fn counting_without_a_fence_is_caught() {
    fails_with(Fault::CountWithoutFence as usize, counts);
}

#[test]
fn telling_without_a_fence_is_caught() {
    fails_with(Fault::TellWithoutFence as usize, counts);
}
