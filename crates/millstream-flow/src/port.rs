//! One destination of a router on its device: packet buffers posted ahead, and
//! the copies into them \[G §4.1, pipelined receivers\].

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use millstream_device::{Device, DeviceBuffer, DeviceId, Event, Stream, StreamKind, TransferWay};
use parking_lot::Mutex;

use crate::context::Context;
use crate::failure::{Failure, Interrupt};
use crate::message::Message;
use crate::multiplexer::{Destination, Matched, Offer};
use crate::staging::{Staging, StagingPool};
use crate::statistics::LinkStatistics;
use crate::ways::{SMALL_BYTES, Ways};
use crate::{Error, Item, Result};

/// What is queued in a multiplexer: a message and everyone it is offered to.
pub(crate) struct Offered<T: Item> {
    pub(crate) message: Arc<Message<T>>,
    pub(crate) ports: Arc<[Arc<Port<T>>]>,
}

impl<T: Item> fmt::Debug for Offered<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.message, formatter)
    }
}

/// A packet buffer, free once `free_after` is complete (it is, when posted).
#[derive(Debug)]
pub(crate) struct PacketBuffer<T: Item> {
    pub(crate) buffer: DeviceBuffer<T>,
    pub(crate) free_after: Option<Event>,
}

/// A packet assigned to a receiver; its copy is submitted.
#[derive(Debug)]
pub(crate) struct Packet<T: Item> {
    pub(crate) buffer: DeviceBuffer<T>,
    pub(crate) range: Range<usize>,
    pub(crate) message: Arc<Message<T>>,
    pub(crate) arrival: Event,
}

/// A copy that is submitted.
pub(crate) struct Assigned<T: Item> {
    message: Arc<Message<T>>,
    items: usize,
    arrival: Event,
    /// What it goes through.
    staging: Option<Staging<T>>,
}

/// A receiver's side of a router.
pub(crate) struct Port<T: Item> {
    pub(crate) device: Device,
    pub(crate) destination: Destination<Offered<T>, PacketBuffer<T>, Packet<T>>,
    /// How many packet buffers there are.
    buffers: usize,
    /// Copies from the host run on these, those of small messages on the second;
    /// others on the sender's lane, as the copy engines of the original's lanes
    /// \[G §4.1\].
    lanes: [Stream; 2],
    pub(crate) failure: Arc<Failure>,
    context: Context,
    staging: Arc<StagingPool<T>>,
    links: Mutex<BTreeMap<DeviceId, LinkFrom>>,
}

/// The link from one source.
struct LinkFrom {
    ways: Ways,
    statistics: LinkStatistics,
}

impl<T: Item> fmt::Debug for Port<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Port").field("device", &self.device).finish_non_exhaustive()
    }
}

impl<T: Item> Port<T> {
    pub(crate) fn new(
        context: &Context,
        device: Device,
        (packet_items, buffers): (usize, usize),
        failure: Arc<Failure>,
    ) -> Result<Port<T>> {
        let lanes = [device.stream_of(StreamKind::Copy)?, device.stream_of(StreamKind::SmallCopy)?];
        let links = Mutex::new(BTreeMap::new());
        let staging = Arc::new(StagingPool::new(context.host(), &device, packet_items));
        let (destination, context) = (Destination::new(packet_items), context.clone());
        Ok(Port { device, destination, buffers, lanes, failure, context, staging, links })
    }

    /// Gets ready for what the host sends. Without, the driver copies it.
    pub(crate) fn prepare_for_host_data(&self) {
        let packet_bytes = self.destination.packet_items() * size_of::<T>();
        if self.device.is_gpu() && packet_bytes > SMALL_BYTES {
            let _ = self.staging.prepare(self.buffers);
        }
    }

    /// Where the program's memory is copied into a staging buffer.
    pub(crate) fn filling(&self) -> Option<&Stream> {
        self.staging.filling()
    }

    /// For copies from the host.
    pub(crate) fn lane(&self, is_small: bool) -> &Stream {
        &self.lanes[usize::from(is_small)]
    }

    /// Queues an offer here. Failures end the graph.
    pub(crate) fn offer(&self, offer: Arc<Offer<Offered<T>>>) {
        let matched =
            self.destination.offer(offer, |offer, range, buffer| self.assign(offer, range, buffer));
        self.follow_up(matched);
    }

    /// Gives a packet buffer back. Failures end the graph.
    pub(crate) fn post(&self, buffer: PacketBuffer<T>) {
        if self.failure.cause().is_some() {
            return;
        }
        let matched =
            self.destination.post(buffer, |offer, range, buffer| self.assign(offer, range, buffer));
        self.follow_up(matched);
    }

    /// Packets and bytes of each link into this port.
    pub(crate) fn traffic(&self) -> Vec<LinkStatistics> {
        self.links.lock().values().map(|link| link.statistics.clone()).collect()
    }

    fn assign(
        &self,
        offer: &Offer<Offered<T>>,
        range: Range<usize>,
        mut packet: PacketBuffer<T>,
    ) -> Result<(Packet<T>, Assigned<T>)> {
        let message = &offer.message.message;
        let (way, mut staging) = self.route(message, range.len())?;
        let arrival = message.copy(way, range.clone(), self, &mut packet, staging.as_mut())?;
        let (items, message, buffer) = (range.len(), Arc::clone(message), packet.buffer);
        let packet = Packet { buffer, range, message: message.clone(), arrival: arrival.clone() };
        Ok((packet, Assigned { message, items, arrival, staging }))
    }

    /// Which way a packet goes, and what of the host's memory it goes through; counts it.
    fn route(
        &self,
        message: &Message<T>,
        items: usize,
    ) -> Result<(TransferWay, Option<Staging<T>>)> {
        let (bytes, source) = (items * size_of::<T>(), &message.source);
        let mut links = self.links.lock();
        let link = links.entry(source.id()).or_insert_with(|| {
            let table = self.context.topology().transfer_table();
            let ways = Ways::new(self.context.transfer(), table, source, &self.device);
            let statistics = LinkStatistics::new(source.name(), self.device.name());
            LinkFrom { ways, statistics }
        });
        let way = match message.is_host_data() {
            true => TransferWay::Copy,
            false => link.ways.of(bytes, message.bytes()),
        };
        let staging = match (message.is_host_data(), way) {
            // The driver takes what is small at once.
            (true, _) if bytes <= SMALL_BYTES => None,
            (true, _) => self.staging.take_prepared(),
            (false, way) if link.ways.through_host(way) => Some(self.staging.take()?),
            (false, _) => None,
        };
        link.statistics.count(bytes as u64, way, staging.is_some());
        Ok((way, staging))
    }

    fn follow_up(&self, matched: Result<Matched<Offered<T>, Assigned<T>>>) {
        // What a device has counted may come when everything queued has been given up. Messages
        // hold their ports: it would stay for ever.
        if self.failure.cause().is_some() {
            self.destination.clear();
        }
        let matched = match matched {
            Ok(matched) => matched,
            Err(error) => return self.failure.fail(error),
        };
        for offer in matched.exhausted {
            for port in offer.message.ports.iter() {
                if !std::ptr::eq(Arc::as_ptr(port), self) {
                    port.destination.offer_exhausted();
                }
            }
        }
        for Assigned { message, items, arrival, staging } in matched.assigned {
            message.assigned(items);
            let (failure, pool) = (Arc::clone(&self.failure), Arc::clone(&self.staging));
            let copied = arrival.clone();
            arrival.on_complete(move |result| match result {
                Ok(()) => {
                    if let Some(staging) = staging {
                        pool.give_back(staging, &copied);
                    }
                    message.copied(items, &copied);
                }
                Err(error) => failure.fail(Error::Device(error)),
            });
        }
    }
}

impl<T: Item> Interrupt for Port<T> {
    fn interrupt(&self) {
        self.destination.interrupt();
    }

    fn clear(&self) {
        self.destination.clear();
    }
}
