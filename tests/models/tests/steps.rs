//! Lists of near vertices while shortest paths go in steps, as in
//! `crates/millstream-sssp/src/step_push.cuh`, under every interleaving: a block expands a
//! vertex while another lowers its key, and what is then told of it.
//!
//! | here | there |
//! |---|---|
//! | `Device::take` | `StepPush::take` |
//! | `Device::improve` | `StepPush::improve`, `StepDevice::set_mark` |
//! | `Device::tell` | `StepPush::tell` |
//!
//! A block is one thread, a device has one vertex, and joining the threads is the
//! barrier, which has a model of its own.

#![allow(clippy::unwrap_used)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use millstream_models::{fails_with, holds, is_seeded};

#[derive(Clone, Copy)]
enum Fault {
    OneSetOfMarks,
    NoMarks,
    ToldWhenListed,
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
        if self.key.fetch_min(key, Ordering::Relaxed) <= key {
            return;
        }
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
