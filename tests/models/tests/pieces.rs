//! Pieces of the arcs of items that have very many, step by step as in
//! `kernels/src/pieces.cuh`, under every interleaving.
//!
//! | here | there |
//! |---|---|
//! | `add` | `Pieces::add`: `fetch_add_relaxed_gpu(&words[tail], count)`, one piece at a time |
//! | `put`: exchange | `Pieces::put`, one turn of the loop around `compare_exchange_acquire_gpu` |
//! | `put`: last, state, tag | `Pieces::put`, the two stores and `store_release_gpu` |
//! | `draw`, `lap` | `Pieces::draw`, `lap` |
//! | `take`: look | `Pieces::has_come`, called by `Gang::work` |
//! | `take`: tag, last, state | `Pieces::take`, `load_acquire_gpu` and the two loads |
//! | `take`: empty | `Pieces::take`, `store_release_gpu(from + tag, 0)` |
//!
//! There a lap has 2^18 places; here it has 2, so that producers come around while the
//! places are full. What lies beside the tag is in cells, so that loom reports whatever
//! the tag does not order; there it is read and written relaxed.

#![allow(clippy::unwrap_used)]

use std::ops::Range;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use millstream_models::{fails_with, holds, is_seeded};

#[derive(Clone, Copy)]
enum Fault {
    LookThenWrite,
    TagRelaxed,
    EmptiedRelaxed,
    ComeBeforeWritten,
    IgnoreLaps,
}

fn seeded(fault: Fault) -> bool {
    is_seeded(fault as usize)
}

fn release_unless(fault: Fault) -> Ordering {
    if seeded(fault) { Ordering::Relaxed } else { Ordering::Release }
}

const CAPACITY: u64 = 2;
const PIECES: u64 = 3;
/// Bits of a tag for the first arc plus one; the lap is above them.
const LAP_SHIFT: u32 = 8;
const ARC_MASK: u64 = (1 << LAP_SHIFT) - 1;

#[derive(Default)]
struct Entry {
    tag: AtomicU64,
    /// The last arc, and what goes along the arcs.
    rest: UnsafeCell<(u64, u64)>,
}

#[derive(Default)]
struct Pieces {
    tail: AtomicU64,
    head: AtomicU64,
    entries: [Entry; CAPACITY as usize],
    taken: [AtomicU64; PIECES as usize],
}

/// A piece, known by its first arc, that is not written yet.
struct Added {
    first: u64,
    position: u64,
}

impl Pieces {
    fn entry(&self, position: u64) -> &Entry {
        &self.entries[(position % CAPACITY) as usize]
    }

    /// Not 0.
    fn lap(position: u64) -> u64 {
        (position / CAPACITY + 1) << LAP_SHIFT
    }

    fn add(&self, first: u64) -> Added {
        Added { first, position: self.tail.fetch_add(1, Ordering::Relaxed) }
    }

    /// Writes a piece, unless its place is full.
    fn put(&self, &Added { first, position }: &Added) -> bool {
        let (entry, lap) = (self.entry(position), Pieces::lap(position));
        if seeded(Fault::LookThenWrite) {
            if entry.tag.load(Ordering::Acquire) != 0 {
                return false;
            }
            entry.tag.store(lap, Ordering::Relaxed);
        // Acquire: pairs with the release in `take`.
        } else if entry.tag.compare_exchange(0, lap, Ordering::Acquire, Ordering::Acquire).is_err()
        {
            return false;
        }
        // SAFETY: the tag says that this thread alone writes and nobody reads; loom
        // reports whoever does.
        entry.rest.with_mut(|rest| unsafe { *rest = (first + 1, first + 10) });
        // Release: pairs with the acquire in `take`.
        entry.tag.store(lap | (first + 1), release_unless(Fault::TagRelaxed));
        true
    }

    fn draw(&self) -> u64 {
        self.head.fetch_add(1, Ordering::Relaxed)
    }

    fn has_come(&self, position: u64) -> bool {
        let (tag, lap) = (self.entry(position).tag.load(Ordering::Relaxed), Pieces::lap(position));
        if seeded(Fault::IgnoreLaps) {
            return tag & ARC_MASK != 0;
        }
        (tag > lap || (seeded(Fault::ComeBeforeWritten) && tag == lap))
            && tag.wrapping_sub(lap) <= ARC_MASK
    }

    /// Takes the piece that has come to a position, if one has.
    fn take(&self, position: u64) -> bool {
        if !self.has_come(position) {
            return false;
        }
        let entry = self.entry(position);
        // Acquire: pairs with the release in `put`.
        let first = (entry.tag.load(Ordering::Acquire) & ARC_MASK).wrapping_sub(1);
        // SAFETY: the tag says that nobody writes; loom reports whoever does.
        let rest = entry.rest.with(|rest| unsafe { *rest });
        assert_eq!(rest, (first + 1, first + 10), "of another piece");
        self.taken[first as usize].fetch_add(1, Ordering::Relaxed);
        // Release: the entry is read before it is written again.
        entry.tag.store(0, release_unless(Fault::EmptiedRelaxed));
        true
    }

    /// Adds pieces; those that found no place.
    fn produce(&self, pieces: Range<u64>) -> Vec<Added> {
        pieces.map(|first| self.add(first)).filter(|added| !self.put(added)).collect()
    }

    /// Takes what comes to one ticket, and looks for it twice; then draws another one,
    /// as a warp does. The ticket that is left.
    fn consume(&self) -> u64 {
        let mut position = self.draw();
        for _ in 0..2 {
            if self.take(position) {
                position = self.draw();
            }
        }
        position
    }

    /// Goes on alone with what was left, as long as it leads anywhere.
    fn finish(&self, mut added: Vec<Added>, mut positions: Vec<u64>) {
        for _ in 0..=PIECES {
            for position in &mut positions {
                if self.take(*position) {
                    *position = self.draw();
                }
            }
            added.retain(|added| !self.put(added));
        }
        assert!(added.is_empty(), "somebody waits for ever");
        for taken in &self.taken {
            assert_eq!(taken.load(Ordering::Relaxed), 1, "a piece is lost, or taken twice");
        }
    }
}

/// Two producers a lap apart, and a consumer. The later one may come first; then the
/// other waits until a warp with the later ticket has taken what is there, which in the
/// end another warp has. Nobody waits, so that loom sees an end of every interleaving.
fn two_producers() {
    let pieces = Arc::new(Pieces::default());
    let other = {
        let pieces = Arc::clone(&pieces);
        thread::spawn(move || pieces.produce(0..1))
    };
    let consumer = {
        let pieces = Arc::clone(&pieces);
        thread::spawn(move || pieces.consume())
    };
    let mut added = pieces.produce(1..PIECES);
    added.extend(other.join().unwrap());
    let tickets = vec![consumer.join().unwrap(), pieces.draw()];
    pieces.finish(added, tickets);
}

/// A producer that comes around, and two consumers with tickets a lap apart.
fn two_consumers() {
    let pieces = Arc::new(Pieces::default());
    let consumers = [0, 1].map(|_| {
        let pieces = Arc::clone(&pieces);
        thread::spawn(move || pieces.consume())
    });
    let added = pieces.produce(0..PIECES);
    pieces.finish(added, consumers.map(|thread| thread.join().unwrap()).to_vec());
}

#[test]
fn producers_a_lap_apart_wait_for_each_other() {
    holds(two_producers);
}

#[test]
fn every_piece_is_taken_once() {
    holds(two_consumers);
}

#[test]
fn writing_without_the_exchange_is_caught() {
    fails_with(Fault::LookThenWrite as usize, two_producers);
}

#[test]
fn a_tag_without_release_is_caught() {
    fails_with(Fault::TagRelaxed as usize, two_producers);
}

#[test]
fn emptying_without_release_is_caught() {
    fails_with(Fault::EmptiedRelaxed as usize, two_producers);
}

#[test]
fn taking_what_is_being_written_is_caught() {
    fails_with(Fault::ComeBeforeWritten as usize, two_producers);
}

#[test]
fn taking_the_piece_of_another_lap_is_caught() {
    fails_with(Fault::IgnoreLaps as usize, two_consumers);
}
