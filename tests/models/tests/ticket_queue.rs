//! The open queue of the fused worker, step by step as in
//! `kernels/src/open_queue.cuh`, under every interleaving.
//!
//! | here | there |
//! |---|---|
//! | `push`: bit | `Queue::mark`, `fetch_or_release_gpu(bits ...)` |
//! | `push`: position | `OpenQueue::put_in_turn`, `fetch_add_relaxed_gpu(... tail ...)` |
//! | `write` | `put_in_turn`, one turn of the loop, and the store after it |
//! | `push_or_overflow` | `OpenQueue::put_or_overflow` |
//! | `must_sweep`, `sweep` | `OpenQueue::must_sweep`, `Sweep::next` |
//! | `draw`, `reserve`, `lap`, `look` | `OpenQueue::draw`, `reserve`, `lap`, `look` |
//! | `take`: look, empty | `Gang::work`: `ready.look`, `ready.empty`; `Gang::take` in `Gang::send` |
//! | `take`: claim | `Queue::claim`, `fetch_and_acquire_gpu`; in `Worklist::process`, `Gang::send` |
//!
//! The ring is smaller than the items, so that producers come around while entries are
//! full: in turn they wait, as where there is room for all items; or their items
//! overflow and are swept. Workers draw tickets; the sending
//! blocks of an outbox reserve positions that producers have.

#![allow(clippy::unwrap_used)]

use std::ops::Range;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use millstream_models::{fails_with, holds, holds_within_two, is_seeded};

#[derive(Clone, Copy)]
enum Fault {
    OverwriteEntries,
    IgnoreLaps,
    BitWithoutRelease,
    HeadStored,
    TailIgnored,
    CountBeforeBit,
    SweptAfterwards,
}

fn seeded(fault: Fault) -> bool {
    is_seeded(fault as usize)
}

const CAPACITY: u32 = 2;
const ITEMS: u32 = 3;
/// Bits of an entry for an item plus one; the lap is above them.
const ITEM_BITS: u32 = 8;

struct OpenQueue {
    bits: AtomicU32,
    entries: [AtomicU32; CAPACITY as usize],
    head: AtomicU32,
    tail: AtomicU32,
    overflowed: AtomicU32,
    swept: AtomicU32,
    values: [AtomicU32; ITEMS as usize],
    processed: AtomicU32,
}

impl OpenQueue {
    /// Empty, `first` being the next position.
    fn new(first: u32) -> Arc<OpenQueue> {
        Arc::new(OpenQueue {
            bits: AtomicU32::new(0),
            // Empty for the positions from the first on.
            entries: std::array::from_fn(|place| {
                let behind = (place as u32).wrapping_sub(first) % CAPACITY;
                AtomicU32::new(OpenQueue::lap(first.wrapping_add(behind)))
            }),
            head: AtomicU32::new(first),
            tail: AtomicU32::new(first),
            overflowed: AtomicU32::new(0),
            swept: AtomicU32::new(0),
            values: [0; ITEMS as usize].map(AtomicU32::new),
            processed: AtomicU32::new(0),
        })
    }

    fn entry(&self, position: u32) -> &AtomicU32 {
        &self.entries[(position % CAPACITY) as usize]
    }

    fn lap(position: u32) -> u32 {
        (position / CAPACITY) << ITEM_BITS
    }

    /// Writes an item's value and sets its bit.
    fn mark(&self, item: u32) {
        self.values[item as usize].store(item + 1, Ordering::Relaxed);
        let order = match seeded(Fault::BitWithoutRelease) {
            true => Ordering::Relaxed,
            false => Ordering::Release,
        };
        assert_eq!(self.bits.fetch_or(1 << item, order) >> item & 1, 0);
    }

    /// Queues an item as far as its position, which is to be written there.
    fn push(&self, item: u32) -> Pushed {
        self.mark(item);
        Pushed { item, position: self.tail.fetch_add(1, Ordering::Relaxed) }
    }

    /// Queues an item at the next position if that is empty; else it overflows.
    fn push_or_overflow(&self, item: u32) {
        if seeded(Fault::CountBeforeBit) {
            self.overflowed.fetch_add(1, Ordering::AcqRel);
            return self.mark(item);
        }
        self.mark(item);
        let mut position = self.tail.load(Ordering::Relaxed);
        loop {
            let is_empty = self.entry(position).load(Ordering::Relaxed) == OpenQueue::lap(position);
            let now = match is_empty {
                false => self.tail.load(Ordering::Relaxed),
                true => {
                    let (order, next) = (Ordering::Relaxed, position.wrapping_add(1));
                    let before = self.tail.compare_exchange(position, next, order, order);
                    before.unwrap_or_else(|other| other)
                }
            };
            if now == position {
                if is_empty {
                    let entry = OpenQueue::lap(position) | (item + 1);
                    return self.entry(position).store(entry, Ordering::Relaxed);
                }
                break;
            }
            position = now;
        }
        self.overflowed.fetch_add(1, Ordering::AcqRel);
    }

    /// Processes what has overflowed, if nobody else does.
    fn sweep(&self) {
        let overflowed = self.overflowed.load(Ordering::Acquire);
        let swept = self.swept.load(Ordering::Relaxed);
        let (order, word) = (Ordering::Relaxed, &self.swept);
        if overflowed == swept {
            return;
        }
        if !seeded(Fault::SweptAfterwards)
            && word.compare_exchange(swept, overflowed, order, order).is_err()
        {
            return;
        }
        let bits = self.bits.load(Ordering::Relaxed);
        (0..ITEMS).filter(|item| bits >> item & 1 == 1).for_each(|item| self.process(item));
        if seeded(Fault::SweptAfterwards) {
            word.store(self.overflowed.load(Ordering::Acquire), order);
        }
    }

    /// Writes an entry, unless the place is full.
    fn write(&self, &Pushed { item, position }: &Pushed) -> bool {
        let (place, empty) = (self.entry(position), OpenQueue::lap(position));
        let entry = empty | (item + 1);
        // Nobody else writes what is empty for this lap.
        let is_empty = place.load(Ordering::Relaxed) == empty;
        if is_empty || seeded(Fault::OverwriteEntries) {
            place.store(entry, Ordering::Relaxed);
        }
        is_empty || seeded(Fault::OverwriteEntries)
    }

    fn draw(&self) -> u32 {
        self.head.fetch_add(1, Ordering::Relaxed)
    }

    /// Positions that producers have, at most two; none if another block was faster.
    fn reserve(&self) -> Range<u32> {
        let first = self.head.load(Ordering::Relaxed);
        let there = match seeded(Fault::TailIgnored) {
            true => 2,
            false => self.tail.load(Ordering::Relaxed).wrapping_sub(first) as i32,
        };
        let end = first + there.clamp(0, 2) as u32;
        if seeded(Fault::HeadStored) {
            self.head.store(end, Ordering::Relaxed);
            return first..end;
        }
        let (order, head) = (Ordering::Relaxed, &self.head);
        if there > 0 && head.compare_exchange(first, end, order, order).is_ok() {
            first..end
        } else {
            first..first
        }
    }

    /// The item that has come to a position, plus one; 0 as long as none has.
    fn look(&self, position: u32) -> u32 {
        let entry = self.entry(position).load(Ordering::Relaxed);
        if seeded(Fault::IgnoreLaps) {
            return entry & ((1 << ITEM_BITS) - 1);
        }
        let item = entry ^ OpenQueue::lap(position);
        if item < 1 << ITEM_BITS { item } else { 0 }
    }

    /// Takes and processes the item that has come to a position, if one has.
    fn take(&self, position: u32) -> bool {
        let entry = self.look(position);
        if entry == 0 {
            return false;
        }
        let next_lap = OpenQueue::lap(position.wrapping_add(CAPACITY));
        self.entry(position).store(next_lap, Ordering::Relaxed);
        self.process(entry - 1);
        true
    }

    /// Claims and processes an item, if it is still queued.
    fn process(&self, item: u32) {
        if self.bits.fetch_and(!(1 << item), Ordering::Acquire) >> item & 1 == 1 {
            assert_eq!(self.values[item as usize].load(Ordering::Relaxed), item + 1);
            self.processed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Pushes items; those that found no place in the end.
    fn produce(&self, items: Range<u32>) -> Vec<Pushed> {
        items.map(|item| self.push(item)).filter(|pushed| !self.write(pushed)).collect()
    }

    /// Draws tickets, and looks at each twice; those to whose position nothing has come.
    fn consume(&self, tickets: usize) -> Vec<u32> {
        let mut tickets: Vec<_> = (0..tickets).map(|_| self.draw()).collect();
        (0..2).for_each(|_| tickets.retain(|&position| !self.take(position)));
        tickets
    }

    /// Reserves positions, and looks at each twice; those to which nothing has come.
    fn send(&self) -> Vec<u32> {
        let mut positions: Vec<_> = self.reserve().collect();
        (0..2).for_each(|_| positions.retain(|&position| !self.take(position)));
        positions
    }

    /// Goes on alone with what was left, as long as it leads anywhere.
    fn finish(&self, mut pushed: Vec<Pushed>, mut positions: Vec<u32>) {
        for _ in 0..ITEMS {
            positions.retain(|&position| !self.take(position));
            pushed.retain(|pushed| !self.write(pushed));
        }
        positions.retain(|&position| !self.take(position));
        assert!(pushed.is_empty() && positions.is_empty(), "somebody waits for ever");
        assert_eq!(self.processed.load(Ordering::Relaxed), ITEMS, "an item is lost");
        assert_eq!(self.bits.load(Ordering::Relaxed), 0);
    }
}

/// An item whose entry is not written yet.
struct Pushed {
    item: u32,
    position: u32,
}

/// Three items, two entries: one consumer has two tickets and the other one, in
/// whatever order they draw. Nobody waits, so that loom sees an end of every
/// interleaving.
fn two_consumers(first: u32) -> impl Fn() + Sync + Send + 'static {
    move || {
        let queue = OpenQueue::new(first);
        let consumers = [2, 1].map(|tickets| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || queue.consume(tickets))
        });
        let pushed = queue.produce(0..ITEMS);
        let tickets = consumers.map(|thread| thread.join().unwrap()).concat();
        queue.finish(pushed, tickets);
    }
}

/// Two producers, of which one may be a lap ahead of the other.
fn two_producers() {
    let queue = OpenQueue::new(0);
    let other = {
        let queue = Arc::clone(&queue);
        thread::spawn(move || queue.produce(0..2))
    };
    let consumer = {
        let queue = Arc::clone(&queue);
        thread::spawn(move || queue.consume(ITEMS as usize))
    };
    let mut pushed = queue.produce(2..ITEMS);
    pushed.extend(other.join().unwrap());
    queue.finish(pushed, consumer.join().unwrap());
}

/// Two sending blocks of one outbox, and a worker that fills it.
fn two_senders() {
    let queue = OpenQueue::new(0);
    let senders = [0, 1].map(|_| {
        let queue = Arc::clone(&queue);
        thread::spawn(move || queue.send())
    });
    let pushed = queue.produce(0..ITEMS);
    let mut positions = senders.map(|thread| thread.join().unwrap()).concat();
    for _ in 0..2 {
        positions.extend(queue.reserve());
    }
    queue.finish(pushed, positions);
}

/// Items that overflow, because an entry was left behind, and two consumers that sweep.
fn overflowing() {
    let queue = OpenQueue::new(0);
    queue.entries[0].store(1, Ordering::Relaxed);
    queue.tail.store(1, Ordering::Relaxed);
    let consumers = [1, 0].map(|tickets| {
        let queue = Arc::clone(&queue);
        thread::spawn(move || {
            let left = queue.consume(tickets);
            queue.sweep();
            left
        })
    });
    (0..ITEMS).for_each(|item| queue.push_or_overflow(item));
    let mut tickets = consumers.map(|thread| thread.join().unwrap()).concat();
    while queue.head.load(Ordering::Relaxed) != queue.tail.load(Ordering::Relaxed) {
        tickets.push(queue.draw());
    }
    queue.sweep();
    // What was swept leaves its entry behind.
    queue.finish(vec![], tickets);
}

#[test]
fn what_overflows_is_swept() {
    holds(overflowing);
}

#[test]
fn counting_before_the_bit_is_caught() {
    fails_with(Fault::CountBeforeBit as usize, overflowing);
}

#[test]
fn a_sweep_that_forgets_what_came_meanwhile_is_caught() {
    fails_with(Fault::SweptAfterwards as usize, overflowing);
}

#[test]
fn every_item_is_taken_once() {
    holds(two_consumers(0));
}

#[test]
fn positions_wrap_around_with_their_laps() {
    holds(two_consumers((CAPACITY << (32 - ITEM_BITS)) - 1));
}

#[test]
fn producers_wait_for_entries() {
    holds(two_producers);
}

#[test]
fn writing_a_full_entry_is_caught() {
    fails_with(Fault::OverwriteEntries as usize, two_consumers(0));
}

#[test]
fn taking_the_entry_of_another_lap_is_caught() {
    fails_with(Fault::IgnoreLaps as usize, two_consumers(0));
}

#[test]
fn a_bit_without_release_is_caught() {
    fails_with(Fault::BitWithoutRelease as usize, two_consumers(0));
}

#[test]
fn sending_blocks_share_an_outbox() {
    holds_within_two(two_senders);
}

#[test]
fn a_head_that_is_stored_is_caught() {
    fails_with(Fault::HeadStored as usize, two_senders);
}

#[test]
fn reserving_what_no_producer_has_is_caught() {
    fails_with(Fault::TailIgnored as usize, two_senders);
}
