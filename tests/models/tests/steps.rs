//! Lists of near vertices while shortest paths go in steps, as in
//! `crates/millstream-sssp/src/step_push.cuh`, under every interleaving: a block expands a
//! vertex while another lowers its key, and what is then told of it; a device tells while
//! another expands what was told before; two vertices are reviewed, one of which the
//! shortest way to the other leads through.
//!
//! | here | there |
//! |---|---|
//! | `Device::take` | `StepPush::take` |
//! | `Device::improve` | `StepPush::relax`, `StepDevice::set_mark` |
//! | `Device::tell`, `Told::place` | `StepPush::tell`, `StepPush::told_place` |
//! | `review` | `StepPull::review` |
//!
//! A block is one thread, a device has one vertex, and joining the threads is the
//! barrier, which has a model of its own.

#![allow(clippy::unwrap_used)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use millstream_models::{fails_with, holds, is_seeded};

#[derive(Clone, Copy)]
enum Fault {
    OneSetOfMarks,
    NoMarks,
    ToldWhenListed,
    OnePlace,
    ReviewedOnce,
}

fn seeded(fault: Fault) -> bool {
    is_seeded(fault as usize)
}

const NOTHING: u64 = 99;

/// The list that is filled is 1, the one that is read 0.
struct Device {
    key: AtomicU64,
    marks: [AtomicU64; 2],
    /// Places taken in the list that is filled, and what is told of the vertex there.
    listed: AtomicU64,
    told: AtomicU64,
}

impl Device {
    /// Its vertex is in the list that is read, with a mark, and this key.
    fn listed_at(key: u64) -> Device {
        Device {
            key: AtomicU64::new(key),
            marks: [AtomicU64::new(1), AtomicU64::new(0)],
            listed: AtomicU64::new(0),
            told: AtomicU64::new(NOTHING),
        }
    }

    fn filled(&self) -> &AtomicU64 {
        &self.marks[if seeded(Fault::OneSetOfMarks) { 0 } else { 1 }]
    }

    /// The key that the vertex is expanded with.
    fn take(&self) -> u64 {
        self.marks[0].store(0, Ordering::Relaxed);
        self.key.load(Ordering::Relaxed)
    }

    fn improve(&self, key: u64) {
        if self.key.load(Ordering::Relaxed) <= key {
            return;
        }
        // Whether this one has lowered it does not matter: somebody has since the look.
        self.key.fetch_min(key, Ordering::Relaxed);
        if seeded(Fault::NoMarks) || self.filled().fetch_or(1, Ordering::Relaxed) == 0 {
            self.listed.fetch_add(1, Ordering::Relaxed);
            if seeded(Fault::ToldWhenListed) {
                self.told.store(key, Ordering::Relaxed);
            }
        }
    }

    /// After the barrier.
    fn tell(&self) {
        if !seeded(Fault::ToldWhenListed) {
            self.told.store(self.key.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

/// One block expands the vertex, two others lower its key.
fn expanded_while_lowered() {
    let device = Arc::new(Device::listed_at(7));
    let others = [5, 3].map(|key| {
        let device = Arc::clone(&device);
        thread::spawn(move || device.improve(key))
    });
    let expanded = device.take();
    others.into_iter().for_each(|other| other.join().unwrap());
    let listed = device.listed.load(Ordering::Relaxed);
    assert!(expanded == 3 || listed > 0, "news are lost");
    assert!(listed <= 1, "a vertex is listed twice");
    if listed == 1 {
        device.tell();
        assert_eq!(device.told.load(Ordering::Relaxed), 3, "what was told is not the value");
    }
}

/// What a device was told, in turns.
#[derive(Default)]
struct Told([UnsafeCell<u64>; 2]);

// SAFETY: loom checks each access to a cell.
unsafe impl Sync for Told {}
// SAFETY: as above.
unsafe impl Send for Told {}

impl Told {
    fn place(&self, round: usize) -> &UnsafeCell<u64> {
        &self.0[if seeded(Fault::OnePlace) { 0 } else { round % 2 }]
    }
}

/// One device expands what it was told in a round; another has done so and tells it more.
fn told_while_expanding() {
    let told = Arc::new(Told::default());
    let teller = {
        let told = Arc::clone(&told);
        // SAFETY: the other place is read meanwhile; loom checks.
        thread::spawn(move || told.place(1).with_mut(|cell| unsafe { *cell = 5 }))
    };
    // SAFETY: the other place is written meanwhile; loom checks.
    assert_eq!(told.place(0).with(|cell| unsafe { *cell }), 0, "what was told is overwritten");
    teller.join().unwrap();
    // SAFETY: after the barrier.
    assert_eq!(told.place(1).with(|cell| unsafe { *cell }), 5);
}

/// Lowers the key of a vertex by what it sees of its neighbour's; whether it is listed.
fn review(key: &AtomicU64, neighbour: &AtomicU64, weight: u64) -> bool {
    let through = neighbour.load(Ordering::Relaxed) + weight;
    let is_nearer = through < key.load(Ordering::Relaxed);
    if is_nearer {
        key.store(through, Ordering::Relaxed);
    }
    is_nearer
}

/// From a vertex of key 4 an arc of 1 leads to the second, from there one to the third.
/// Both are reviewed, by devices of their own, until nothing is listed.
fn reviewed_in_a_chain() {
    let keys = Arc::new([4, 9, 20].map(AtomicU64::new));
    loop {
        let other = {
            let keys = Arc::clone(&keys);
            thread::spawn(move || review(&keys[2], &keys[1], 1))
        };
        let here = review(&keys[1], &keys[0], 1);
        let there = other.join().unwrap();
        if seeded(Fault::ReviewedOnce) || !(here || there) {
            break;
        }
    }
    assert_eq!(keys[2].load(Ordering::Relaxed), 6, "a shorter way is missed");
}

#[test]
fn telling_does_not_disturb_expanding() {
    holds(told_while_expanding);
}

#[test]
fn one_place_for_what_is_told_is_caught() {
    fails_with(Fault::OnePlace as usize, told_while_expanding);
}

#[test]
fn reviews_miss_nothing() {
    holds(reviewed_in_a_chain);
}

#[test]
fn reviewing_once_is_caught() {
    fails_with(Fault::ReviewedOnce as usize, reviewed_in_a_chain);
}

#[test]
fn no_news_is_lost_and_none_comes_twice() {
    holds(expanded_while_lowered);
}

#[test]
fn one_set_of_marks_is_caught() {
    fails_with(Fault::OneSetOfMarks as usize, expanded_while_lowered);
}

#[test]
fn lists_without_marks_are_caught() {
    fails_with(Fault::NoMarks as usize, expanded_while_lowered);
}

#[test]
fn telling_before_the_barrier_is_caught() {
    fails_with(Fault::ToldWhenListed as usize, expanded_while_lowered);
}
