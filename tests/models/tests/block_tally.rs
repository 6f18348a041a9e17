//! The tally of the blocks of one device, step by step as in
//! `kernels/src/block_tally.cuh`, under every interleaving: two blocks meet
//! three times.
//!
//! | here | there |
//! |---|---|
//! | `Block::meet` | `BlockTally::meet` |
//! | `Block::hear` | `BlockTally::hear` |
//! | `Block::claim` | `NearFarDevice::lower` |
//!
//! A block is one thread. What a block with a surplus puts into the log is a plain write,
//! of which loom knows whether it comes before the reads of others. Loom lets no load see
//! a store that comes later in time, so that it says nothing about hardware which would
//! let a claim depend on one that depends on it; why that cannot be is in `NEAR_FAR.md`.

#![allow(clippy::unwrap_used)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;
use millstream_models::{fails_with, holds, is_seeded};

#[derive(Clone, Copy)]
enum Fault {
    OneWord,
    ForgetBefore,
    SurplusWithoutFence,
    HearingWithoutFence,
    ClaimAfterArrival,
}

fn seeded(fault: Fault) -> bool {
    is_seeded(fault as usize)
}

const ROUNDS: u64 = 3;
const BLOCKS: u64 = 2;
const SURPLUS_SHIFT: u32 = 10;
const FOUND_SHIFT: u32 = 37;

#[derive(Default)]
struct Device {
    words: [AtomicU64; 2],
    /// Vertex r is found by the first block in round r, and by the second a round later.
    visited: AtomicU64,
    /// What the first block puts into the log in each round.
    log: [UnsafeCell<u64>; ROUNDS as usize],
}

// SAFETY: loom checks each access to a cell.
unsafe impl Sync for Device {}
// SAFETY: as above.
unsafe impl Send for Device {}

struct Block {
    device: Arc<Device>,
    round: u64,
    before: [u64; 2],
}

impl Block {
    /// Meets the other; what both have found, and their surplus.
    fn meet(&mut self, found: u64, surplus: u64) -> (u64, u64) {
        if surplus > 0 && !seeded(Fault::SurplusWithoutFence) {
            fence(Ordering::AcqRel);
        }
        let turn = if seeded(Fault::OneWord) { 0 } else { (self.round % 2) as usize };
        let told = found << FOUND_SHIFT | surplus << SURPLUS_SHIFT | 1;
        self.device.words[turn].fetch_add(told, Ordering::Relaxed);
        self.round += 1;
        self.hear(turn)
    }

    fn hear(&mut self, turn: usize) -> (u64, u64) {
        loop {
            let now = self.device.words[turn].load(Ordering::Relaxed);
            let more = now - self.before[turn];
            if more % (1 << SURPLUS_SHIFT) == BLOCKS {
                if !seeded(Fault::ForgetBefore) {
                    self.before[turn] = now;
                }
                let surplus = more >> SURPLUS_SHIFT & ((1 << (FOUND_SHIFT - SURPLUS_SHIFT)) - 1);
                if surplus > 0 && !seeded(Fault::HearingWithoutFence) {
                    fence(Ordering::AcqRel);
                }
                return (more >> FOUND_SHIFT, surplus);
            }
            thread::yield_now();
        }
    }

    fn claim(&self, vertex: u64) -> bool {
        self.device.visited.fetch_or(1 << vertex, Ordering::Relaxed) >> vertex & 1 == 0
    }

    fn run(mut self, place: u64) {
        for round in 0..ROUNDS {
            let vertex = round.checked_sub(place);
            let is_late = place == 0 && seeded(Fault::ClaimAfterArrival);
            let found = match vertex {
                Some(_) if is_late => 1,
                Some(vertex) => u64::from(self.claim(vertex)),
                None => 0,
            };
            // A surplus in every other round.
            let surplus = if place == 0 { round % 2 } else { 0 };
            if surplus > 0 {
                // SAFETY: only this block writes it, once.
                self.device.log[round as usize].with_mut(|cell| unsafe { *cell = round + 7 });
            }
            let (all, left) = self.meet(found, surplus);
            if let (true, Some(vertex)) = (is_late, vertex) {
                assert!(self.claim(vertex), "a block of a later round was first");
            }
            // Only the first block is in time.
            assert_eq!((all, left), (1, round % 2), "the counts of another round");
            if left > 0 {
                // SAFETY: nobody writes it any more; loom checks.
                let cell = self.device.log[round as usize].with(|cell| unsafe { *cell });
                assert_eq!(cell, round + 7);
            }
        }
    }
}

fn two_blocks() {
    let device = Arc::new(Device::default());
    let block = |device: &Arc<Device>| {
        let device = Arc::clone(device);
        Block { device, round: 0, before: [0; 2] }
    };
    let other = block(&device);
    let other = thread::spawn(move || other.run(1));
    block(&device).run(0);
    other.join().unwrap();
}

#[test]
fn rounds_do_not_mix_and_surplus_is_visible() {
    holds(two_blocks);
}

#[test]
fn a_single_word_is_caught() {
    fails_with(Fault::OneWord as usize, two_blocks);
}

#[test]
fn a_total_in_place_of_a_difference_is_caught() {
    fails_with(Fault::ForgetBefore as usize, two_blocks);
}

#[test]
fn a_surplus_without_a_fence_is_caught() {
    fails_with(Fault::SurplusWithoutFence as usize, two_blocks);
}

#[test]
fn hearing_of_a_surplus_without_a_fence_is_caught() {
    fails_with(Fault::HearingWithoutFence as usize, two_blocks);
}

#[test]
fn a_claim_after_arrival_is_caught() {
    fails_with(Fault::ClaimAfterArrival as usize, two_blocks);
}
