//! The peer ring without its devices: who may fill which packet slot, and when.
//! States, orderings and the map to `kernels/peer_ring.cuh` are in `README.md`.

use crate::sync::{AtomicU32, Fault, Ordering, seeded};

/// Words in the sender's memory.
#[derive(Debug)]
struct SenderWords {
    /// Slots claimed so far. Written by the sender's blocks.
    tail: AtomicU32,
    /// Slots given back so far. Written by the receiver.
    head: AtomicU32,
}

/// Words of one slot, in the receiver's memory. Written by the block that
/// claimed the slot.
#[derive(Debug)]
struct SlotWords {
    /// Position of the packet that the slot holds, plus one.
    epoch: AtomicU32,
    /// Items in the packet.
    count: AtomicU32,
}

/// The words of a ring from one sender to one receiver. Payloads are the
/// caller's: slot `s` of `capacity` belongs to whoever holds its [`Claim`] or its
/// [`Packet`].
#[derive(Debug)]
pub(crate) struct PeerRing {
    sender: SenderWords,
    slots: Box<[SlotWords]>,
}

/// A slot that its holder alone may fill.
#[derive(Debug)]
#[must_use = "the receiver stops at a claimed slot until it is published"]
pub(crate) struct Claim {
    position: u32,
    /// Where the payload goes.
    pub(crate) slot: usize,
}

/// A packet that has arrived.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    /// Where the payload is, until the slot is given back.
    pub(crate) slot: usize,
    /// Items in it.
    pub(crate) count: u32,
}

impl PeerRing {
    /// An empty ring whose first packet has position `first` (0 but for the
    /// models, which start just before positions wrap around).
    ///
    /// # Panics
    /// If `capacity` is not a power of two: slots would move when positions wrap
    /// around.
    pub(crate) fn new(capacity: u32, first: u32) -> PeerRing {
        assert!(capacity.is_power_of_two(), "{capacity} slots: not a power of two");
        // An epoch that no position of the first lap publishes.
        let slot = |_| SlotWords { epoch: AtomicU32::new(first), count: AtomicU32::new(0) };
        PeerRing {
            sender: SenderWords { tail: AtomicU32::new(first), head: AtomicU32::new(first) },
            slots: (0..capacity).map(slot).collect(),
        }
    }

    fn slot_of(&self, position: u32) -> usize {
        position as usize & (self.slots.len() - 1)
    }

    /// Claims the next slot if the receiver has given it back, whose payload the
    /// caller has ready: a claimed slot holds up all later ones.
    pub(crate) fn try_claim(&self) -> Option<Claim> {
        let capacity = self.slots.len() as u32;
        let mut tail = self.sender.tail.load(Ordering::Relaxed);
        loop {
            // Pairs with `give_back`: the receiver's reads come before our writes.
            let head = self.sender.head.load(Ordering::Acquire);
            let outstanding = tail.wrapping_sub(head);
            // More than capacity: `tail` is older than `head`, and the exchange
            // fails and reads it again.
            if outstanding == capacity {
                return None;
            }
            // Orders nothing: the slot's own epoch publishes the payload.
            let next = tail.wrapping_add(1);
            match self.exchange_tail(tail, next) {
                Ok(_) => return Some(Claim { position: tail, slot: self.slot_of(tail) }),
                Err(newer) => tail = newer,
            }
        }
    }

    fn exchange_tail(&self, tail: u32, next: u32) -> Result<u32, u32> {
        if seeded(Fault::ClaimByStore) {
            self.sender.tail.store(next, Ordering::Relaxed);
            return Ok(tail);
        }
        self.sender.tail.compare_exchange(tail, next, Ordering::Relaxed, Ordering::Relaxed)
    }

    /// Makes the filled slot visible to the receiver.
    pub(crate) fn publish(&self, claim: Claim, count: u32) {
        let words = &self.slots[claim.slot];
        let epoch = claim.position.wrapping_add(1);
        if seeded(Fault::EpochBeforePayload) {
            words.epoch.store(epoch, Ordering::Release);
            return words.count.store(count, Ordering::Relaxed);
        }
        words.count.store(count, Ordering::Relaxed);
        // Pairs with `take`: payload and count come before the epoch.
        let order = match seeded(Fault::EpochWithoutRelease) {
            true => Ordering::Relaxed,
            false => Ordering::Release,
        };
        words.epoch.store(epoch, order);
    }
}

/// The only receiver of a ring.
#[derive(Debug)]
pub(crate) struct RingReceiver {
    /// Position of the next packet. In the receiver's own memory.
    next: u32,
}

impl RingReceiver {
    /// The receiver of a ring made with the same `first`.
    pub(crate) fn new(first: u32) -> RingReceiver {
        RingReceiver { next: first }
    }

    /// The next packet in order of position, if it is there: a later one that is
    /// does not overtake it.
    pub(crate) fn take(&mut self, ring: &PeerRing) -> Option<Packet> {
        let slot = ring.slot_of(self.next);
        let words = &ring.slots[slot];
        let expected = self.next.wrapping_add(1);
        // Pairs with `publish`.
        if words.epoch.load(Ordering::Acquire) != expected {
            return None;
        }
        self.next = expected;
        Some(Packet { slot, count: words.count.load(Ordering::Relaxed) })
    }

    /// Gives back every slot taken so far, whose payloads are read.
    pub(crate) fn give_back(&self, ring: &PeerRing) {
        // Pairs with `try_claim`: our reads come before the sender's next writes.
        let order = match seeded(Fault::CreditWithoutRelease) {
            true => Ordering::Relaxed,
            false => Ordering::Release,
        };
        ring.sender.head.store(self.next, order);
    }
}
