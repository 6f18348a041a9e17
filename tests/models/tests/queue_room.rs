//! Room in a GPU's queue, step by step as in `Queue::reserve` of `kernels/src/queue.cuh`, under every
//! interleaving: threads that add without an exchange while there is room for all of them, then only as
//! far as there is.
//!
//! | here | there |
//! |---|---|
//! | `Queue::reserve` | `Queue::reserve` |
//! | `Queue::finish` | `Snapshot::finish`, which moves the head |

#![allow(clippy::unwrap_used)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use millstream_models::{fails_with, holds, is_seeded};

#[derive(Clone, Copy)]
enum Fault {
    /// Who adds by an exchange fills the room that is left to those who add without.
    FillToTheBrim,
    /// Who adds without an exchange leaves room for nobody else.
    LeaveNoRoom,
}

fn seeded(fault: Fault) -> bool {
    is_seeded(fault as usize)
}

const CAPACITY: u32 = 4;

/// A lane that adds one entry at a time each.
const MOST_THREADS: u32 = 2;

#[derive(Default)]
struct Queue {
    head: AtomicU32,
    tail: AtomicU32,
    overflowed: AtomicU32,
}

impl Queue {
    /// An entry's position; none if it was counted as an overflow.
    fn reserve(&self) -> Option<u32> {
        let left = if seeded(Fault::LeaveNoRoom) { 0 } else { MOST_THREADS };
        let quick = CAPACITY - left;
        let limit = if seeded(Fault::FillToTheBrim) { CAPACITY } else { quick };
        let mut from = self.tail.load(Ordering::Relaxed);
        if from.wrapping_sub(self.head.load(Ordering::Acquire)) < quick {
            return Some(self.tail.fetch_add(1, Ordering::Relaxed));
        }
        loop {
            let used = from.wrapping_sub(self.head.load(Ordering::Acquire));
            let (relaxed, has_room) = (Ordering::Relaxed, used < limit);
            let before = match has_room {
                false => self.tail.load(relaxed),
                true => self
                    .tail
                    .compare_exchange(from, from.wrapping_add(1), relaxed, relaxed)
                    .unwrap_or_else(|before| before),
            };
            if before != from {
                from = before;
                continue;
            }
            if has_room {
                return Some(from);
            }
            self.overflowed.fetch_add(1, Ordering::AcqRel);
            return None;
        }
    }

    fn finish(&self, head: u32) {
        self.head.store(head, Ordering::Release);
    }
}

/// Adds so many; how many are not in the ring.
fn add(queue: &Queue, count: u32) -> u32 {
    let mut overflows = 0;
    for _ in 0..count {
        match queue.reserve() {
            None => overflows += 1,
            // The head is behind what it was when the entry was reserved, or where it was.
            Some(position) => {
                let head = queue.head.load(Ordering::Relaxed);
                assert!((position.wrapping_sub(head) as i32) < CAPACITY as i32, "it is overfilled");
            }
        }
    }
    overflows
}

fn two_producers() {
    let queue = Arc::new(Queue::default());
    let other = {
        let queue = Arc::clone(&queue);
        thread::spawn(move || add(&queue, 1))
    };
    let overflows = add(&queue, 4) + other.join().unwrap();
    assert_eq!(queue.overflowed.load(Ordering::Relaxed), overflows);
    assert_eq!(queue.tail.load(Ordering::Relaxed) + overflows, 5, "an entry was lost");
}

/// The consumer takes what was there, and moves the head past it, once.
fn a_consumer_beside_them() {
    let queue = Arc::new(Queue::default());
    add(&queue, 2);
    let other = {
        let queue = Arc::clone(&queue);
        thread::spawn(move || add(&queue, 2))
    };
    queue.finish(2);
    let overflows = add(&queue, 1) + other.join().unwrap();
    let tail = queue.tail.load(Ordering::Relaxed);
    assert!(tail.wrapping_sub(queue.head.load(Ordering::Relaxed)) <= CAPACITY);
    assert_eq!(tail + overflows, 5);
}

#[test]
fn it_is_never_overfilled() {
    holds(two_producers);
    holds(a_consumer_beside_them);
}

#[test]
fn filling_what_is_left_to_others_is_caught() {
    fails_with(Fault::FillToTheBrim as usize, two_producers);
}

#[test]
fn leaving_no_room_is_caught() {
    fails_with(Fault::LeaveNoRoom as usize, two_producers);
}
