//! Full buffers of the fused worker, step by step as in `kernels/src/fused.cuh`, around the
//! production peer ring, under every interleaving: two devices send to each other through rings
//! of one slot and outboxes of one entry, and at the start all of these are full.
//!
//! | here | there |
//! |---|---|
//! | `Block::receive`, `Block::split_receive` | `Gang::receive`, with `Split::receive` for one item |
//! | `Block::send` | `Gang::send`, for packets of one item |
//! | `Outbox::put` | `Queue::mark`, `OpenQueue::put_or_overflow` |
//! | `Outbox::take` | `OpenQueue::reserve` and `look`, or else `Sweep::next` |
//!
//! A block is one thread. A step looks at memory in the order of one lock: the orders that rings
//! and outboxes need `peer_ring.rs` and `ticket_queue.rs` show. Nobody waits, so that loom sees an
//! end of every interleaving: after some steps of all blocks one thread goes on with them as long
//! as any can, and then nothing may be left.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../../../crates/millstream-flow/src/peer_ring/core.rs"]
mod core;
mod sync {
    // Not loom's: the lock orders what is done to them.
    pub(crate) use std::sync::atomic::{AtomicU32, Ordering};

    /// The faults of the production file, which `peer_ring.rs` seeds.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Fault {
        ClaimByStore,
        ClaimBesideOldHead,
        EpochBeforePayload,
        EpochWithoutRelease,
        CreditWithoutRelease,
    }

    pub(crate) fn seeded(_: Fault) -> bool {
        false
    }
}

use core::{PeerRing, RingReceiver, SENDER_WORDS, SLOT_WORDS};
use std::sync::atomic::{AtomicU32, Ordering};

use loom::sync::{Arc, Mutex};
use loom::thread;
use millstream_models::{fails_with, holds_within_two, is_seeded};

#[derive(Clone, Copy)]
enum Fault {
    /// A receiving block waits for credit of its own device before it takes a packet.
    CreditBeforeTaking,
    /// It sends what it passes on itself, and has the slot meanwhile.
    PassWithoutOutbox,
    /// It waits until the outbox has an entry for what it passes on.
    RoomInOutbox,
    /// What finds no entry leaves no bit either.
    OverflowWithoutBit,
}

fn seeded(fault: Fault) -> bool {
    is_seeded(fault as usize)
}

const DEVICES: usize = 2;
/// Of each block, before one thread goes on.
const STEPS: usize = 3;

#[derive(Clone, Copy, Default)]
struct Item {
    name: usize,
    /// Devices that pass it on before it stays.
    passes: u32,
}

/// What a device has for the other one: room for every item, in bits, of which one may have
/// the entry.
#[derive(Default)]
struct Outbox {
    entry: Option<Item>,
    overflowed: Vec<Item>,
}

impl Outbox {
    fn put(&mut self, item: Item) {
        match self.entry {
            None => self.entry = Some(item),
            Some(_) if seeded(Fault::OverflowWithoutBit) => {}
            Some(_) => self.overflowed.push(item),
        }
    }

    fn take(&mut self) -> Option<Item> {
        self.entry.take().or_else(|| self.overflowed.pop())
    }
}

/// The ring out of a device, of one slot.
#[derive(Default)]
struct Ring {
    sender: [AtomicU32; SENDER_WORDS],
    slots: [AtomicU32; SLOT_WORDS],
    payload: Item,
}

impl Ring {
    fn core(&self) -> PeerRing<'_> {
        PeerRing::new(&self.sender, &self.slots).unwrap()
    }

    /// As `try_claim` finds it.
    fn has_credit(&self) -> bool {
        let [tail, head] = [0, 1].map(|word| self.sender[word].load(Ordering::Relaxed));
        tail == head
    }

    fn try_send(&mut self, item: Item) -> Option<()> {
        let claim = self.core().try_claim()?;
        self.payload = item;
        self.core().publish(claim, 1);
        Some(())
    }

    fn take(&self, receiver: &mut RingReceiver) -> Option<Item> {
        receiver.take(self.core()).map(|_| self.payload)
    }
}

/// The memory of all devices.
#[derive(Default)]
struct Room {
    /// Out of each device.
    rings: [Ring; DEVICES],
    outboxes: [Outbox; DEVICES],
    delivered: Vec<usize>,
}

enum Role {
    Receives(RingReceiver),
    Sends,
}

/// A block of a device. Between its steps it may have an item.
struct Block {
    role: Role,
    here: usize,
    item: Option<Item>,
}

impl Block {
    /// A step, if it can make one.
    fn step(&mut self, room: &mut Room) -> Option<()> {
        match self.role {
            Role::Receives(_) => self.receive(room),
            Role::Sends => self.send(room),
        }
    }

    fn receive(&mut self, room: &mut Room) -> Option<()> {
        let (here, from) = (self.here, 1 - self.here);
        let Role::Receives(receiver) = &mut self.role else { return None };
        let Some(item) = self.item else {
            if seeded(Fault::CreditBeforeTaking) && !room.rings[here].has_credit() {
                return None;
            }
            self.item = Some(room.rings[from].take(receiver)?);
            return Some(());
        };
        Block::split_receive(room, here, item)?;
        self.item = None;
        receiver.give_back(room.rings[from].core());
        Some(())
    }

    /// Keeps an item or passes it on; `None`, with a seeded fault, where it has to wait for that.
    fn split_receive(room: &mut Room, here: usize, item: Item) -> Option<()> {
        let Some(passes) = item.passes.checked_sub(1) else {
            room.delivered.push(item.name);
            return Some(());
        };
        let item = Item { passes, ..item };
        if seeded(Fault::PassWithoutOutbox) {
            return room.rings[here].try_send(item);
        }
        if seeded(Fault::RoomInOutbox) && room.outboxes[here].entry.is_some() {
            return None;
        }
        room.outboxes[here].put(item);
        Some(())
    }

    fn send(&mut self, room: &mut Room) -> Option<()> {
        let here = self.here;
        let Some(item) = self.item else {
            self.item = Some(room.outboxes[here].take()?);
            return Some(());
        };
        room.rings[here].try_send(item)?;
        self.item = None;
        Some(())
    }
}

/// Each device has an item in its ring, one with its sending block and one in its outbox. They
/// are passed on so often before they stay.
fn all_are_full(passes: [u32; 3]) -> impl Fn() + Sync + Send + 'static {
    move || {
        let items = passes.len();
        let item = |here, place| Item { name: here * items + place, passes: passes[place] };
        let (mut room, mut blocks) = (Room::default(), Vec::new());
        for here in 0..DEVICES {
            room.rings[here].try_send(item(here, 0)).unwrap();
            room.outboxes[here].put(item(here, 2));
            let receives = Role::Receives(RingReceiver::new(0));
            blocks.push(Block { role: receives, here, item: None });
            blocks.push(Block { role: Role::Sends, here, item: Some(item(here, 1)) });
        }
        let room = Arc::new(Mutex::new(room));
        let start = |mut block: Block| {
            let room = Arc::clone(&room);
            thread::spawn(move || {
                for _ in 0..STEPS {
                    let _ = block.step(&mut room.lock().unwrap());
                }
                block
            })
        };
        let threads: Vec<_> = blocks.into_iter().map(start).collect();
        let blocks = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        finish(&mut room.lock().unwrap(), blocks);
    }
}

/// Goes on alone, as long as it leads anywhere.
fn finish(room: &mut Room, mut blocks: Vec<Block>) {
    while blocks.iter_mut().filter_map(|block| block.step(room)).count() > 0 {}
    assert!(blocks.iter().all(|block| block.item.is_none()), "somebody waits for ever");
    room.delivered.sort_unstable();
    let all: Vec<_> = (0..3 * DEVICES).collect();
    assert_eq!(room.delivered, all, "an item is lost, or delivered twice");
}

/// What is in the rings goes back where it came from.
fn items_that_come_back() -> impl Fn() + Sync + Send + 'static {
    all_are_full([1, 0, 0])
}

#[test]
fn full_buffers_are_no_cycle() {
    holds_within_two(items_that_come_back());
    holds_within_two(all_are_full([2, 1, 3]));
}

#[test]
fn waiting_for_credit_before_taking_is_caught() {
    fails_with(Fault::CreditBeforeTaking as usize, items_that_come_back());
}

#[test]
fn passing_on_without_the_outbox_is_caught() {
    fails_with(Fault::PassWithoutOutbox as usize, items_that_come_back());
}

#[test]
fn waiting_for_room_in_the_outbox_is_caught() {
    fails_with(Fault::RoomInOutbox as usize, items_that_come_back());
}

#[test]
fn an_overflow_without_its_bit_is_caught() {
    fails_with(Fault::OverflowWithoutBit as usize, items_that_come_back());
}
