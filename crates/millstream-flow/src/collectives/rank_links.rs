//! What a communicator keeps between its collectives in packets: the ways from rank to rank, their
//! statistics, and memory. The host takes long to get a GPU's memory, and must not wait for it.

use std::collections::VecDeque;

use millstream_device::{Device, DeviceBuffer, Event, Topology};

use crate::context::Context;
use crate::statistics::LinkStatistics;
use crate::ways::Ways;
use crate::{Item, Result};

/// Packet buffers of each pair of ranks: one fills while another is emptied.
const PACKETS: usize = 2;

/// Memory for items of any type.
type Memory = DeviceBuffer<u64>;

/// From one rank to another.
#[derive(Debug)]
pub(super) struct RankLink {
    pub(super) ways: Ways,
    pub(super) statistics: LinkStatistics,
    /// Free packet buffers in the receiver's memory, and in the host's; `None` before the first packet.
    free: [Option<VecDeque<Packet<u64>>>; 2],
}

/// A packet buffer, which is free after an event.
#[derive(Debug)]
pub(super) struct Packet<T: Item> {
    pub(super) buffer: DeviceBuffer<T>,
    pub(super) free_after: Option<Event>,
}

impl<T: Item> Packet<T> {
    fn cast<U: Item>(self) -> Packet<U> {
        Packet { buffer: self.buffer.cast(), free_after: self.free_after }
    }
}

impl RankLink {
    /// A packet buffer for `items` items: the one that has been free for longest or, if there is
    /// none, a new one of `owner`.
    pub(super) fn packet<T: Item>(
        &mut self,
        through_host: bool,
        items: usize,
        owner: &Device,
    ) -> Result<Packet<T>> {
        let LinkStatistics { from, to, .. } = &self.statistics;
        // Rounded up, so that somewhat larger packets will fit, too.
        let bytes = items.saturating_mul(size_of::<T>()).next_power_of_two();
        let new = || -> Result<Packet<u64>> {
            let buffer = memory(owner, bytes)?;
            let buffer = buffer.with_label(format!("packet buffer from {from} to {to}"));
            Ok(Packet { buffer, free_after: None })
        };
        let free = match &mut self.free[usize::from(through_host)] {
            Some(free) => free,
            first => first.insert((0..PACKETS).map(|_| new()).collect::<Result<_>>()?),
        };
        let known = free.pop_front().map(Packet::cast::<T>);
        let large_enough = known.filter(|packet| packet.buffer.len() >= items);
        large_enough.map_or_else(|| Ok(new()?.cast()), Ok)
    }

    /// Takes a packet buffer back.
    pub(super) fn give_back<T: Item>(&mut self, through_host: bool, packet: Packet<T>) {
        let free = self.free[usize::from(through_host)].get_or_insert_default();
        free.push_back(packet.cast());
    }
}

/// What memory of a rank is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    /// A copy of its input.
    Copy,
    /// What passes through it.
    Passing,
}

#[derive(Debug)]
pub(super) struct RankLinks {
    /// From each rank to each other rank.
    links: Vec<Vec<RankLink>>,
    /// For each rank and purpose.
    memory: Vec<[Option<Memory>; 2]>,
}

impl RankLinks {
    pub(super) fn new(context: &Context) -> RankLinks {
        let (asked_for, table) = (context.transfer(), context.topology().transfer_table());
        let devices = context.devices();
        let link = |from: &Device, to: &Device| RankLink {
            ways: Ways::new(asked_for, table, from, to),
            statistics: LinkStatistics::new(from.name(), to.name()),
            free: [None, None],
        };
        let links = |from| devices.iter().map(|to| link(from, to)).collect();
        let links = devices.iter().map(links).collect();
        RankLinks { links, memory: devices.iter().map(|_| [None, None]).collect() }
    }

    pub(super) fn link(&mut self, from: usize, to: usize) -> &mut RankLink {
        &mut self.links[from][to]
    }

    /// The statistics of all pairs of ranks.
    pub(super) fn statistics(&self) -> Vec<LinkStatistics> {
        let links = self.links.iter().flatten().map(|link| &link.statistics);
        links.filter(|statistics| statistics.packets > 0).cloned().collect()
    }

    /// Microseconds that a packet of `bytes` of a message of `message_bytes` takes on its way, if
    /// that was measured.
    pub(super) fn time_us(
        &self,
        topology: &Topology,
        (from, to): (usize, usize),
        bytes: usize,
        message_bytes: usize,
    ) -> Option<f64> {
        let names = topology.names();
        let way = self.links[from][to].ways.of(bytes, message_bytes, || false);
        topology.transfer_table()?.time_us(way, &names[from], &names[to], bytes)
    }

    /// Memory of a rank for at least `items` items: what was kept from the last time, if that is enough.
    pub(super) fn take<T: Item>(
        &mut self,
        rank: usize,
        purpose: Purpose,
        items: usize,
        owner: &Device,
    ) -> Result<DeviceBuffer<T>> {
        let kept = self.memory[rank][purpose as usize].take().map(DeviceBuffer::cast);
        let large_enough = kept.filter(|buffer: &DeviceBuffer<T>| buffer.len() >= items);
        let label = match purpose {
            Purpose::Copy => "copy of the input of",
            Purpose::Passing => "what passes through",
        };
        large_enough.map_or_else(
            || {
                let bytes = items.saturating_mul(size_of::<T>());
                Ok(memory(owner, bytes)?.with_label(format!("{label} rank {rank}")).cast())
            },
            Ok,
        )
    }

    /// Keeps memory of a rank for the next time.
    pub(super) fn keep<T: Item>(&mut self, rank: usize, purpose: Purpose, buffer: DeviceBuffer<T>) {
        self.memory[rank][purpose as usize] = Some(buffer.cast());
    }
}

fn memory(owner: &Device, bytes: usize) -> Result<Memory> {
    Ok(owner.buffer_to_overwrite(bytes.div_ceil(size_of::<u64>()))?)
}
