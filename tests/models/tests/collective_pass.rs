//! The begin and the end of a collective in one pass, step by step as in
//! `kernels/src/collective_pass.cuh`, under every interleaving: an all-reduce in place by
//! two ranks of one block each, and a rank of two blocks that writes for another.
//!
//! | here | there |
//! |---|---|
//! | `Pass::begin` | `Pass::begin` |
//! | `Pass::reduce` | `Pass::run`: a job of one item |
//! | `Pass::end` | `Pass::end` |
//!
//! A block is one thread. Buffers are plain memory, of which loom knows whether uses
//! come after each other.

#![allow(clippy::unwrap_used)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use millstream_models::{fails_with, holds, is_seeded};

#[derive(Clone, Copy)]
enum Fault {
    BeginWithoutRelease,
    DoneWithoutOrder,
    EndWithoutRelease,
    NoEnd,
}

fn seeded(fault: Fault) -> bool {
    is_seeded(fault as usize)
}

fn release_unless(fault: Fault) -> Ordering {
    if seeded(fault) { Ordering::Relaxed } else { Ordering::Release }
}

const RANKS: usize = 2;
const ITEMS: usize = 2;

#[derive(Default)]
struct Rank {
    /// From the other rank.
    begun: AtomicU64,
    ended: AtomicU64,
    /// Own blocks that are done.
    done: AtomicU64,
    buffer: [UnsafeCell<u64>; ITEMS],
}

#[derive(Clone)]
struct Pass {
    ranks: Arc<[Rank; RANKS]>,
    here: usize,
    /// Of this rank.
    blocks: u64,
}

// SAFETY: loom checks each access to a cell.
unsafe impl Send for Pass {}

impl Pass {
    fn read(&self, rank: usize, item: usize) -> u64 {
        // SAFETY: loom checks that nobody writes it meanwhile.
        self.ranks[rank].buffer[item].with(|cell| unsafe { *cell })
    }

    fn write(&self, rank: usize, item: usize, value: u64) {
        // SAFETY: loom checks that nobody else uses it meanwhile.
        self.ranks[rank].buffer[item].with_mut(|cell| unsafe { *cell = value });
    }

    fn wait(word: &AtomicU64) {
        while word.load(Ordering::Acquire) < 1 {
            thread::yield_now();
        }
    }

    fn begin(&self) {
        let begun = &self.ranks[1 - self.here].begun;
        begun.store(1, release_unless(Fault::BeginWithoutRelease));
        Pass::wait(&self.ranks[self.here].begun);
    }

    fn reduce(&self, item: usize) {
        let sum = (0..RANKS).map(|rank| self.read(rank, item)).sum();
        (0..RANKS).for_each(|rank| self.write(rank, item, sum));
    }

    fn end(&self) {
        let order =
            if seeded(Fault::DoneWithoutOrder) { Ordering::Relaxed } else { Ordering::AcqRel };
        let before = self.ranks[self.here].done.fetch_add(1, order);
        if before + 1 < self.blocks || seeded(Fault::NoEnd) {
            return;
        }
        self.ranks[1 - self.here].ended.store(1, release_unless(Fault::EndWithoutRelease));
        Pass::wait(&self.ranks[self.here].ended);
    }

    /// What the stream of a rank of one block does.
    fn stream(&self) {
        (0..ITEMS).for_each(|item| self.write(self.here, item, 1 << self.here));
        self.begin();
        self.reduce(self.here);
        self.end();
        for item in 0..ITEMS {
            assert_eq!(self.read(self.here, item), 3);
            // The buffers are the stream's again.
            self.write(self.here, item, 0);
        }
    }
}

fn all_reduce() {
    let ranks = Arc::new(<[Rank; RANKS]>::default());
    let other = Pass { ranks: Arc::clone(&ranks), here: 1, blocks: 1 };
    let other = thread::spawn(move || other.stream());
    Pass { ranks, here: 0, blocks: 1 }.stream();
    other.join().unwrap();
}

/// The second rank's blocks each write an item of the first one's.
fn two_blocks() {
    let ranks = Arc::new(<[Rank; RANKS]>::default());
    // The first rank has nothing to do.
    ranks[1].ended.store(1, Ordering::Relaxed);
    let blocks = [0, 1].map(|item| {
        let pass = Pass { ranks: Arc::clone(&ranks), here: 1, blocks: 2 };
        thread::spawn(move || {
            pass.write(0, item, 7);
            pass.end();
        })
    });
    let first = Pass { ranks, here: 0, blocks: 1 };
    Pass::wait(&first.ranks[0].ended);
    assert_eq!([first.read(0, 0), first.read(0, 1)], [7, 7]);
    blocks.into_iter().for_each(|block| block.join().unwrap());
}

#[test]
fn buffers_are_used_between_begin_and_end() {
    holds(all_reduce);
}

#[test]
fn the_last_block_speaks_for_all() {
    holds(two_blocks);
}

#[test]
fn a_begin_without_release_is_caught() {
    fails_with(Fault::BeginWithoutRelease as usize, all_reduce);
}

#[test]
fn blocks_done_without_order_are_caught() {
    fails_with(Fault::DoneWithoutOrder as usize, two_blocks);
}

#[test]
fn an_end_without_release_is_caught() {
    fails_with(Fault::EndWithoutRelease as usize, all_reduce);
}

#[test]
fn no_end_is_caught() {
    fails_with(Fault::NoEnd as usize, all_reduce);
}
