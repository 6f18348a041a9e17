//! Lines, step by step as in `kernels/src/collective_lines.cuh`, under every
//! interleaving: two ranks send each other one line in each of four collectives.
//!
//! | here | there |
//! |---|---|
//! | `Lines::send` | `LineExchange::send`: `store_line_relaxed` |
//! | `Lines::receive` | `LineExchange::wait`: `load_line_relaxed_if` |
//!
//! A line is one word here: its upper half the epoch. All its operations are relaxed.

#![allow(clippy::unwrap_used)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use millstream_models::{fails_with, holds, is_seeded};

#[derive(Clone, Copy)]
enum Fault {
    /// All collectives use the same line.
    OneBox,
    /// The epoch is seen without the item.
    TwoStores,
}

fn seeded(fault: Fault) -> bool {
    is_seeded(fault as usize)
}

const EPOCHS: u64 = 4;

#[derive(Default)]
struct Lines {
    /// Of each rank, from the other, in turns.
    boxes: [[AtomicU64; 2]; 2],
}

fn item(rank: usize, epoch: u64) -> u64 {
    epoch * 10 + rank as u64
}

impl Lines {
    fn line(&self, rank: usize, epoch: u64) -> &AtomicU64 {
        let turn = if seeded(Fault::OneBox) { 0 } else { epoch % 2 };
        &self.boxes[rank][turn as usize]
    }

    fn send(&self, from: usize, epoch: u64) {
        let line = self.line(1 - from, epoch);
        if seeded(Fault::TwoStores) {
            line.store(epoch << 32, Ordering::Relaxed);
        }
        line.store(epoch << 32 | item(from, epoch), Ordering::Relaxed);
    }

    fn receive(&self, rank: usize, epoch: u64) -> u64 {
        loop {
            let line = self.line(rank, epoch).load(Ordering::Relaxed);
            if line >> 32 == epoch {
                return line & 0xffff_ffff;
            }
            thread::yield_now();
        }
    }

    fn run(&self, rank: usize) {
        for epoch in 1..=EPOCHS {
            self.send(rank, epoch);
            assert_eq!(self.receive(rank, epoch), item(1 - rank, epoch));
        }
    }
}

fn exchange() {
    let lines = Arc::new(Lines::default());
    let other = Arc::clone(&lines);
    let other = thread::spawn(move || other.run(1));
    lines.run(0);
    other.join().unwrap();
}

#[test]
fn lines_are_read_before_they_are_overwritten() {
    holds(exchange);
}

#[test]
fn lines_that_take_no_turns_are_caught() {
    fails_with(Fault::OneBox as usize, exchange);
}

#[test]
fn an_epoch_without_its_item_is_caught() {
    fails_with(Fault::TwoStores as usize, exchange);
}
