//! Collectives in packets over any devices: each transfer of the plan is copied into
//! a packet buffer of its receiver by the sender's stream, and placed or combined by
//! the receiver's. Events order the streams; the host does not wait.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use millstream_device::{DeviceBuffer, Event, Stream};

use super::operands::Operands;
use super::operator::Operator;
use super::plan::{Pattern, Piece, Plan, Transfer};
use crate::{Item, Result};

/// Packet buffers of each pair of ranks: one fills while another is emptied.
const PACKETS: usize = 2;

/// A packet buffer, free after an event.
struct Packet<T: Item> {
    buffer: DeviceBuffer<T>,
    free_after: Option<Event>,
}

/// A transfer whose copy is submitted.
struct Sent<T: Item> {
    transfer: Transfer,
    packet: DeviceBuffer<T>,
    event: Event,
}

/// Where a collective reads and writes, on each rank.
pub(super) struct Areas<'b, T: Item> {
    /// What is sent, if that is not where the results are: copies of the inputs.
    sources: Option<Vec<DeviceBuffer<T>>>,
    inputs: Option<&'b [DeviceBuffer<T>]>,
    outputs: &'b mut [DeviceBuffer<T>],
    /// Whether inputs are sent as they are.
    is_moved: bool,
    /// Where ranks work whose output keeps what it has.
    scratch: Vec<Option<DeviceBuffer<T>>>,
}

impl<T: Item> Areas<'_, T> {
    fn source(&self, rank: usize) -> &DeviceBuffer<T> {
        match (&self.sources, self.inputs) {
            (Some(copies), _) => &copies[rank],
            (None, Some(inputs)) if self.is_moved => &inputs[rank],
            _ => self.scratch.get(rank).and_then(Option::as_ref).unwrap_or(&self.outputs[rank]),
        }
    }

    fn work(&mut self, rank: usize) -> &mut DeviceBuffer<T> {
        let scratch = self.scratch.get_mut(rank).and_then(Option::as_mut);
        scratch.unwrap_or(&mut self.outputs[rank])
    }

    /// Copies a rank's whole input to where it belongs in its output.
    fn place(&mut self, packets: &Packets<'_, T>, rank: usize, at: &Range<usize>) -> Result<()> {
        let Some(inputs) = self.inputs else { return Ok(()) };
        let place = self.outputs[rank].part_mut(at.clone())?;
        Ok(packets.streams[rank].copy(inputs[rank].part(0..at.len())?, place)?)
    }

    /// Copies what a rank has for itself.
    fn keep(&mut self, packets: &Packets<'_, T>, rank: usize, piece: &Piece) -> Result<()> {
        let Piece { items, at } = piece.clone();
        let inputs = self.inputs.or(self.sources.as_deref());
        let Some(inputs) = inputs else { return Ok(()) };
        let place = self.outputs[rank].part_mut(at..at + items.len())?;
        Ok(packets.streams[rank].copy(inputs[rank].part(items)?, place)?)
    }
}

/// The packet buffers between ranks, while one collective is submitted.
pub(super) struct Packets<'a, T: Item> {
    streams: &'a [Stream],
    /// Items of a packet at most.
    items: usize,
    free: HashMap<(usize, usize), VecDeque<Packet<T>>>,
}

impl<'a, T: Item> Packets<'a, T> {
    pub(super) fn new(streams: &'a [Stream], items: usize) -> Packets<'a, T> {
        Packets { streams, items, free: HashMap::new() }
    }

    /// The areas that a pattern works on: results' buffers, or copies where those must
    /// keep what they have.
    pub(super) fn areas<'b>(
        &self,
        pattern: &Pattern,
        operands: Operands<'b, T>,
    ) -> Result<Areas<'b, T>> {
        let Operands { inputs, outputs } = operands;
        let is_moved = matches!(pattern, Pattern::AllToAll { .. });
        let mut areas = Areas { sources: None, inputs, outputs, is_moved, scratch: Vec::new() };
        let ranks = 0..areas.outputs.len();
        match pattern {
            Pattern::Broadcast { root, items } => areas.place(self, *root, items)?,
            Pattern::AllReduce { items } => {
                ranks.clone().try_for_each(|rank| areas.place(self, rank, items))?;
            }
            Pattern::AllGather { parts } => {
                let mut each = ranks.clone().zip(parts);
                each.try_for_each(|(rank, part)| areas.place(self, rank, part))?;
            }
            Pattern::Reduce { root, items } => {
                areas.place(self, *root, items)?;
                for rank in ranks {
                    let copy = if rank == *root { None } else { Some(self.copy(&areas, rank)?) };
                    areas.scratch.push(copy);
                }
            }
            Pattern::ReduceScatter { .. } => {
                for rank in ranks {
                    let copy = self.copy(&areas, rank)?;
                    areas.scratch.push(Some(copy));
                }
            }
            Pattern::AllToAll { pieces } => {
                if areas.inputs.is_none() {
                    let copies = ranks.clone().map(|rank| self.copy(&areas, rank));
                    areas.sources = Some(copies.collect::<Result<_>>()?);
                }
                for rank in ranks {
                    areas.keep(self, rank, &pieces[rank][rank])?;
                }
            }
        }
        Ok(areas)
    }

    /// A copy of a rank's input.
    fn copy(&self, areas: &Areas<'_, T>, rank: usize) -> Result<DeviceBuffer<T>> {
        let input = &areas.inputs.unwrap_or(areas.outputs)[rank];
        let mut copy = self.streams[rank].device().buffer(input.len())?;
        self.streams[rank].copy(input, &mut copy)?;
        Ok(copy.with_label(format!("copy of the input of rank {rank}")))
    }

    /// Puts the results where they belong.
    pub(super) fn finish(&self, pattern: &Pattern, areas: Areas<'_, T>) -> Result<()> {
        let Pattern::ReduceScatter { parts } = pattern else { return Ok(()) };
        for (rank, (copy, part)) in areas.scratch.iter().zip(parts).enumerate() {
            let Some(copy) = copy else { continue };
            let at = if areas.inputs.is_none() { part.start } else { 0 };
            let place = areas.outputs[rank].part_mut(at..at + part.len())?;
            self.streams[rank].copy(copy.part(part.clone())?, place)?;
        }
        Ok(())
    }

    /// Submits a plan, whose transfers are not larger than a packet.
    pub(super) fn run(
        &mut self,
        plan: Plan,
        areas: &mut Areas<'_, T>,
        operator: Option<&Operator<T>>,
    ) -> Result<()> {
        for round in plan {
            let transfers = round.into_iter().filter(|transfer| !transfer.items.is_empty());
            let mut sent = Vec::new();
            for transfer in transfers {
                let source = areas.source(transfer.from);
                sent.push(self.send(transfer, source)?);
            }
            for sent in sent {
                let here = areas.work(sent.transfer.to);
                self.receive(sent, here, operator)?;
            }
        }
        Ok(())
    }

    fn send(&mut self, transfer: Transfer, source: &DeviceBuffer<T>) -> Result<Sent<T>> {
        let stream = &self.streams[transfer.from];
        let mut packet = self.packet(transfer.from, transfer.to)?;
        if let Some(event) = &packet.free_after {
            stream.wait(event)?;
        }
        let part = packet.buffer.part_mut(0..transfer.items.len())?;
        stream.copy(source.part(transfer.items.clone())?, part)?;
        let event = stream.record()?;
        Ok(Sent { transfer, packet: packet.buffer, event })
    }

    fn packet(&mut self, from: usize, to: usize) -> Result<Packet<T>> {
        let free = self.free.entry((from, to)).or_default();
        // The one that has been free for longest, once there are enough.
        if free.len() >= PACKETS
            && let Some(packet) = free.pop_front()
        {
            return Ok(packet);
        }
        let buffer = self.streams[to].device().buffer(self.items)?;
        let label = format!("packet buffer from rank {from} to rank {to}");
        Ok(Packet { buffer: buffer.with_label(label), free_after: None })
    }

    fn receive(
        &mut self,
        sent: Sent<T>,
        here: &mut DeviceBuffer<T>,
        operator: Option<&Operator<T>>,
    ) -> Result<()> {
        let Sent { transfer: Transfer { from, to, items, at, combines }, packet, event } = sent;
        let stream = &self.streams[to];
        stream.wait(&event)?;
        let arrived = packet.part(0..items.len())?;
        let place = here.part_mut(at..at + items.len())?;
        match operator {
            Some(operator) if combines => {
                operator.kernel().launch(stream, items.len(), (arrived, place))?;
            }
            _ => stream.copy(arrived, place)?,
        }
        let packet = Packet { buffer: packet, free_after: Some(stream.record()?) };
        self.free.entry((from, to)).or_default().push_back(packet);
        Ok(())
    }
}
