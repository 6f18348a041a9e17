//! Lines of host twins: the production core under every interleaving. Two ranks send each
//! other a word in each of some collectives.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../../../crates/millstream-flow/src/collectives/block_lines.rs"]
mod block_lines;
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};

    /// The faults of the production file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Fault {
        OneSetOfLines,
        EpochBeforeWord,
        LineWithoutRelease,
    }

    pub(crate) fn seeded(fault: Fault) -> bool {
        millstream_models::is_seeded(fault as usize)
    }
}

use block_lines::BlockLines;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;
use millstream_models::{fails_with, holds};
use sync::Fault;

const RANKS: usize = 2;
/// Other words lie before the lines.
const FIRST: usize = 2;

type Memory = [Vec<AtomicU64>; RANKS];

fn item(rank: usize, epoch: u64) -> u64 {
    epoch * 10 + rank as u64
}

/// A rank in collectives of so many numbers. What it reads decides that it goes on.
fn run(memory: &Memory, rank: usize, epochs: u64) {
    let memory = memory.each_ref().map(Vec::as_slice);
    let lines = BlockLines { memory: &memory, first: FIRST, capacity: 1 };
    let other = 1 - rank;
    for epoch in 1..=epochs {
        lines.send([rank, other], epoch, &[item(rank, epoch)]);
        let arrived = loop {
            match lines.receive([other, rank], epoch, 1) {
                Some(arrived) => break arrived,
                None => thread::yield_now(),
            }
        };
        assert_eq!(arrived, [item(other, epoch)]);
    }
}

fn exchange(epochs: u64) {
    let words = FIRST + block_lines::words(RANKS, 1);
    let memory: Arc<Memory> =
        Arc::new([(); RANKS].map(|()| (0..words).map(|_| AtomicU64::new(0)).collect()));
    let other = Arc::clone(&memory);
    let other = thread::spawn(move || run(&other, 1, epochs));
    run(&memory, 0, epochs);
    other.join().unwrap();
}

#[test]
fn lines_are_read_before_they_are_overwritten() {
    holds(|| exchange(4));
}

#[test]
fn lines_that_take_no_turns_are_caught() {
    fails_with(Fault::OneSetOfLines as usize, || exchange(3));
}

#[test]
fn a_number_before_its_word_is_caught() {
    fails_with(Fault::EpochBeforeWord as usize, || exchange(1));
}

#[test]
fn a_line_that_releases_nothing_is_caught() {
    fails_with(Fault::LineWithoutRelease as usize, || exchange(1));
}
