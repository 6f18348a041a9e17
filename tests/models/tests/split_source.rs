//! The beginning of a search with a split row on two devices, as in `level_source.cuh` and
//! `level_bottom_up.cuh`, under every interleaving. One word has vertices of both: one device
//! may be publishing into it while the other still claims.
//!
//! | here | there |
//! |---|---|
//! | `Device::rush` | `LevelSource::rush_source`, `claim_early` |
//! | `Device::publish` | `LevelBottomUp::publish_words`, `store_word` |
//!
//! A device is one thread, so that its blocks' meeting in between is its order of statements.
//! Claims at the scope of a device are not atomic to others: here a load and a store.

#![allow(clippy::unwrap_used)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use millstream_models::{fails_with, holds, is_seeded};

#[derive(Clone, Copy)]
enum Fault {
    ClaimOfADevice,
    PublishByStores,
    PublishWhatIsNotOwned,
}

fn seeded(fault: Fault) -> bool {
    is_seeded(fault as usize)
}

/// Bits of the word that each device owns; its row leads to all but the highest, twice to the
/// lowest.
const OWNED: [u64; 2] = [0b0111, 0b11_1000];
const TARGETS: [[u64; 3]; 2] = [[0, 1, 0], [3, 4, 3]];
/// Others may be told what is not so only if a device publishes more than its own: a bit that
/// the second has set for a message to the first.
const TOLD: u64 = 1 << 2;

/// What all devices have.
#[derive(Default)]
struct Memory {
    /// Each device's copy of the word.
    words: [AtomicU64; 2],
    arrived: AtomicU64,
    found: AtomicU64,
}

struct Device {
    memory: Arc<Memory>,
    here: usize,
}

impl Device {
    fn rush(&self) {
        let word = &self.memory.words[self.here];
        let mut found = 0;
        for bit in TARGETS[self.here].map(|target| 1 << target) {
            let before = if seeded(Fault::ClaimOfADevice) {
                let before = word.load(Ordering::Relaxed);
                word.store(before | bit, Ordering::Relaxed);
                before
            } else {
                word.fetch_or(bit, Ordering::Relaxed)
            };
            found += u64::from(before & bit == 0);
        }
        self.memory.found.fetch_add(found, Ordering::Relaxed);
    }

    fn publish(&self) {
        let mut its = self.memory.words[self.here].load(Ordering::Relaxed);
        if !seeded(Fault::PublishWhatIsNotOwned) {
            its &= OWNED[self.here];
        }
        for word in &self.memory.words {
            if seeded(Fault::PublishByStores) {
                word.store(its, Ordering::Relaxed);
            } else {
                word.fetch_or(its, Ordering::Relaxed);
            }
        }
    }

    fn run(self) {
        self.rush();
        self.publish();
        // The gang's barrier, which has a model of its own.
        self.memory.arrived.fetch_add(1, Ordering::AcqRel);
        while self.memory.arrived.load(Ordering::Acquire) < 2 {
            thread::yield_now();
        }
        assert_eq!(self.memory.found.load(Ordering::Relaxed), 4, "vertices found twice or never");
        let word = self.memory.words[self.here].load(Ordering::Relaxed);
        let told = if self.here == 1 { TOLD } else { 0 };
        assert_eq!(word, 0b01_1011 | told, "not what was visited");
    }
}

fn two_devices() {
    let memory = Arc::new(Memory::default());
    memory.words[1].store(TOLD, Ordering::Relaxed);
    let device = |here| Device { memory: Arc::clone(&memory), here };
    let other = device(1);
    let other = thread::spawn(move || other.run());
    device(0).run();
    other.join().unwrap();
}

#[test]
fn both_know_what_both_have_visited() {
    holds(two_devices);
}

#[test]
fn claims_that_are_not_atomic_to_others_are_caught() {
    fails_with(Fault::ClaimOfADevice as usize, two_devices);
}

#[test]
fn words_stored_over_others_bits_are_caught() {
    fails_with(Fault::PublishByStores as usize, two_devices);
}

#[test]
fn bits_of_vertices_that_are_not_owned_are_caught() {
    fails_with(Fault::PublishWhatIsNotOwned as usize, two_devices);
}
