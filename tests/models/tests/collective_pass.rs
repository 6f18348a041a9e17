//! The begin and the end of a collective in one pass, step by step as in
//! `kernels/src/collective_pass.cuh`, under every interleaving: an all-reduce in place by
//! two ranks of one block each, and ranks of two blocks of which one writes for another.
//!
//! | here | there |
//! |---|---|
//! | `Pass::begin` | `Pass::begin` |
//! | `Pass::reduce` | `Pass::run`: a job of one item |
//! | `Pass::end` | `Pass::end` |
//!
//! A block is one thread, and tells and hears the same one of the other rank. Buffers are plain memory, of
//! which loom knows whether uses come after each other.

#![allow(clippy::unwrap_used)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use millstream_models::{fails_with, holds, is_seeded};

#[derive(Clone, Copy)]
enum Fault {
    BeginWithoutRelease,
    OneBlockSpeaksForAll,
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
const BLOCKS: usize = 2;
const ITEMS: usize = 2;

#[derive(Default)]
struct Rank {
    /// From the other rank.
    begun: AtomicU64,
    /// From each of its blocks.
    ended: [AtomicU64; BLOCKS],
    buffer: [UnsafeCell<u64>; ITEMS],
}

#[derive(Clone)]
struct Pass {
    ranks: Arc<[Rank; RANKS]>,
    here: usize,
    block: usize,
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
        let speaks = self.block == 0 || !seeded(Fault::OneBlockSpeaksForAll);
        if seeded(Fault::NoEnd) {
            return;
        }
        if speaks {
            let ended = &self.ranks[1 - self.here].ended[self.block];
            ended.store(1, release_unless(Fault::EndWithoutRelease));
        }
        self.hear(if speaks { self.block } else { 0 });
    }

    /// Waits for a block of the other rank.
    fn hear(&self, block: usize) {
        Pass::wait(&self.ranks[self.here].ended[block]);
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
    let other = Pass { ranks: Arc::clone(&ranks), here: 1, block: 0 };
    let other = thread::spawn(move || other.stream());
    Pass { ranks, here: 0, block: 0 }.stream();
    other.join().unwrap();
}

/// The second rank's blocks each write an item of the first one's, whose stream goes on when its own blocks
/// have ended.
fn two_blocks() {
    let ranks = Arc::new(<[Rank; RANKS]>::default());
    // The first rank's blocks have nothing to do but hear.
    ranks[1].ended.iter().for_each(|ended| ended.store(1, Ordering::Relaxed));
    let blocks = [0, 1].map(|block| {
        let pass = Pass { ranks: Arc::clone(&ranks), here: 1, block };
        thread::spawn(move || {
            pass.write(0, block, 7);
            pass.end();
        })
    });
    let first = [0, 1].map(|block| Pass { ranks: Arc::clone(&ranks), here: 0, block });
    let heard = if seeded(Fault::OneBlockSpeaksForAll) { &first[..1] } else { &first };
    heard.iter().for_each(|pass| pass.hear(pass.block));
    assert_eq!([first[0].read(0, 0), first[0].read(0, 1)], [7, 7]);
    blocks.into_iter().for_each(|block| block.join().unwrap());
}

#[test]
fn buffers_are_used_between_begin_and_end() {
    holds(all_reduce);
}

#[test]
fn each_block_speaks_for_itself() {
    holds(two_blocks);
}

#[test]
fn a_begin_without_release_is_caught() {
    fails_with(Fault::BeginWithoutRelease as usize, all_reduce);
}

#[test]
fn one_block_that_speaks_for_all_is_caught() {
    fails_with(Fault::OneBlockSpeaksForAll as usize, two_blocks);
}

#[test]
fn a_blocks_end_without_release_is_caught() {
    fails_with(Fault::EndWithoutRelease as usize, two_blocks);
}

#[test]
fn an_end_without_release_is_caught() {
    fails_with(Fault::EndWithoutRelease as usize, all_reduce);
}

#[test]
fn no_end_is_caught() {
    fails_with(Fault::NoEnd as usize, all_reduce);
}
