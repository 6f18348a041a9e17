//! A channel of a chain, step by step as in `kernels/src/collective_chain.cuh`, under every
//! interleaving: one rank sends tiles to the next in two collectives, with two slots. Reductions and
//! broadcasts do the same here: buffers of either rank are its own and not modelled.
//!
//! | here | there |
//! |---|---|
//! | `Channel::send`: its wait, its store and its end | `Chain::wait`, `write`, `tell` of the first rank |
//! | `Channel::receive`, the same | of the last one |
//! | `sent` and `received`, kept between collectives | `sent_word`, `received_word` |
//!
//! A block is one thread. A slot is plain memory, of which loom knows whether uses come
//! after each other.

#![allow(clippy::unwrap_used)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;
use millstream_models::{fails_with, holds, is_seeded};

#[derive(Clone, Copy)]
enum Fault {
    /// The one fence of `tell`, without which neither word is released.
    TellWithoutFence,
    ArrivedWithoutAcquire,
    TakenWithoutAcquire,
    NoRoom,
}

fn seeded(fault: Fault) -> bool {
    is_seeded(fault as usize)
}

const SLOTS: u64 = 2;
/// Of either collective.
const TILES: [u64; 2] = [3, 1];

#[derive(Default)]
struct Channel {
    arrived: AtomicU64,
    taken: AtomicU64,
    slots: [UnsafeCell<u64>; SLOTS as usize],
}

// SAFETY: loom checks each access to a cell.
unsafe impl Sync for Channel {}

impl Channel {
    fn slot(&self, position: u64) -> &UnsafeCell<u64> {
        &self.slots[(position % SLOTS) as usize]
    }

    fn hears(word: &AtomicU64, least: u64, without: Fault) {
        while word.load(Ordering::Relaxed) < least {
            thread::yield_now();
        }
        let order = if seeded(without) { Ordering::Relaxed } else { Ordering::Acquire };
        assert!(word.load(order) >= least);
    }

    fn tell(word: &AtomicU64, count: u64) {
        if !seeded(Fault::TellWithoutFence) {
            fence(Ordering::Release);
        }
        word.store(count, Ordering::Relaxed);
    }

    fn send(&self, sent: u64) {
        if sent >= SLOTS && !seeded(Fault::NoRoom) {
            Channel::hears(&self.taken, sent + 1 - SLOTS, Fault::TakenWithoutAcquire);
        }
        // SAFETY: loom checks that nobody uses it meanwhile.
        self.slot(sent).with_mut(|slot| unsafe { *slot = sent * 10 });
        Channel::tell(&self.arrived, sent + 1);
    }

    fn receive(&self, received: u64) {
        Channel::hears(&self.arrived, received + 1, Fault::ArrivedWithoutAcquire);
        // SAFETY: loom checks that nobody writes it meanwhile.
        let item = self.slot(received).with(|slot| unsafe { *slot });
        assert_eq!(item, received * 10);
        Channel::tell(&self.taken, received + 1);
    }
}

fn two_collectives() {
    let channel = Arc::new(Channel::default());
    let other = Arc::clone(&channel);
    let sender = thread::spawn(move || {
        let mut sent = 0;
        for tiles in TILES {
            (0..tiles).for_each(|tile| other.send(sent + tile));
            sent += tiles;
        }
    });
    let mut received = 0;
    for tiles in TILES {
        (0..tiles).for_each(|tile| channel.receive(received + tile));
        received += tiles;
    }
    sender.join().unwrap();
}

#[test]
fn tiles_are_taken_before_their_slots_are_used_again() {
    holds(two_collectives);
}

#[test]
fn words_without_a_fence_are_caught() {
    fails_with(Fault::TellWithoutFence as usize, two_collectives);
}

#[test]
fn a_tile_that_is_not_acquired_is_caught() {
    fails_with(Fault::ArrivedWithoutAcquire as usize, two_collectives);
}

#[test]
fn room_that_is_not_acquired_is_caught() {
    fails_with(Fault::TakenWithoutAcquire as usize, two_collectives);
}

#[test]
fn tiles_without_room_are_caught() {
    fails_with(Fault::NoRoom as usize, two_collectives);
}
