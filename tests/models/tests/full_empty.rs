//! Filling, publishing by count, emptying, and epochs: the production core of
//! full/empty packets under every interleaving.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../../../crates/millstream-flow/src/full_empty/core.rs"]
mod core;
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};

    /// The faults of the production file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Fault {
        AnyEpochIsFull,
        ArrivalWithoutOrder,
        ArrivalsOfAnyEpoch,
        ForgetByStore,
        FirstArrivalFills,
        MarkFullWithoutRelease,
        MarkEmptyWithoutRelease,
    }

    pub(crate) fn seeded(fault: Fault) -> bool {
        millstream_models::is_seeded(fault as usize)
    }
}

use core::{PacketWords, next_epoch};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64};
use loom::thread;
use millstream_models::{fails_with, holds};
use sync::Fault;

/// A packet and its items, one for each writer, of which loom reports any unordered
/// accesses.
struct Packet {
    word: AtomicU32,
    arrivals: AtomicU64,
    items: Vec<UnsafeCell<u32>>,
}

// SAFETY: what the models are about: only writers before they arrive, and readers of a
// full packet, touch an item, and loom fails where two accesses are not ordered.
unsafe impl Sync for Packet {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Packet {}

impl Packet {
    fn new(writers: usize) -> Arc<Packet> {
        Arc::new(Packet {
            word: AtomicU32::new(0),
            arrivals: AtomicU64::new(0),
            items: (0..writers).map(|_| UnsafeCell::new(0)).collect(),
        })
    }

    fn words(&self, epoch: u32) -> PacketWords<'_> {
        let (word, arrivals) = (&self.word, &self.arrivals);
        PacketWords { word, arrivals, epoch, writers: self.items.len() as u32 }
    }

    /// What writer `writer` does in an epoch.
    fn write(&self, writer: usize, epoch: u32, value: u32) {
        // SAFETY: the item is the writer's until it arrives.
        self.items[writer].with_mut(|item| unsafe { *item = value });
        let words = self.words(epoch);
        if words.arrive() {
            // The last writer comes after all items.
            assert_eq!(self.sum(), value * self.items.len() as u32);
            words.mark_full();
        }
    }

    fn sum(&self) -> u32 {
        // SAFETY: all items are written.
        self.items.iter().map(|item| item.with(|item| unsafe { *item })).sum()
    }
}

/// Writers fill a packet while a reader looks, in one epoch and then in the next.
fn epochs(writers: usize, first: u32) -> impl Fn() + Sync + Send + 'static {
    move || {
        let packet = Packet::new(writers);
        let mut epoch = first;
        for value in [5, 7] {
            let threads: Vec<_> = (0..writers)
                .map(|writer| {
                    let packet = Arc::clone(&packet);
                    thread::spawn(move || packet.write(writer, epoch, value))
                })
                .collect();
            if packet.words(epoch).is_full() {
                assert_eq!(packet.sum(), value * writers as u32);
            }
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert!(packet.words(epoch).is_full());
            epoch = next_epoch(epoch);
            assert!(!packet.words(epoch).is_full() && packet.words(epoch).is_empty());
        }
    }
}

/// One of two writers comes in an epoch, both in the next.
fn deserted(first: u32) -> impl Fn() + Sync + Send + 'static {
    move || {
        let (packet, second) = (Packet::new(2), next_epoch(first));
        packet.write(0, first, 5);
        assert!(!packet.words(first).is_full());
        let other = {
            let packet = Arc::clone(&packet);
            thread::spawn(move || packet.write(1, second, 7))
        };
        packet.write(0, second, 7);
        other.join().unwrap();
        assert!(packet.words(second).is_full());
    }
}

/// The reader empties the packet, and the writer fills it again in the same epoch.
fn refill() {
    let packet = Packet::new(1);
    packet.write(0, 1, 3);
    let writer = {
        let packet = Arc::clone(&packet);
        thread::spawn(move || {
            if packet.words(1).is_empty() {
                packet.write(0, 1, 4);
            }
        })
    };
    let words = packet.words(1);
    assert!(words.is_full());
    assert_eq!(packet.sum(), 3);
    words.mark_empty();
    writer.join().unwrap();
}

#[test]
fn a_full_packet_has_all_its_items() {
    holds(epochs(1, 1));
    holds(epochs(2, 1));
}

#[test]
fn writers_that_did_not_come_are_not_waited_for_later() {
    holds(deserted(1));
    holds(deserted(u32::MAX));
}

#[test]
fn epochs_wrap_around_and_leave_out_the_empty_one() {
    assert_eq!((next_epoch(0), next_epoch(u32::MAX)), (1, 1));
    holds(epochs(1, u32::MAX));
    holds(epochs(2, u32::MAX));
}

#[test]
fn an_emptied_packet_is_filled_again() {
    holds(refill);
}

#[test]
fn a_packet_of_an_earlier_epoch_is_caught() {
    fails_with(Fault::AnyEpochIsFull as usize, epochs(1, 1));
}

#[test]
fn an_arrival_without_order_is_caught() {
    fails_with(Fault::ArrivalWithoutOrder as usize, epochs(2, 1));
}

#[test]
fn arrivals_of_an_earlier_epoch_are_caught() {
    fails_with(Fault::ArrivalsOfAnyEpoch as usize, deserted(1));
}

#[test]
fn forgetting_by_store_is_caught() {
    fails_with(Fault::ForgetByStore as usize, deserted(1));
}

#[test]
fn publishing_by_the_first_is_caught() {
    fails_with(Fault::FirstArrivalFills as usize, epochs(2, 1));
}

#[test]
fn a_fill_without_release_is_caught() {
    fails_with(Fault::MarkFullWithoutRelease as usize, epochs(1, 1));
}

#[test]
fn an_empty_without_release_is_caught() {
    fails_with(Fault::MarkEmptyWithoutRelease as usize, refill);
}
