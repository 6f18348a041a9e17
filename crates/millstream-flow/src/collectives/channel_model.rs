//! The part of `peer_model.rs` that models channels: tiles that go along a chain and round a ring.

use super::chain_settings::Chain;
use super::peer_model::{Fault, Model, Way};

/// Slots of a channel: more than the tiles of each part that go round a ring together.
const SLOTS: u64 = 4;
const TOGETHER: u64 = 2;

/// A channel in the memory of one rank.
#[derive(Default)]
pub(super) struct Channel {
    arrived: u64,
    received: u64,
    taken: u64,
    sent: u64,
    slots: [u64; SLOTS as usize],
}

impl Model {
    /// The rank before, unless this one is the chain's first, and the rank after, unless it is the last.
    fn neighbours(&self, rank: usize, number: usize) -> [Option<usize>; 2] {
        let Way::Chain(Chain { last, .. }, _) = self.collectives[number].way else {
            return [None; 2];
        };
        let ranks = self.ranks();
        let (before, next) = ((rank + ranks - 1) % ranks, (rank + 1) % ranks);
        [(before != last).then_some(before), (rank != last).then_some(next)]
    }

    /// Whether tiles are combined on the way.
    fn combines(&self, number: usize) -> bool {
        matches!(self.collectives[number].way, Way::Chain(Chain { combines: true, .. }, _))
    }

    /// The steps of a ring in the order in which a channel takes them, each with the item of the
    /// part that the tile is.
    pub(super) fn passages(&self, number: usize, channel: u64) -> Vec<(usize, u64)> {
        let Way::Ring(ring, channels) = &self.collectives[number].way else { return Vec::new() };
        let together = if self.fault == Fault::Crowded { SLOTS } else { TOGETHER };
        let longest = ring.longest();
        let mut passages = Vec::new();
        for first in (channel..longest).step_by((together * channels) as usize) {
            for step in 0..=ring.last {
                let tiles = (0..together).map(|tile| (step, first + tile * channels));
                passages.extend(tiles.filter(|(_, at)| *at < longest));
            }
        }
        passages
    }

    /// Waits for a tile, and for room where it goes; then passes it on. False if it must wait.
    pub(super) fn pass(
        &mut self,
        rank: usize,
        number: usize,
        channel: u64,
        step: usize,
        at: u64,
    ) -> bool {
        let Way::Ring(ring, _) = self.collectives[number].way else { return false };
        let ranks = self.ranks();
        let (before, next) = ((rank + ranks - 1) % ranks, (rank + 1) % ranks);
        let (receives, sends) = (step > 0, step < ring.last);
        let part = ring.parts[(rank + 2 * ranks - 1 - step) % ranks];
        let is_item = at < part.len;
        let has_own = is_item && step < ranks;
        let own = if has_own { self.input(rank, part.source + at) } else { 0 };
        let fault = self.fault;
        let its = self.channels.entry((rank, channel)).or_default();
        if fault == Fault::Forgetful && at == channel && !receives {
            (its.received, its.sent) = (0, 0);
        }
        let (received, sent) = (its.received, its.sent);
        let has_room = fault == Fault::NoRoom || sent < its.taken + SLOTS;
        if (sends && !has_room) || (receives && its.arrived <= received) {
            return false;
        }
        let arrived = if receives { its.slots[(received % SLOTS) as usize] } else { 0 };
        its.received += u64::from(receives);
        its.sent += u64::from(sends);
        let item = own.wrapping_add(arrived);
        if sends {
            let next = self.channels.entry((next, channel)).or_default();
            next.slots[(sent % SLOTS) as usize] = item;
            next.arrived = sent + 1;
        }
        if receives {
            self.channels.entry((before, channel)).or_default().taken = received + 1;
        }
        if is_item && step + 1 >= ranks {
            self.outputs[rank][(part.target + at) as usize] = item;
        }
        true
    }

    pub(super) fn channels_of(&self, number: usize) -> u64 {
        let Way::Chain(_, channels) = self.collectives[number].way else { return 1 };
        channels
    }

    /// The channel that a tile goes through.
    fn channel(&mut self, rank: usize, number: usize, at: u64) -> &mut Channel {
        let channel = at % self.channels_of(number);
        self.channels.entry((rank, channel)).or_default()
    }

    /// Waits for a tile, and for room where it goes; returns its item.
    pub(super) fn take(&mut self, rank: usize, number: usize, at: u64) -> Option<u64> {
        let [before, next] = self.neighbours(rank, number);
        let (own, fault) = (self.input(rank, at), self.fault);
        let (is_first, combines) = (at < self.channels_of(number), self.combines(number));
        let channel = self.channel(rank, number, at);
        if is_first && fault == Fault::Forgetful {
            (channel.received, channel.sent) = (0, 0);
        }
        let has_room = fault == Fault::NoRoom || channel.sent < channel.taken + SLOTS;
        if (next.is_some() && !has_room)
            || (before.is_some() && channel.arrived <= channel.received)
        {
            return None;
        }
        let arrived = before.map(|_| channel.slots[(channel.received % SLOTS) as usize]);
        let own = if arrived.is_none() || combines { own } else { 0 };
        Some(own.wrapping_add(arrived.unwrap_or(0)))
    }

    pub(super) fn give(&mut self, rank: usize, number: usize, at: u64, item: u64) {
        let [before, next] = self.neighbours(rank, number);
        let channel = self.channel(rank, number, at);
        let (received, sent) = (channel.received, channel.sent);
        channel.received += u64::from(before.is_some());
        channel.sent += u64::from(next.is_some());
        if let Some(next) = next {
            let channel = self.channel(next, number, at);
            channel.slots[(sent % SLOTS) as usize] = item;
            channel.arrived = sent + 1;
        }
        if next.is_none() || !self.combines(number) {
            self.outputs[rank][at as usize] = item;
        }
        if let Some(before) = before {
            self.channel(before, number, at).taken = received + 1;
        }
    }
}
