//! Collectives in packets over any devices: each transfer of the plan is copied into
//! a packet buffer by the sender's stream, and placed or combined by the receiver's. The
//! buffer is the receiver's, or the host's where the way goes through its memory \[G §2.1\].
//! Events order the streams; the host does not wait.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use millstream_device::{DeviceBuffer, Event, Stream, TransferWay};

use super::operands::Operands;
use super::operator::Operator;
use super::plan::{Pattern, Piece, Plan, Transfer};
use crate::context::Context;
use crate::ways::{self, Ways};
use crate::{Item, Result};

/// Packet buffers of each pair of ranks: one fills while another is emptied.
const PACKETS: usize = 2;

/// The ways from each rank to each.
#[derive(Debug)]
pub(super) struct RankWays(Vec<Vec<Ways>>);

impl RankWays {
    pub(super) fn new(context: &Context) -> RankWays {
        let (asked_for, table) = (context.transfer(), context.topology().transfer_table());
        let devices = context.devices();
        let ways = |from| devices.iter().map(move |to| Ways::new(asked_for, table, from, to));
        RankWays(devices.iter().map(|from| ways(from).collect()).collect())
    }
}

/// A packet buffer, free after an event.
struct Packet<T: Item> {
    buffer: DeviceBuffer<T>,
    free_after: Option<Event>,
}

/// A transfer whose copy is submitted.
struct Sent<T: Item> {
    transfer: Transfer,
    packet: DeviceBuffer<T>,
    /// The way on from the packet buffer, and whether that is the host's.
    way: (TransferWay, bool),
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
    context: &'a Context,
    streams: &'a [Stream],
    ways: &'a RankWays,
    /// Items of a packet at most.
    items: usize,
    /// Of each pair of ranks, in the host's memory and in the receiver's.
    free: HashMap<(usize, usize, bool), VecDeque<Packet<T>>>,
}

impl<'a, T: Item> Packets<'a, T> {
    pub(super) fn new(
        context: &'a Context,
        streams: &'a [Stream],
        ways: &'a RankWays,
        items: usize,
    ) -> Packets<'a, T> {
        Packets { context, streams, ways, items, free: HashMap::new() }
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
        let mut copy = self.streams[rank].device().buffer_to_overwrite(input.len())?;
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
        let (from, to, count) = (transfer.from, transfer.to, transfer.items.len());
        let (ways, bytes) = (&self.ways.0[from][to], count * size_of::<T>());
        let way = ways.of(bytes, bytes);
        let through_host = ways.through_host(way);
        let stream = &self.streams[from];
        let Packet { mut buffer, free_after } = self.packet((from, to, through_host))?;
        if let Some(event) = &free_after {
            stream.wait(event)?;
        }
        let items = source.part(transfer.items.clone())?;
        let event = ways::copy(way, items, buffer.part_mut(0..count)?, stream)?;
        Ok(Sent { transfer, packet: buffer, way: (way, through_host), event })
    }

    fn packet(&mut self, pair: (usize, usize, bool)) -> Result<Packet<T>> {
        let free = self.free.entry(pair).or_default();
        // The one that has been free for longest, once there are enough.
        if free.len() >= PACKETS
            && let Some(packet) = free.pop_front()
        {
            return Ok(packet);
        }
        let (from, to, through_host) = pair;
        let owner = if through_host { self.context.host() } else { self.streams[to].device() };
        let label = format!("packet buffer from rank {from} to rank {to}");
        Ok(Packet {
            buffer: owner.buffer_to_overwrite(self.items)?.with_label(label),
            free_after: None,
        })
    }

    fn receive(
        &mut self,
        sent: Sent<T>,
        here: &mut DeviceBuffer<T>,
        operator: Option<&Operator<T>>,
    ) -> Result<()> {
        let Sent { transfer, packet, way: (way, through_host), event } = sent;
        let Transfer { from, to, items, at, combines } = transfer;
        let stream = &self.streams[to];
        stream.wait(&event)?;
        let arrived = packet.part(0..items.len())?;
        let place = here.part_mut(at..at + items.len())?;
        let free_after = match operator {
            Some(operator) if combines => {
                operator.kernel().launch(stream, items.len(), (arrived, place))?;
                stream.record()?
            }
            _ if through_host => ways::copy(way, arrived, place, stream)?,
            _ => ways::copy(TransferWay::Copy, arrived, place, stream)?,
        };
        let packet = Packet { buffer: packet, free_after: Some(free_after) };
        self.free.entry((from, to, through_host)).or_default().push_back(packet);
        Ok(())
    }
}
