//! Claims of a full/empty segment's packets: the production file under every interleaving, with
//! copies that wait for one packet to be empty and change its word when they are over.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../../../crates/millstream-flow/src/full_empty/claims.rs"]
mod claims;
mod sync {
    pub(crate) use millstream_models::Mutex;

    /// The faults of the production file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Fault {
        ClaimBesideOthers,
        GiveBackInSilence,
        ClaimAfterTheLook,
    }

    pub(crate) fn seeded(fault: Fault) -> bool {
        millstream_models::is_seeded(fault as usize)
    }
}

use claims::{Claims, Use};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Arc, Condvar, Mutex as LoomMutex};
use loom::thread;
use millstream_models::{fails_with, holds};
use sync::{Fault, seeded};

const PACKET: std::ops::Range<usize> = 0..1;

/// The word that says that the claim is over, if it showed another.
type Holder = Option<u32>;

/// A packet, and a bell as the device layer has it: who waits asks for the number of rings first.
struct Packet {
    claims: Claims<Holder>,
    /// 1: full.
    word: AtomicU32,
    item: UnsafeCell<u32>,
    rings: LoomMutex<u32>,
    rung: Condvar,
}

// SAFETY: what the model is about: only who has claimed the packet touches the item, and loom fails
// where two accesses are not ordered.
unsafe impl Sync for Packet {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Packet {}

impl Packet {
    fn new() -> Arc<Packet> {
        let (claims, word, item) = (Claims::default(), AtomicU32::new(0), UnsafeCell::new(0));
        let (rings, rung) = (LoomMutex::new(0), Condvar::new());
        Arc::new(Packet { claims, word, item, rings, rung })
    }

    fn is_full(&self) -> bool {
        self.word.load(Ordering::Acquire) == 1
    }

    fn ring(&self) {
        *self.rings.lock().unwrap() += 1;
        self.rung.notify_all();
    }

    /// By a copy that leaves this word there, or by who changes nothing.
    fn claim(&self, usage: Use, leaves: Option<u32>) -> Option<u64> {
        let word = || self.word.load(Ordering::Acquire);
        let holder = |_| leaves.filter(|&leaves| word() != leaves);
        let over = |_, holder: &Holder, was_alone| was_alone && *holder == Some(word());
        self.claims.claim(PACKET, usage, holder, over, |_| false).ok()
    }

    fn give_back(&self, number: u64) {
        if self.claims.give_back(PACKET, number) {
            self.ring();
        }
    }

    /// Claims the packet when it is full, or empty.
    fn wait(&self, full: bool, usage: Use, leaves: Option<u32>) -> u64 {
        loop {
            let seen = *self.rings.lock().unwrap();
            if self.is_full() == full
                && let Some(number) = self.claim(usage, leaves)
            {
                // The word may have changed between the look and the claim.
                if self.is_full() == full || seeded(Fault::ClaimAfterTheLook) {
                    return number;
                }
                self.give_back(number);
            }
            let mut rings = self.rings.lock().unwrap();
            while *rings == seen {
                rings = self.rung.wait(rings).unwrap();
            }
        }
    }

    /// A copy that waits for an empty packet, and fills it.
    fn fill(&self, value: u32) {
        let number = self.wait(false, Use::Write, Some(1));
        // SAFETY: the packet is claimed.
        self.item.with_mut(|item| unsafe { *item = value });
        self.word.store(1, Ordering::Release);
        self.ring();
        self.give_back(number);
    }

    /// A copy that waits for a full packet, and empties it: what was in it.
    fn take(&self) -> u32 {
        let number = self.wait(true, Use::Write, Some(0));
        // SAFETY: as above.
        let value = self.item.with(|item| unsafe { *item });
        self.word.store(0, Ordering::Release);
        self.ring();
        self.give_back(number);
        value
    }
}

/// Two copies into one packet, of which each is taken out once.
fn two_into_one() {
    let packet = Packet::new();
    let writers = [5, 7].map(|value| {
        let packet = Arc::clone(&packet);
        thread::spawn(move || packet.fill(value))
    });
    let taken = packet.take() + packet.take();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_eq!(taken, 12, "one was lost");
    assert!(!packet.is_full());
}

/// Host code writes a packet while two copies go there, and each is taken out once.
fn host_code_beside_two_copies() {
    let packet = Packet::new();
    let writers = [5, 7].map(|value| {
        let packet = Arc::clone(&packet);
        thread::spawn(move || packet.fill(value))
    });
    packet.take();
    if let Some(number) = packet.claim(Use::Write, None) {
        // SAFETY: the packet is claimed.
        packet.item.with_mut(|item| unsafe { *item = 4 });
        packet.give_back(number);
    }
    packet.take();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert!(!packet.is_full());
}

/// Host code writes a packet that a copy reads, each when the other is not at it.
fn host_code_beside_a_copy() {
    let packet = Packet::new();
    packet.fill(3);
    let host = {
        let packet = Arc::clone(&packet);
        thread::spawn(move || {
            if let Some(number) = packet.claim(Use::Write, None) {
                // SAFETY: the packet is claimed.
                packet.item.with_mut(|item| unsafe { *item = 4 });
                packet.give_back(number);
            }
        })
    };
    let number = packet.wait(true, Use::Read, None);
    // SAFETY: as above.
    let value = packet.item.with(|item| unsafe { *item });
    packet.give_back(number);
    host.join().unwrap();
    assert!(value == 3 || value == 4);
}

#[test]
fn of_two_copies_into_one_packet_none_is_lost() {
    holds(two_into_one);
}

#[test]
fn one_writes_or_many_read() {
    holds(host_code_beside_a_copy);
    holds(host_code_beside_two_copies);
}

#[test]
fn two_at_once_are_caught() {
    fails_with(Fault::ClaimBesideOthers as usize, two_into_one);
}

#[test]
fn a_claim_by_an_old_look_is_caught() {
    fails_with(Fault::ClaimAfterTheLook as usize, two_into_one);
}

#[test]
fn refusing_and_telling_nobody_is_caught() {
    fails_with(Fault::GiveBackInSilence as usize, host_code_beside_a_copy);
}
