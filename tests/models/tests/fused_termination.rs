//! Counting in advance, telling late, and the end of the fused worker, step by step
//! as in `kernels/src/split.cuh`, `worklist.cuh` and `fused.cuh`, under every interleaving.
//!
//! | here | there |
//! |---|---|
//! | `Worker::produce` | `Split::produce` with `count_now` |
//! | `Worker::process`: own count | `Worklist::process` |
//! | `Worker::visit`: arcs, emissions | `Worklist::visit_all`, `visit`, `Emissions::add` |
//! | `Worker::send_emissions` | `Worklist::send_emissions`, with `Split::keep` or `pass`, `Queue::mark` |
//! | `Worker::share` | `Worklist::share`, `Pieces::put` |
//! | `Worker::take` | `Queue::claim`; for a piece `Pieces::take` |
//! | `Worker::tell` | `Split::tell`, when `Gang::work` has found nothing for some turns |
//! | `is_over` | `Gang::lead`, `done` and `made` |
//!
//! A warp is one thread, and an item or a piece is in its queue when a word says so.
//! Each has counters of its own, also where both are of one device: so the leader may
//! come between them.

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
    EmissionsNotCounted,
    PieceNotCounted,
    TellWithoutRelease,
}

fn seeded(fault: Fault) -> bool {
    is_seeded(fault as usize)
}

/// What is counted in advance at least.
const CREDIT: u64 = 4;
const ITEMS: usize = 3;
/// An arc that emits nothing.
const NOTHING: Option<usize> = None;

#[derive(Default)]
struct Device {
    produced: AtomicU64,
    consumed: AtomicU64,
}

#[derive(Default)]
struct Gang {
    devices: [Device; 2],
    ready: [AtomicUsize; ITEMS],
    piece: AtomicUsize,
    processed: AtomicUsize,
}

struct Worker {
    gang: Arc<Gang>,
    device: usize,
    credit: u64,
    consumed: u64,
    unsent: Vec<usize>,
}

impl Worker {
    fn produce(&mut self, most: u64) {
        if self.credit < most {
            let more = most.max(CREDIT);
            // Relaxed: whatever shows what is produced is the release.
            self.gang.devices[self.device].produced.fetch_add(more, Ordering::Relaxed);
            self.credit += more;
        }
        self.credit -= most;
    }

    /// An item and the items at the end of its arcs.
    fn process(&mut self, arcs: &[Option<usize>]) {
        self.gang.processed.fetch_add(1, Ordering::Relaxed);
        self.consumed += 1;
        if !seeded(Fault::CountAfterPush) && !arcs.is_empty() {
            self.produce(arcs.len() as u64);
        }
        self.visit(arcs);
        if seeded(Fault::CountAfterPush) && !arcs.is_empty() {
            self.produce(arcs.len() as u64);
        }
    }

    /// Arcs that have been counted.
    fn visit(&mut self, arcs: &[Option<usize>]) {
        for &arc in arcs {
            match arc {
                Some(item) => self.unsent.push(item),
                None => self.consumed += 1,
            }
        }
        if seeded(Fault::EmissionsNotCounted) {
            // The arcs are consumed, and emissions counted when they are sent.
            self.consumed += self.unsent.len() as u64;
            self.tell();
            self.produce(self.unsent.len() as u64);
        }
        self.send_emissions();
    }

    fn send_emissions(&mut self) {
        for item in self.unsent.drain(..) {
            self.gang.ready[item].store(1, Ordering::Release);
        }
    }

    /// Makes a piece of arcs that somebody else visits.
    fn share(&mut self, arcs: &[Option<usize>]) {
        if !seeded(Fault::PieceNotCounted) {
            self.produce(arcs.len() as u64);
        }
        self.gang.piece.store(1, Ordering::Release);
    }

    fn tell(&mut self) {
        let back = if seeded(Fault::CreditKept) { 0 } else { self.credit };
        let told = self.consumed + back;
        (self.consumed, self.credit) = (0, 0);
        let order = match seeded(Fault::TellWithoutRelease) {
            true => Ordering::Relaxed,
            false => Ordering::Release,
        };
        self.gang.devices[self.device].consumed.fetch_add(told, order);
    }

    /// Waits for an item or a piece, and takes it.
    fn take(&self, word: impl Fn(&Gang) -> &AtomicUsize) {
        while word(&self.gang).load(Ordering::Acquire) == 0 {
            thread::yield_now();
        }
    }
}

/// Item 0 makes item 1 for the other device and item 2 for this one.
fn two_devices(worker: &mut Worker) {
    if worker.device == 0 {
        worker.process(&[Some(1), NOTHING, Some(2)]);
        worker.take(|gang| &gang.ready[2]);
    } else {
        worker.take(|gang| &gang.ready[1]);
    }
    worker.process(&[]);
    worker.tell();
}

/// Item 0 has so many arcs that its worker makes a piece of them; at their ends are
/// item 1, which the other worker sends to it, and item 2.
fn a_piece(worker: &mut Worker) {
    let arcs = [Some(1), NOTHING, Some(2)];
    if worker.device == 0 {
        worker.share(&arcs);
        worker.process(&[]);
        worker.tell();
        worker.take(|gang| &gang.ready[1]);
    } else {
        worker.take(|gang| &gang.piece);
        if seeded(Fault::PieceNotCounted) {
            worker.produce(arcs.len() as u64);
        }
        worker.visit(&arcs);
        worker.take(|gang| &gang.ready[2]);
    }
    worker.process(&[]);
    worker.tell();
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

/// Two workers and a leader that looks once.
fn workers_and_a_leader(work: fn(&mut Worker)) -> impl Fn() + Sync + Send + 'static {
    move || {
        let gang = Arc::new(Gang::default());
        // The host queues item 0.
        gang.devices[0].produced.store(1, Ordering::Relaxed);
        let workers = [0, 1].map(|device| {
            let gang = Arc::clone(&gang);
            let mut worker = Worker { gang, device, credit: 0, consumed: 0, unsent: Vec::new() };
            thread::spawn(move || work(&mut worker))
        });
        if is_over(&gang) {
            assert_eq!(gang.processed.load(Ordering::Relaxed), ITEMS, "the end came too early");
        }
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        assert!(is_over(&gang), "the end is never seen");
    }
}

#[test]
fn the_end_is_neither_early_nor_missed() {
    holds(workers_and_a_leader(two_devices));
}

#[test]
fn arcs_of_a_piece_are_counted_until_they_are_visited() {
    holds(workers_and_a_leader(a_piece));
}

#[test]
fn counting_after_the_push_is_caught() {
    fails_with(Fault::CountAfterPush as usize, workers_and_a_leader(two_devices));
}

#[test]
fn reading_produced_first_is_caught() {
    fails_with(Fault::ProducedReadFirst as usize, workers_and_a_leader(two_devices));
}

#[test]
fn credit_that_does_not_go_back_is_caught() {
    fails_with(Fault::CreditKept as usize, workers_and_a_leader(two_devices));
}

#[test]
fn emissions_that_are_not_counted_are_caught() {
    fails_with(Fault::EmissionsNotCounted as usize, workers_and_a_leader(two_devices));
}

#[test]
fn a_piece_that_is_not_counted_is_caught() {
    fails_with(Fault::PieceNotCounted as usize, workers_and_a_leader(a_piece));
}

#[test]
fn telling_without_release_is_caught() {
    fails_with(Fault::TellWithoutRelease as usize, workers_and_a_leader(two_devices));
}
