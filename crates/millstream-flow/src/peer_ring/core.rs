//! The peer ring without its devices: who may fill which packet slot, and when.
//! States, orderings and the map to `kernels/peer_ring.cuh` are in `README.md`.

use crate::sync::{AtomicU32, Fault, Ordering, seeded};

/// Words in the sender's memory: the number of slots claimed so far, written by the sender's
/// blocks, and the number of slots given back so far, written by the receiver.
pub(crate) const SENDER_WORDS: usize = 2;
const TAIL: usize = 0;
const HEAD: usize = 1;

/// Words of one slot, in the receiver's memory, written by the block that claimed the slot: the
/// position, plus one, of the packet that the slot holds; its number of items; and room for items
/// where GPUs send only few.
pub(crate) const SLOT_WORDS: usize = 4;
const EPOCH: usize = 0;
const COUNT: usize = 1;

/// The words of a ring from one sender to one receiver, all 0 at the start. Payloads are
/// the caller's: a slot belongs to whoever holds its [`Claim`] or its [`Packet`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerRing<'a> {
    sender: &'a [AtomicU32],
    slots: &'a [AtomicU32],
}

/// A slot that only its holder may fill.
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
    /// Items in the packet.
    pub(crate) count: u32,
}

impl<'a> PeerRing<'a> {
    /// A ring in [`SENDER_WORDS`] words, and [`SLOT_WORDS`] for each of its slots. The number of
    /// slots must be a power of two below 2^31: otherwise slots would move when positions wrap
    /// around. `None` if it is not.
    pub(crate) fn new(sender: &'a [AtomicU32], slots: &'a [AtomicU32]) -> Option<PeerRing<'a>> {
        let capacity = slots.len() / SLOT_WORDS;
        let fits = sender.len() == SENDER_WORDS && slots.len().is_multiple_of(SLOT_WORDS);
        let has_capacity = capacity.is_power_of_two() && capacity < 1 << 31;
        (fits && has_capacity).then_some(PeerRing { sender, slots })
    }

    /// Packets claimed so far.
    pub(crate) fn claimed(&self) -> u32 {
        // Relaxed: only a sender's own claims are certain to be included.
        self.sender[TAIL].load(Ordering::Relaxed)
    }

    fn capacity(&self) -> u32 {
        (self.slots.len() / SLOT_WORDS) as u32
    }

    fn slot_of(&self, position: u32) -> usize {
        (position & (self.capacity() - 1)) as usize
    }

    fn word(&self, slot: usize, word: usize) -> &AtomicU32 {
        &self.slots[slot * SLOT_WORDS + word]
    }

    /// Claims the next slot, if the receiver has given it back. The caller must have the payload
    /// ready, since a claimed slot holds up all later ones.
    pub(crate) fn try_claim(&self) -> Option<Claim> {
        let mut tail = self.sender[TAIL].load(Ordering::Relaxed);
        loop {
            // Pairs with `give_back`: the receiver's reads come before our writes.
            let head = self.sender[HEAD].load(Ordering::Acquire);
            let outstanding = tail.wrapping_sub(head).cast_signed();
            // Either of the two may be older than the other. If `tail` is, the difference may be
            // below 0: the exchange then fails and reads `tail` again. If `head` is, it may exceed
            // the capacity: that is a refusal like any other.
            let is_refused = match seeded(Fault::ClaimBesideOldHead) {
                true => outstanding == self.capacity().cast_signed(),
                false => outstanding >= self.capacity().cast_signed(),
            };
            if is_refused {
                return None;
            }
            // Relaxed: the slot's own epoch publishes the payload.
            let next = tail.wrapping_add(1);
            match self.exchange_tail(tail, next) {
                Ok(_) => return Some(Claim { position: tail, slot: self.slot_of(tail) }),
                Err(newer) => tail = newer,
            }
        }
    }

    fn exchange_tail(&self, tail: u32, next: u32) -> Result<u32, u32> {
        if seeded(Fault::ClaimByStore) {
            self.sender[TAIL].store(next, Ordering::Relaxed);
            return Ok(tail);
        }
        self.sender[TAIL].compare_exchange(tail, next, Ordering::Relaxed, Ordering::Relaxed)
    }

    /// Makes the filled slot visible to the receiver.
    pub(crate) fn publish(&self, claim: Claim, count: u32) {
        let (epoch_word, count_word) = (self.word(claim.slot, EPOCH), self.word(claim.slot, COUNT));
        let epoch = claim.position.wrapping_add(1);
        if seeded(Fault::EpochBeforePayload) {
            epoch_word.store(epoch, Ordering::Release);
            return count_word.store(count, Ordering::Relaxed);
        }
        count_word.store(count, Ordering::Relaxed);
        // Pairs with `take`: payload and count come before the epoch.
        let order = match seeded(Fault::EpochWithoutRelease) {
            true => Ordering::Relaxed,
            false => Ordering::Release,
        };
        epoch_word.store(epoch, order);
    }
}

/// The only receiver of a ring.
#[derive(Debug)]
pub(crate) struct RingReceiver {
    /// Position of the next packet. It lies in the receiver's own memory.
    next: u32,
}

impl RingReceiver {
    /// A receiver that has taken this many packets.
    pub(crate) fn new(taken: u32) -> RingReceiver {
        RingReceiver { next: taken }
    }

    /// Packets taken so far.
    pub(crate) fn taken(&self) -> u32 {
        self.next
    }

    /// The next packet in order of position, if it is there. A later packet does not overtake it.
    pub(crate) fn take(&mut self, ring: PeerRing<'_>) -> Option<Packet> {
        let slot = ring.slot_of(self.next);
        let expected = self.next.wrapping_add(1);
        // Pairs with `publish`.
        if ring.word(slot, EPOCH).load(Ordering::Acquire) != expected {
            return None;
        }
        self.next = expected;
        Some(Packet { slot, count: ring.word(slot, COUNT).load(Ordering::Relaxed) })
    }

    /// Gives back all slots taken so far; their payloads must have been read.
    pub(crate) fn give_back(&self, ring: PeerRing<'_>) {
        // Pairs with `try_claim`: our reads come before the sender's next writes.
        let order = match seeded(Fault::CreditWithoutRelease) {
            true => Ordering::Relaxed,
            false => Ordering::Release,
        };
        ring.sender[HEAD].store(self.next, order);
    }
}
