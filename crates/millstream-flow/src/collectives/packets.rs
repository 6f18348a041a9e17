//! Collectives in packets over any devices. The sender's stream copies each transfer of the plan
//! into a packet buffer, and the receiver's stream places or combines it. The buffer is in the
//! receiver's memory, or in the host's if the way goes through that \[G §2.1\]. Events order the
//! streams; the host does not wait.

use std::collections::BTreeSet;
use std::ops::Range;

use millstream_device::{DeviceBuffer, Event, Stream, TransferWay};

use super::operands::Operands;
use super::operator::Operator;
use super::plan::{Pattern, Piece, Place, Plan, Round, Transfer};
use super::rank_links::{Packet, Purpose, RankLinks};
use crate::context::Context;
use crate::ways;
use crate::{Item, Result};

/// A transfer whose copy is submitted.
struct Sent<T: Item> {
    transfer: Transfer,
    packet: DeviceBuffer<T>,
    /// The way onward from the packet buffer, and whether that buffer is the host's.
    way: (TransferWay, bool),
    event: Event,
}

/// Where a collective reads and writes, on each rank.
pub(super) struct Areas<'b, T: Item> {
    inputs: Option<&'b [DeviceBuffer<T>]>,
    outputs: &'b mut [DeviceBuffer<T>],
    /// Whether inputs are sent as they are, so that only results go to the outputs.
    is_moved: bool,
    /// Copies of inputs, where the inputs or outputs themselves must not be sent from or worked on.
    copies: Vec<Option<DeviceBuffer<T>>>,
    /// Memory for what passes through each rank.
    passing: Vec<DeviceBuffer<T>>,
}

impl<T: Item> Areas<'_, T> {
    fn source(&self, Transfer { from, takes, .. }: &Transfer) -> &DeviceBuffer<T> {
        let rank = *from;
        match (&self.copies[rank], self.inputs) {
            _ if *takes == Place::Passing => &self.passing[rank],
            (Some(copy), _) => copy,
            (None, Some(inputs)) if self.is_moved => &inputs[rank],
            (None, _) => &self.outputs[rank],
        }
    }

    fn work(&mut self, Transfer { to, puts, .. }: &Transfer) -> &mut DeviceBuffer<T> {
        let rank = *to;
        match &mut self.copies[rank] {
            _ if *puts == Place::Passing => &mut self.passing[rank],
            Some(copy) if !self.is_moved => copy,
            _ => &mut self.outputs[rank],
        }
    }

    /// Copies a rank's whole input to its place in the output.
    fn place(&mut self, stream: &Stream, rank: usize, at: &Range<usize>) -> Result<()> {
        let Some(inputs) = self.inputs else { return Ok(()) };
        let place = self.outputs[rank].part_mut(at.clone())?;
        Ok(stream.copy(inputs[rank].part(0..at.len())?, place)?)
    }

    /// Copies the piece that a rank has for itself.
    fn keep(&mut self, stream: &Stream, rank: usize, piece: &Piece) -> Result<()> {
        let Piece { items, at } = piece.clone();
        // In place, it is there already.
        let Some(inputs) = self.inputs else { return Ok(()) };
        let place = self.outputs[rank].part_mut(at..at + items.len())?;
        Ok(stream.copy(inputs[rank].part(items)?, place)?)
    }
}

/// The packets of one collective.
pub(super) struct Packets<'a> {
    pub(super) context: &'a Context,
    pub(super) streams: &'a [Stream],
    pub(super) links: &'a mut RankLinks,
    /// Items of a packet at most.
    pub(super) items: usize,
    /// The most packets that follow each other.
    pub(super) slices: usize,
}

impl Packets<'_> {
    /// The areas that a pattern works on: the outputs, or copies if the outputs must keep what they contain.
    pub(super) fn areas<'b, T: Item>(
        &mut self,
        pattern: &Pattern,
        operands: Operands<'b, T>,
    ) -> Result<Areas<'b, T>> {
        let Operands { inputs, outputs } = operands;
        let is_moved = matches!(pattern, Pattern::AllToAll { .. });
        let copies = outputs.iter().map(|_| None).collect();
        let mut areas = Areas { inputs, outputs, is_moved, copies, passing: Vec::new() };
        let streams = self.streams;
        for (rank, stream) in streams.iter().enumerate() {
            match pattern {
                Pattern::Broadcast { root, items } | Pattern::Reduce { root, items }
                    if rank == *root =>
                {
                    areas.place(stream, rank, items)?;
                }
                Pattern::Broadcast { .. } => {}
                Pattern::AllReduce { items } => areas.place(stream, rank, items)?,
                Pattern::AllGather { parts } => areas.place(stream, rank, &parts[rank])?,
                Pattern::Reduce { .. } | Pattern::ReduceScatter { .. } => {
                    self.copy(&mut areas, rank)?;
                }
                Pattern::AllToAll { pieces } => {
                    if inputs.is_none() {
                        self.copy(&mut areas, rank)?;
                    }
                    areas.keep(stream, rank, &pieces[rank][rank])?;
                }
            }
        }
        Ok(areas)
    }

    /// Copies a rank's input.
    fn copy<T: Item>(&mut self, areas: &mut Areas<'_, T>, rank: usize) -> Result<()> {
        let (stream, input) = (&self.streams[rank], &areas.inputs.unwrap_or(areas.outputs)[rank]);
        let owner = stream.device();
        let mut copy = self.links.take(rank, Purpose::Copy, input.len(), owner)?;
        stream.copy(input, copy.part_mut(0..input.len())?)?;
        areas.copies[rank] = Some(copy);
        Ok(())
    }

    /// Puts the results where they belong.
    pub(super) fn finish<T: Item>(&mut self, pattern: &Pattern, areas: Areas<'_, T>) -> Result<()> {
        let Areas { inputs, outputs, copies, passing, .. } = areas;
        for (rank, copy) in copies.into_iter().enumerate() {
            let Some(copy) = copy else { continue };
            if let Pattern::ReduceScatter { parts } = pattern {
                let part = parts[rank].clone();
                let at = if inputs.is_none() { part.start } else { 0 };
                let place = outputs[rank].part_mut(at..at + part.len())?;
                self.streams[rank].copy(copy.part(part)?, place)?;
            }
            self.links.keep(rank, Purpose::Copy, copy);
        }
        for (rank, passing) in passing.into_iter().enumerate() {
            self.links.keep(rank, Purpose::Passing, passing);
        }
        Ok(())
    }

    /// Submits a plan whose transfers fit into a packet each.
    pub(super) fn run<T: Item>(
        &mut self,
        plan: Plan,
        areas: &mut Areas<'_, T>,
        operator: Option<&Operator<T>>,
    ) -> Result<()> {
        self.make_room(&plan, areas)?;
        for round in plan {
            let transfers = round.into_iter().filter(|transfer| !transfer.items.is_empty());
            let mut sent = Vec::new();
            for transfer in transfers {
                let source = areas.source(&transfer);
                sent.push(self.send(transfer, source)?);
            }
            for sent in sent {
                let here = areas.work(&sent.transfer);
                self.receive(sent, here, operator)?;
            }
        }
        Ok(())
    }

    /// Makes room for what passes through ranks: as much as the first plan needs, whose slice is the largest.
    fn make_room<T: Item>(&mut self, plan: &Plan, areas: &mut Areas<'_, T>) -> Result<()> {
        let passing = plan.iter().flatten().filter(|transfer| transfer.puts == Place::Passing);
        let wanted = passing.map(|transfer| transfer.at + transfer.items.len()).max();
        let Some(wanted) = wanted.filter(|_| areas.passing.is_empty()) else { return Ok(()) };
        for (rank, stream) in self.streams.iter().enumerate() {
            let owner = stream.device();
            areas.passing.push(self.links.take(rank, Purpose::Passing, wanted, owner)?);
        }
        Ok(())
    }

    fn send<T: Item>(&mut self, transfer: Transfer, source: &DeviceBuffer<T>) -> Result<Sent<T>> {
        let (from, to, count) = (transfer.from, transfer.to, transfer.items.len());
        let bytes = count * size_of::<T>();
        let stream = &self.streams[from];
        let link = self.links.link(from, to);
        let is_copying = || stream.device().is_copying();
        let way = link.ways.of(bytes, bytes.saturating_mul(self.slices), is_copying);
        let through_host = link.ways.through_host(way);
        let owner = if through_host { self.context.host() } else { self.streams[to].device() };
        let Packet { mut buffer, free_after } = link.packet(through_host, self.items, owner)?;
        if let Some(event) = &free_after {
            stream.wait(event)?;
        }
        let items = source.part(transfer.items.clone())?;
        let event = ways::copy(way, items, buffer.part_mut(0..count)?, stream)?;
        link.statistics.count(bytes as u64, way, through_host);
        Ok(Sent { transfer, packet: buffer, way: (way, through_host), event })
    }

    fn receive<T: Item>(
        &mut self,
        sent: Sent<T>,
        here: &mut DeviceBuffer<T>,
        operator: Option<&Operator<T>>,
    ) -> Result<()> {
        let Sent { transfer, packet: buffer, way: (way, through_host), event } = sent;
        let Transfer { from, to, items, at, combines, .. } = transfer;
        let stream = &self.streams[to];
        stream.wait(&event)?;
        let arrived = buffer.part(0..items.len())?;
        let place = here.part_mut(at..at + items.len())?;
        let free_after = match operator {
            Some(operator) if combines => {
                operator.kernel().launch(stream, items.len(), (arrived, place))?;
                stream.record()?
            }
            _ if through_host => ways::copy(way, arrived, place, stream)?,
            _ => ways::copy(TransferWay::Copy, arrived, place, stream)?,
        };
        let packet = Packet { buffer, free_after: Some(free_after) };
        self.links.link(from, to).give_back(through_host, packet);
        Ok(())
    }
}

/// Submits a round that only orders: each receiver goes on after what its senders were given before.
pub(super) fn signal(streams: &[Stream], round: &Round) -> Result<()> {
    let mut events = vec![None; streams.len()];
    for &Transfer { from, .. } in round {
        if events[from].is_none() {
            events[from] = Some(streams[from].record()?);
        }
    }
    let pairs: BTreeSet<_> = round.iter().map(|transfer| (transfer.from, transfer.to)).collect();
    for (from, to) in pairs {
        if let Some(event) = &events[from] {
            streams[to].wait(event)?;
        }
    }
    Ok(())
}
