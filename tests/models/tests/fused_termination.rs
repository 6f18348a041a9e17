//! Counting in advance, telling late, and the end of the fused worker, step by step
//! as in `kernels/src/worklist.cuh` and `fused.cuh`, under every interleaving.
//!
//! | here | there |
//! |---|---|
//! | `Worker::produce` | `Worklist::produce` with `count_now` |
//! | `Worker::process`: arcs, pushes, own count | `Worklist::visit_arcs`, `visit`, `OpenQueue::push`, `Worklist::process` |
//! | `Worker::tell` | `Worklist::tell` |
//! | `Worker::work`: process, else tell | `Gang::work` |
//! | `is_over` | `Gang::lead`, `done` and `made` |
//!
//! A warp is one thread, and an item is in its queue when a word says so.

#![allow(clippy::unwrap_used)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use loom::thread;
use millstream_models::{fails_with, holds, is_seeded};

#[derive(Clone, Copy)]
enum Fault {
    CountAfterPush,
    ProducedReadFirst,
    CreditKept,
}

fn seeded(fault: Fault) -> bool {
    is_seeded(fault as usize)
}

/// What is counted in advance at least.
const CREDIT: u64 = 3;
const ITEMS: usize = 3;

#[derive(Default)]
struct Device {
    produced: AtomicU64,
    consumed: AtomicU64,
}

#[derive(Default)]
struct Gang {
    devices: [Device; 2],
    ready: [AtomicUsize; ITEMS],
    processed: AtomicUsize,
}

struct Worker {
    gang: Arc<Gang>,
    device: usize,
    credit: u64,
    consumed: u64,
}

impl Worker {
    fn produce(&mut self, most: u64) {
        if self.credit < most {
            let more = most.max(CREDIT);
            // Relaxed: the push is the release.
            self.gang.devices[self.device].produced.fetch_add(more, Ordering::Relaxed);
            self.credit += more;
        }
        self.credit -= most;
    }

    /// An item and the items at the end of its arcs.
    fn process(&mut self, children: &[usize]) {
        self.gang.processed.fetch_add(1, Ordering::Relaxed);
        let late = seeded(Fault::CountAfterPush);
        if !late && !children.is_empty() {
            self.produce(children.len() as u64);
        }
        for &child in children {
            self.gang.ready[child].store(1, Ordering::Release);
            if late {
                self.produce(1);
            }
        }
        self.consumed += 1;
    }

    fn tell(&mut self) {
        let back = if seeded(Fault::CreditKept) { 0 } else { self.credit };
        let told = self.consumed + back;
        (self.consumed, self.credit) = (0, 0);
        self.gang.devices[self.device].consumed.fetch_add(told, Ordering::Release);
    }

    /// Waits for an item, and takes it.
    fn take(&self, item: usize) {
        while self.gang.ready[item].load(Ordering::Acquire) == 0 {
            thread::yield_now();
        }
    }

    /// Item 0 makes item 1 for the other device and item 2 for this one.
    fn first(&mut self) {
        self.process(&[1, 2]);
        self.take(2);
        self.process(&[]);
        self.tell();
    }

    fn second(&mut self) {
        self.take(1);
        self.process(&[]);
        self.tell();
    }
}

fn is_over(gang: &Gang) -> bool {
    // The devices one after the other, as the lanes of the leader may come.
    let done = || gang.devices.iter().map(|its| its.consumed.load(Ordering::Acquire)).sum::<u64>();
    let made = || gang.devices.iter().map(|its| its.produced.load(Ordering::Acquire)).sum::<u64>();
    if seeded(Fault::ProducedReadFirst) {
        let made = made();
        return done() == made;
    }
    let done = done();
    done == made()
}

fn two_workers_and_a_leader() {
    let gang = Arc::new(Gang::default());
    // The host queues item 0.
    gang.devices[0].produced.store(1, Ordering::Relaxed);
    let workers = [Worker::first, Worker::second].into_iter().enumerate();
    let workers: Vec<_> = workers
        .map(|(device, work)| {
            let gang = Arc::clone(&gang);
            thread::spawn(move || work(&mut Worker { gang, device, credit: 0, consumed: 0 }))
        })
        .collect();
    if is_over(&gang) {
        assert_eq!(gang.processed.load(Ordering::Relaxed), ITEMS, "the end came too early");
    }
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    assert!(is_over(&gang), "the end is never seen");
}

#[test]
fn the_end_is_neither_early_nor_missed() {
    holds(two_workers_and_a_leader);
}

#[test]
fn counting_after_the_push_is_caught() {
    fails_with(Fault::CountAfterPush as usize, two_workers_and_a_leader);
}

#[test]
fn reading_produced_first_is_caught() {
    fails_with(Fault::ProducedReadFirst as usize, two_workers_and_a_leader);
}

#[test]
fn credit_that_does_not_go_back_is_caught() {
    fails_with(Fault::CreditKept as usize, two_workers_and_a_leader);
}
