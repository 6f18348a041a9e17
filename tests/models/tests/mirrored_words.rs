//! A packet's word and the host's mirror of it, changed by a stream and by a kernel in turns, step by
//! step as in `kernels/src/full_empty.cuh`, under every interleaving.
//!
//! | here | there |
//! |---|---|
//! | `Packet::change` | `FullEmptySegment::write`, or the stream that writes both words (`SegmentCore::full_words`) |
//! | `Packet::catch_up` | `FullEmptySegment::catch_up`, `PacketsView::catch_up` |
//!
//! The stream's change is one that the host submits when the mirror shows it the packet's state; the
//! kernel's one that a block makes when the word does.

#![allow(clippy::unwrap_used)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use millstream_models::{fails_with, holds, is_seeded};

/// A kernel does not wait for the mirror.
const HURRY: usize = 0;

struct Packet {
    word: AtomicU32,
    mirror: AtomicU32,
}

impl Packet {
    fn new(value: u32) -> Arc<Packet> {
        Arc::new(Packet { word: AtomicU32::new(value), mirror: AtomicU32::new(value) })
    }

    fn change(&self, value: u32) {
        self.word.store(value, Ordering::Release);
        self.mirror.store(value, Ordering::Release);
    }

    fn catch_up(&self, value: u32) {
        while !is_seeded(HURRY) && self.mirror.load(Ordering::Relaxed) != value {
            thread::yield_now();
        }
    }

    /// A kernel that finds the word so and changes it.
    fn change_from(&self, from: u32, to: u32) {
        while self.word.load(Ordering::Acquire) != from {
            thread::yield_now();
        }
        self.catch_up(from);
        self.change(to);
    }
}

/// A stream changes the packet, and a kernel changes it back: from empty, or from full.
fn there_and_back(begins: u32) {
    let packet = Packet::new(begins);
    let kernel = {
        let packet = Arc::clone(&packet);
        thread::spawn(move || packet.change_from(1 - begins, begins))
    };
    packet.change(1 - begins);
    kernel.join().unwrap();
    let shown = [&packet.word, &packet.mirror].map(|word| word.load(Ordering::Relaxed));
    assert_eq!(shown, [begins; 2]);
}

/// The host has the stream change it again, when the mirror says that the kernel has.
fn there_and_back_and_there() {
    let packet = Packet::new(0);
    let kernel = {
        let packet = Arc::clone(&packet);
        thread::spawn(move || packet.change_from(1, 0))
    };
    packet.change(1);
    // Not what it was at first: the host has been told that its copy is over.
    while packet.mirror.load(Ordering::Acquire) != 0 {
        thread::yield_now();
    }
    packet.change(1);
    kernel.join().unwrap();
    let shown = [&packet.word, &packet.mirror].map(|word| word.load(Ordering::Relaxed));
    assert_eq!(shown, [1; 2]);
}

#[test]
fn mirrors_show_the_last_change() {
    holds(|| there_and_back(0));
    holds(|| there_and_back(1));
    holds(there_and_back_and_there);
}

#[test]
fn a_kernel_in_a_hurry_is_caught() {
    fails_with(HURRY, || there_and_back(0));
}
