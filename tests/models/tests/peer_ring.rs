//! Claim and credit, publishing and taking, several slots at a time, positions that wrap
//! around: the production peer ring under every interleaving.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../../../crates/millstream-flow/src/peer_ring/core.rs"]
mod core;
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU32, Ordering};

    /// The faults of the production file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Fault {
        ClaimByStore,
        ClaimBesideOldHead,
        EpochBeforePayload,
        EpochWithoutRelease,
        CreditWithoutRelease,
    }

    pub(crate) fn seeded(fault: Fault) -> bool {
        millstream_models::is_seeded(fault as usize)
    }
}

use core::{PeerRing, RingReceiver, SENDER_WORDS, SLOT_WORDS};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::thread;
use millstream_models::{fails_with, holds};
use sync::Fault;

/// A ring and its payloads, of which loom reports any unordered accesses.
struct Inbox {
    sender: Vec<AtomicU32>,
    slots: Vec<AtomicU32>,
    payloads: Vec<UnsafeCell<u32>>,
}

// SAFETY: what the models are about: only holders of a claim or a packet touch a
// payload, and loom fails where two accesses are not ordered.
unsafe impl Sync for Inbox {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Inbox {}

impl Inbox {
    /// An empty ring whose first packet has position `first`: with 0 that is memory of
    /// zeros, and with less than that positions soon wrap around. No position of the
    /// first lap publishes the epoch `first`.
    fn new(capacity: u32, first: u32) -> Inbox {
        let words = |count| (0..count).map(|_| AtomicU32::new(first)).collect();
        Inbox {
            sender: words(SENDER_WORDS),
            slots: words(capacity as usize * SLOT_WORDS),
            payloads: (0..capacity).map(|_| UnsafeCell::new(0)).collect(),
        }
    }

    fn ring(&self) -> PeerRing<'_> {
        PeerRing::new(&self.sender, &self.slots).unwrap()
    }

    /// Sends what there is credit for; the rest stays with the sender.
    fn send(&self, values: &[u32]) -> Vec<u32> {
        let mut sent = Vec::new();
        for value in values {
            let Some(claim) = self.ring().try_claim() else { continue };
            // SAFETY: the slot is ours until it is published.
            self.payloads[claim.slot].with_mut(|payload| unsafe { *payload = *value });
            self.ring().publish(claim, *value);
            sent.push(*value);
        }
        sent
    }

    /// Claims what there is credit for before it fills any, and publishes the last first.
    fn send_backwards(&self, values: &[u32]) -> Vec<u32> {
        let claims = values.iter().map_while(|value| Some((self.ring().try_claim()?, *value)));
        let mut claims: Vec<_> = claims.collect();
        let sent = claims.iter().map(|(_, value)| *value).collect();
        while let Some((claim, value)) = claims.pop() {
            // SAFETY: the slot is ours until it is published.
            self.payloads[claim.slot].with_mut(|payload| unsafe { *payload = value });
            self.ring().publish(claim, value);
        }
        sent
    }

    fn receive(&self, receiver: &mut RingReceiver) -> Option<u32> {
        let value = self.take(receiver)?;
        receiver.give_back(self.ring());
        Some(value)
    }

    /// Takes a packet, which is read and not given back.
    fn take(&self, receiver: &mut RingReceiver) -> Option<u32> {
        let packet = receiver.take(self.ring())?;
        // SAFETY: the slot is ours until it is given back.
        let value = self.payloads[packet.slot].with(|payload| unsafe { *payload });
        assert_eq!(packet.count, value);
        Some(value)
    }
}

/// Each of `senders` tries to send its values while they are received: what was
/// sent arrives, once, each sender's in its order, and all credit comes back.
/// Nobody waits, so that loom sees an end of every interleaving.
fn scenario<const SENDERS: usize>(
    capacity: u32,
    first: u32,
    senders: [&'static [u32]; SENDERS],
) -> impl Fn() + Sync + Send + 'static {
    move || {
        let inbox = Arc::new(Inbox::new(capacity, first));
        let threads = senders.map(|values| {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || inbox.send(values))
        });
        let mut receiver = RingReceiver::new(first);
        let mut received: Vec<u32> = (0..2).filter_map(|_| inbox.receive(&mut receiver)).collect();
        let sent = threads.map(|thread| thread.join().unwrap());
        received.extend(std::iter::from_fn(|| inbox.receive(&mut receiver)));

        assert!(!received.is_empty());
        assert_eq!(received.len(), sent.iter().map(Vec::len).sum::<usize>());
        for values in sent {
            let of_sender: Vec<u32> =
                received.iter().copied().filter(|value| values.contains(value)).collect();
            assert_eq!(of_sender, values);
        }
        let again = vec![0; capacity as usize + 1];
        assert_eq!(inbox.send(&again).len(), capacity as usize);
    }
}

/// A slot used again needs its credit first.
fn reuse() -> impl Fn() + Sync + Send + 'static {
    scenario(1, 0, [&[1, 2]])
}

/// Two blocks of the sender, one slot.
fn two_senders() -> impl Fn() + Sync + Send + 'static {
    scenario(1, 0, [&[1], &[2]])
}

/// One of two blocks of the sender goes through its slot twice: the other may know its last claim and not the
/// credit for that.
fn two_senders_and_an_old_head() -> impl Fn() + Sync + Send + 'static {
    scenario(1, 0, [&[1, 2], &[3]])
}

/// The sender fills two slots at a time, and the receiver gives two back at once.
fn two_at_a_time(first: u32) -> impl Fn() + Sync + Send + 'static {
    move || {
        let inbox = Arc::new(Inbox::new(2, first));
        let sender = {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || {
                let mut sent = inbox.send_backwards(&[1, 2]);
                sent.extend(inbox.send_backwards(&[3, 4]));
                sent
            })
        };
        let mut receiver = RingReceiver::new(first);
        let mut received = Vec::new();
        for _ in 0..2 {
            received.extend((0..2).map_while(|_| inbox.take(&mut receiver)));
            receiver.give_back(inbox.ring());
        }
        let sent = sender.join().unwrap();
        received.extend(std::iter::from_fn(|| inbox.receive(&mut receiver)));
        assert_eq!(received, sent);
        assert_eq!(inbox.send(&[0; 3]).len(), 2);
    }
}

#[test]
fn several_slots_are_filled_and_given_back_at_once() {
    holds(two_at_a_time(0));
    holds(two_at_a_time(u32::MAX));
}

#[test]
fn packets_arrive_in_order_and_slots_are_used_again() {
    holds(reuse());
    holds(scenario(2, 0, [&[1, 2, 3]]));
}

#[test]
fn two_senders_claim_different_slots() {
    holds(two_senders());
    holds(scenario(2, 0, [&[1], &[2]]));
    holds(two_senders_and_an_old_head());
}

#[test]
fn positions_wrap_around() {
    holds(scenario(1, u32::MAX, [&[1, 2]]));
    holds(scenario(2, u32::MAX - 1, [&[1, 2, 3]]));
    holds(scenario(2, u32::MAX, [&[1], &[2]]));
}

#[test]
fn a_claim_that_is_no_exchange_is_caught() {
    fails_with(Fault::ClaimByStore as usize, two_senders());
}

#[test]
fn a_claim_by_an_old_head_is_caught() {
    fails_with(Fault::ClaimBesideOldHead as usize, two_senders_and_an_old_head());
}

#[test]
fn an_epoch_before_the_payload_is_caught() {
    fails_with(Fault::EpochBeforePayload as usize, reuse());
}

#[test]
fn an_epoch_without_release_is_caught() {
    fails_with(Fault::EpochWithoutRelease as usize, reuse());
}

#[test]
fn credit_without_release_is_caught() {
    fails_with(Fault::CreditWithoutRelease as usize, reuse());
}
