//! Blocks of a device that wait for a packet of the host, one of which looks for all, step by
//! step as in `kernels/src/full_empty.cuh`, under every interleaving.
//!
//! | here | there |
//! |---|---|
//! | `Packet::is_full_for_all` | `FullEmptySegment::is_full_for_all` |
//! | `Packet::fill` | `mark_full`, or the stream that writes the word after a copy |
//! | `Packet::mark_empty` | `mark_empty`, or the stream that does so (`SegmentCore::empty_words`), by whoever comes after all who waited |
//!
//! A block is one thread.

#![allow(clippy::unwrap_used)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use millstream_models::{fails_with, holds, is_seeded};

#[derive(Clone, Copy)]
enum Fault {
    FindWithoutOrder,
    LookWithoutOrder,
    KeepLooking,
    EmptyKeepsWhatWasFound,
}

fn seeded(fault: Fault) -> bool {
    is_seeded(fault as usize)
}

const EPOCH: u32 = 1;
/// Of a block that then leaves: loom does not wait for ever.
const LOOKS: usize = 2;

#[derive(Default)]
struct Packet {
    /// In the host's memory.
    word: AtomicU32,
    /// In the device's.
    found: AtomicU32,
    looking: AtomicU32,
    item: UnsafeCell<u32>,
}

// SAFETY: loom checks each access to the item.
unsafe impl Sync for Packet {}
// SAFETY: as above.
unsafe impl Send for Packet {}

impl Packet {
    fn fill(&self, value: u32) {
        // SAFETY: the packet is empty, and nobody reads it; loom checks that.
        self.item.with_mut(|item| unsafe { *item = value });
        self.word.store(EPOCH, Ordering::Release);
    }

    fn is_full_for_all(&self) -> bool {
        let acquire =
            if seeded(Fault::FindWithoutOrder) { Ordering::Relaxed } else { Ordering::Acquire };
        if self.found.load(acquire) == EPOCH {
            return true;
        }
        let before = self.looking.load(Ordering::Relaxed);
        let order = Ordering::Relaxed;
        if before == EPOCH || self.looking.compare_exchange(before, EPOCH, order, order).is_err() {
            return false;
        }
        let acquire =
            if seeded(Fault::LookWithoutOrder) { Ordering::Relaxed } else { Ordering::Acquire };
        let is_full = self.word.load(acquire) == EPOCH;
        if is_full {
            self.found.store(EPOCH, Ordering::Release);
        } else if !seeded(Fault::KeepLooking) {
            self.looking.store(before, Ordering::Relaxed);
        }
        is_full
    }

    /// Looks a few times, as long as the packet is not full; what it reads must be `value`.
    fn look(&self, value: u32) -> bool {
        let is_full = (0..LOOKS).any(|_| self.is_full_for_all());
        if is_full {
            // SAFETY: loom checks that the item was written before.
            assert_eq!(self.item.with(|item| unsafe { *item }), value);
        }
        is_full
    }

    fn mark_empty(&self) {
        if !seeded(Fault::EmptyKeepsWhatWasFound) {
            self.found.store(0, Ordering::Relaxed);
            self.looking.store(0, Ordering::Relaxed);
        }
        self.word.store(0, Ordering::Release);
    }
}

/// Two blocks look while the packet is filled; whoever looks later finds it full.
fn looked_at_by_two(packet: &Arc<Packet>, value: u32) {
    let block = || {
        let packet = Arc::clone(packet);
        thread::spawn(move || packet.look(value))
    };
    let blocks = [block(), block()];
    packet.fill(value);
    for block in blocks {
        block.join().unwrap();
    }
    assert!(packet.look(value));
}

fn filled() {
    looked_at_by_two(&Arc::new(Packet::default()), 3);
}

/// All who waited are done, and others wait for the next fill of the epoch.
fn filled_again() {
    let packet = Arc::new(Packet::default());
    packet.fill(3);
    assert!(packet.look(3));
    packet.mark_empty();
    looked_at_by_two(&packet, 4);
}

#[test]
fn what_one_block_finds_the_other_may_read() {
    holds(filled);
}

#[test]
fn a_packet_is_looked_for_anew_when_it_was_emptied() {
    holds(filled_again);
}

#[test]
fn finding_without_order_is_caught() {
    fails_with(Fault::FindWithoutOrder as usize, filled);
}

#[test]
fn looking_without_order_is_caught() {
    fails_with(Fault::LookWithoutOrder as usize, filled);
}

#[test]
fn a_block_that_leaves_and_is_looked_to_is_caught() {
    fails_with(Fault::KeepLooking as usize, filled);
}

#[test]
fn what_was_found_before_is_caught() {
    fails_with(Fault::EmptyKeepsWhatWasFound as usize, filled_again);
}
