//! The queue of one block of the fused worker, step by step as in
//! `kernels/src/local_queue.cuh`, under every interleaving.
//!
//! | here | there |
//! |---|---|
//! | `reserve` | `LocalQueue::put`, the loop of the leader around `atomicCAS(&tail ...)` |
//! | `put` | `LocalQueue::put`, one turn of the loop around `atomicCAS(place ...)` |
//! | `draw` | `LocalQueue::take`, the loop of the first lane around `atomicCAS(&head ...)` |
//! | `take` | `LocalQueue::take`, one turn of the loop around `atomicExch(place ...)` |
//!
//! There a place is used again after 64 items; here after 2, so that those a lap apart
//! meet. What is read and written without an order there is relaxed here.

#![allow(clippy::unwrap_used)]

use std::ops::Range;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use millstream_models::{fails_with, holds, is_seeded};

#[derive(Clone, Copy)]
enum Fault {
    OverwritePlaces,
    LookThenPut,
    LookThenEmpty,
    HeadStored,
}

fn seeded(fault: Fault) -> bool {
    is_seeded(fault as usize)
}

const PLACES: u32 = 2;
/// Items at most, and those that are taken at once.
const MOST: u32 = 2;
const ITEMS: u32 = 3;

struct LocalQueue {
    head: AtomicU32,
    tail: AtomicU32,
    places: [AtomicU32; PLACES as usize],
    taken: [AtomicU32; ITEMS as usize],
}

/// An item whose place is not written yet.
struct Reserved {
    item: u32,
    position: u32,
}

/// What threads have left to do.
#[derive(Default)]
struct Left {
    /// Items for which there was no room: they go to the open queue.
    refused: u32,
    reserved: Vec<Reserved>,
    positions: Vec<u32>,
}

impl LocalQueue {
    /// Empty, `first` being the next position.
    fn new(first: u32) -> Arc<LocalQueue> {
        Arc::new(LocalQueue {
            head: AtomicU32::new(first),
            tail: AtomicU32::new(first),
            places: [0; PLACES as usize].map(AtomicU32::new),
            taken: [0; ITEMS as usize].map(AtomicU32::new),
        })
    }

    fn place(&self, position: u32) -> &AtomicU32 {
        &self.places[(position % PLACES) as usize]
    }

    /// A place for an item, if there is room.
    fn reserve(&self, item: u32) -> Option<Reserved> {
        loop {
            let position = self.tail.load(Ordering::Relaxed);
            let head = self.head.load(Ordering::Relaxed);
            if position.wrapping_add(1).wrapping_sub(head) > MOST {
                return None;
            }
            if exchange(&self.tail, position, position.wrapping_add(1)) {
                return Some(Reserved { item, position });
            }
        }
    }

    /// Puts an item into its place, unless that is full.
    fn put(&self, &Reserved { item, position }: &Reserved) -> bool {
        let place = self.place(position);
        if seeded(Fault::OverwritePlaces) || seeded(Fault::LookThenPut) {
            let puts = seeded(Fault::OverwritePlaces) || place.load(Ordering::Relaxed) == 0;
            if puts {
                place.store(item + 1, Ordering::Relaxed);
            }
            return puts;
        }
        exchange(place, 0, item + 1)
    }

    /// Positions to take from, as many as have been reserved.
    fn draw(&self) -> Vec<u32> {
        loop {
            let position = self.head.load(Ordering::Relaxed);
            let there = self.tail.load(Ordering::Relaxed).wrapping_sub(position);
            if there == 0 || there > MOST {
                return Vec::new();
            }
            let next = position.wrapping_add(there);
            let draws = if seeded(Fault::HeadStored) {
                self.head.store(next, Ordering::Relaxed);
                true
            } else {
                exchange(&self.head, position, next)
            };
            if draws {
                return (0..there).map(|at| position.wrapping_add(at)).collect();
            }
        }
    }

    /// Takes the item at a position, if it has come.
    fn take(&self, position: u32) -> bool {
        let place = self.place(position);
        let item = if seeded(Fault::LookThenEmpty) {
            let item = place.load(Ordering::Relaxed);
            if item != 0 {
                place.store(0, Ordering::Relaxed);
            }
            item
        } else {
            place.swap(0, Ordering::Relaxed)
        };
        if item != 0 {
            self.taken[item as usize - 1].fetch_add(1, Ordering::Relaxed);
        }
        item != 0
    }

    /// Reserves places for items, and puts them there.
    fn produce(&self, items: Range<u32>) -> Left {
        let mut left = Left::default();
        for item in items {
            match self.reserve(item) {
                None => left.refused += 1,
                Some(reserved) if self.put(&reserved) => {}
                Some(reserved) => left.reserved.push(reserved),
            }
        }
        left
    }

    /// Draws positions, and looks at each once.
    fn consume(&self) -> Left {
        let mut positions = self.draw();
        positions.retain(|&position| !self.take(position));
        Left { positions, ..Left::default() }
    }

    /// Goes on alone with what all have left, as long as it leads anywhere.
    fn finish(&self, all: impl IntoIterator<Item = Left>) {
        let mut left = Left::default();
        for its in all {
            left.refused += its.refused;
            left.reserved.extend(its.reserved);
            left.positions.extend(its.positions);
        }
        for _ in 0..=ITEMS {
            left.positions.extend(self.draw());
            left.positions.retain(|&position| !self.take(position));
            left.reserved.retain(|reserved| !self.put(reserved));
        }
        assert!(left.reserved.is_empty() && left.positions.is_empty(), "somebody waits for ever");
        let taken = self.taken.iter().map(|taken| taken.load(Ordering::Relaxed));
        let taken: Vec<_> = taken.inspect(|&times| assert!(times < 2, "taken twice")).collect();
        assert_eq!(taken.iter().sum::<u32>() + left.refused, ITEMS, "an item is lost");
    }
}

fn exchange(word: &AtomicU32, from: u32, to: u32) -> bool {
    word.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

/// Two producers, of which one may be a lap ahead of the other, and a consumer.
/// Nobody waits, so that loom sees an end of every interleaving.
fn two_producers(first: u32) -> impl Fn() + Sync + Send + 'static {
    move || {
        let queue = LocalQueue::new(first);
        let other = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || queue.produce(0..1))
        };
        let consumer = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || queue.consume())
        };
        let own = queue.produce(1..ITEMS);
        queue.finish([own, other.join().unwrap(), consumer.join().unwrap()]);
    }
}

/// One producer that comes around, and two consumers, of which one may be a lap ahead
/// of the other.
fn two_consumers() {
    let queue = LocalQueue::new(0);
    let consumers = [0, 1].map(|_| {
        let queue = Arc::clone(&queue);
        thread::spawn(move || queue.consume())
    });
    let own = queue.produce(0..ITEMS);
    let [one, other] = consumers.map(|thread| thread.join().unwrap());
    queue.finish([own, one, other]);
}

/// A lap behind another one stand both who puts and who takes.
fn a_lap_apart() {
    let queue = LocalQueue::new(0);
    // Reserved, drawn and not written yet.
    let late = queue.reserve(0).unwrap();
    let mut positions = queue.draw();
    // The next place is put and taken meanwhile.
    let passed = queue.produce(1..2);
    let position = queue.draw()[0];
    assert!(queue.take(position));
    let put = {
        let queue = Arc::clone(&queue);
        thread::spawn(move || queue.produce(2..ITEMS))
    };
    let takes = {
        let queue = Arc::clone(&queue);
        thread::spawn(move || queue.consume())
    };
    let mut own = Left::default();
    if !queue.put(&late) {
        own.reserved.push(late);
    }
    positions.retain(|&position| !queue.take(position));
    own.positions = positions;
    queue.finish([own, passed, put.join().unwrap(), takes.join().unwrap()]);
}

#[test]
fn every_item_is_taken_once() {
    holds(two_producers(0));
}

#[test]
fn positions_wrap_around() {
    holds(two_producers(u32::MAX));
}

#[test]
fn two_consumers_never_share_a_position() {
    holds(two_consumers);
}

#[test]
fn who_is_a_lap_behind_loses_nothing() {
    holds(a_lap_apart);
}

#[test]
fn putting_without_waiting_for_0_is_caught() {
    fails_with(Fault::OverwritePlaces as usize, two_producers(0));
}

#[test]
fn looking_for_0_and_then_putting_is_caught() {
    fails_with(Fault::LookThenPut as usize, a_lap_apart);
}

#[test]
fn looking_for_an_item_and_then_emptying_is_caught() {
    fails_with(Fault::LookThenEmpty as usize, a_lap_apart);
}

#[test]
fn a_head_that_is_not_exchanged_is_caught() {
    fails_with(Fault::HeadStored as usize, two_consumers);
}
