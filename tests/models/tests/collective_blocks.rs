//! Blocks of a kernel that meet between two collectives, step by step as in `meet` of
//! `kernels/src/collective_ranks.cuh`, under every interleaving: two blocks, three
//! collectives. In each one a block stores an item that the other reads in the next.
//!
//! | here | there |
//! |---|---|
//! | `Blocks::meet` | `meet`, one thread of each block |
//! | `turn`, `met` | `turn_word`, `met_word` |
//! | `items` | plain memory of the rank: outputs that are the next collective's inputs |

#![allow(clippy::unwrap_used)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use millstream_models::{fails_with, holds, is_seeded};

#[derive(Clone, Copy)]
enum Fault {
    /// The last block says that all are there without releasing what they did.
    NoRelease,
    /// Blocks count themselves, and neither release nor acquire what was done.
    RelaxedCount,
    /// The last block does not count from 0 again.
    NoReset,
}

fn seeded(fault: Fault) -> bool {
    is_seeded(fault as usize)
}

const BLOCKS: u64 = 2;
const COLLECTIVES: u64 = 3;

#[derive(Default)]
struct Blocks {
    met: AtomicU64,
    turn: AtomicU64,
    /// Of each block, by odd and even collectives.
    items: [[UnsafeCell<u64>; 2]; BLOCKS as usize],
}

// SAFETY: loom checks that no access of an item conflicts with another.
unsafe impl Sync for Blocks {}
// SAFETY: as above.
unsafe impl Send for Blocks {}

impl Blocks {
    fn meet(&self) {
        let before = self.turn.load(Ordering::Relaxed);
        let order = if seeded(Fault::RelaxedCount) { Ordering::Relaxed } else { Ordering::AcqRel };
        let arrived = self.met.fetch_add(1, order) + 1;
        if arrived == BLOCKS {
            if !seeded(Fault::NoReset) {
                self.met.store(0, Ordering::Relaxed);
            }
            let order =
                if seeded(Fault::NoRelease) { Ordering::Relaxed } else { Ordering::Release };
            self.turn.store(before + 1, order);
            return;
        }
        while self.turn.load(Ordering::Acquire) == before {
            thread::yield_now();
        }
    }

    fn run(&self, block: usize) {
        for collective in 1..=COLLECTIVES {
            if collective > 1 {
                self.meet();
                let other = &self.items[1 - block][(collective - 1) as usize % 2];
                // SAFETY: as above.
                assert_eq!(other.with(|item| unsafe { *item }), collective - 1);
            }
            let own = &self.items[block][collective as usize % 2];
            // SAFETY: as above.
            own.with_mut(|item| unsafe { *item = collective });
        }
    }
}

fn collectives() {
    let blocks = Arc::new(Blocks::default());
    let other = Arc::clone(&blocks);
    let other = thread::spawn(move || other.run(1));
    blocks.run(0);
    other.join().unwrap();
}

#[test]
fn what_a_block_did_all_see_after_they_have_met() {
    holds(collectives);
}

#[test]
fn a_turn_that_releases_nothing_is_caught() {
    fails_with(Fault::NoRelease as usize, collectives);
}

#[test]
fn a_count_that_orders_nothing_is_caught() {
    fails_with(Fault::RelaxedCount as usize, collectives);
}

#[test]
fn a_count_that_goes_on_is_caught() {
    fails_with(Fault::NoReset as usize, collectives);
}
