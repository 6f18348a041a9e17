//! A channel of tiles, step by step as in `kernels/src/collective_channel.cuh`, under every
//! interleaving. Along a chain one rank sends tiles to the next in two collectives, with two slots:
//! reductions and broadcasts do the same here, since buffers of either rank are its own and not
//! modelled. Round a ring, `kernels/src/collective_ring.cuh`, two ranks send tiles to each other, an
//! all-reduce of two tiles of each part.
//!
//! | here | there |
//! |---|---|
//! | `Ends::pass`: its two waits, and what follows | `Channel::wait`, `write` |
//! | `Ends::tell` | `Channel::tell` |
//! | `received` and `sent`, kept between collectives | `received_word`, `sent_word` |
//! | `all_reduce` | `Ring::run`, `pass_on` |
//!
//! A block is one thread. A slot is plain memory, of which loom knows whether uses come
//! after each other.

#![allow(clippy::unwrap_used)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;
use millstream_models::{fails_with, holds, holds_within_two, is_seeded};

#[derive(Clone, Copy)]
enum Fault {
    /// The one fence of `tell`, without which neither word is released.
    TellWithoutFence,
    ArrivedWithoutAcquire,
    TakenWithoutAcquire,
    NoRoom,
    /// As many tiles of each part go round a ring together as a channel has slots.
    Crowded,
}

fn seeded(fault: Fault) -> bool {
    is_seeded(fault as usize)
}

const SLOTS: u64 = 2;
/// Of either collective along a chain.
const TILES: [u64; 2] = [3, 1];

/// From a rank to the next one.
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
}

fn hears(word: &AtomicU64, least: u64, without: Fault) {
    while word.load(Ordering::Relaxed) < least {
        thread::yield_now();
    }
    // There a load of its own, which acquires; a fence has fewer interleavings.
    if !seeded(without) {
        fence(Ordering::Acquire);
    }
}

/// A rank: the channel from the one before, the one to the next, and tiles so far.
struct Ends {
    from: Arc<Channel>,
    to: Arc<Channel>,
    received: u64,
    sent: u64,
}

impl Ends {
    fn new(from: &Arc<Channel>, to: &Arc<Channel>) -> Ends {
        Ends { from: Arc::clone(from), to: Arc::clone(to), received: 0, sent: 0 }
    }

    /// What has arrived, and `own`, which is sent if `sends`.
    fn pass(&mut self, receives: bool, sends: bool, own: u64) -> u64 {
        if receives {
            hears(&self.from.arrived, self.received + 1, Fault::ArrivedWithoutAcquire);
        }
        if sends && self.sent >= SLOTS && !seeded(Fault::NoRoom) {
            hears(&self.to.taken, self.sent + 1 - SLOTS, Fault::TakenWithoutAcquire);
        }
        let mut item = own;
        if receives {
            // SAFETY: loom checks that nobody writes it meanwhile.
            item += self.from.slot(self.received).with(|slot| unsafe { *slot });
        }
        if sends {
            // SAFETY: loom checks that nobody uses it meanwhile.
            self.to.slot(self.sent).with_mut(|slot| unsafe { *slot = item });
        }
        self.tell(receives, sends);
        item
    }

    fn tell(&mut self, receives: bool, sends: bool) {
        if !seeded(Fault::TellWithoutFence) {
            fence(Ordering::Release);
        }
        if sends {
            self.sent += 1;
            self.to.arrived.store(self.sent, Ordering::Relaxed);
        }
        if receives {
            self.received += 1;
            self.from.taken.store(self.received, Ordering::Relaxed);
        }
    }
}

fn two_collectives() {
    let (channel, none) = (Arc::new(Channel::default()), Arc::new(Channel::default()));
    let mut first = Ends::new(&none, &channel);
    let mut last = Ends::new(&channel, &none);
    let sender = thread::spawn(move || {
        for tile in TILES.into_iter().flat_map(|tiles| 0..tiles) {
            first.pass(false, true, tile * 10);
        }
    });
    for tile in TILES.into_iter().flat_map(|tiles| 0..tiles) {
        assert_eq!(last.pass(true, false, 0), tile * 10);
    }
    sender.join().unwrap();
}

/// Of two tiles of either part, one of which goes round at a time: fewer than slots.
fn all_reduce(mut ends: Ends, rank: u64) {
    let together = if seeded(Fault::Crowded) { SLOTS } else { SLOTS - 1 };
    let own = |rank: u64, tile: u64, part: u64| 100 * (rank + 1) + 10 * tile + part;
    for first in (0..2).step_by(together as usize) {
        for step in 0..3 {
            for tile in first..first + together {
                let part = (rank + 3 - step) % 2;
                let mine = if step < 2 { own(rank, tile, part) } else { 0 };
                let item = ends.pass(step > 0, step < 2, mine);
                assert!(step == 0 || item == own(0, tile, part) + own(1, tile, part));
            }
        }
    }
}

fn ring() {
    let channels = [0, 1].map(|_| Arc::new(Channel::default()));
    let ends = Ends::new(&channels[1], &channels[0]);
    let other = Ends::new(&channels[0], &channels[1]);
    let rank = thread::spawn(move || all_reduce(other, 1));
    all_reduce(ends, 0);
    rank.join().unwrap();
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

#[test]
fn tiles_go_round_a_ring() {
    holds_within_two(ring);
}

#[test]
fn a_ring_without_a_fence_is_caught() {
    fails_with(Fault::TellWithoutFence as usize, ring);
}

/// All ranks wait for room.
#[test]
fn a_crowded_ring_is_caught() {
    fails_with(Fault::Crowded as usize, ring);
}
