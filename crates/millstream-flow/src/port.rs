//! One destination of a router on its device: packet buffers posted ahead, and
//! the copies into them \[G §4.1, pipelined receivers\].

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use millstream_device::{Device, DeviceBuffer, DeviceId, Event, Stream};
use parking_lot::Mutex;

use crate::failure::{Failure, Interrupt};
use crate::message::Message;
use crate::multiplexer::{Destination, Matched, Offer};
use crate::statistics::LinkStatistics;
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

type Assigned<T> = (Arc<Message<T>>, usize, Event);

/// A receiver's side of a router.
pub(crate) struct Port<T: Item> {
    pub(crate) device: Device,
    pub(crate) destination: Destination<Offered<T>, PacketBuffer<T>, Packet<T>>,
    /// Copies from the host run here; others on the sender's lane, as the copy
    /// engines of the original's lanes \[G §4.1\].
    pub(crate) lane: Stream,
    pub(crate) failure: Arc<Failure>,
    traffic: Mutex<BTreeMap<DeviceId, LinkStatistics>>,
}

impl<T: Item> fmt::Debug for Port<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Port").field("device", &self.device).finish_non_exhaustive()
    }
}

impl<T: Item> Port<T> {
    pub(crate) fn new(
        device: Device,
        packet_items: usize,
        lane: Stream,
        failure: Arc<Failure>,
    ) -> Port<T> {
        let traffic = Mutex::new(BTreeMap::new());
        Port { device, destination: Destination::new(packet_items), lane, failure, traffic }
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
        self.traffic.lock().values().cloned().collect()
    }

    fn assign(
        &self,
        offer: &Offer<Offered<T>>,
        range: Range<usize>,
        buffer: PacketBuffer<T>,
    ) -> Result<(Packet<T>, Assigned<T>)> {
        let message = &offer.message.message;
        let PacketBuffer { mut buffer, free_after } = buffer;
        let arrival = message.copy(range.clone(), self, &mut buffer, free_after.as_ref())?;
        self.count(&message.source, range.len());
        let assigned = (Arc::clone(message), range.len(), arrival.clone());
        Ok((Packet { buffer, range, message: Arc::clone(message), arrival }, assigned))
    }

    fn count(&self, source: &Device, items: usize) {
        let bytes = (items * size_of::<T>()) as u64;
        let mut traffic = self.traffic.lock();
        let link = traffic
            .entry(source.id())
            .or_insert_with(|| LinkStatistics::new(source.name(), self.device.name()));
        link.packets += 1;
        link.bytes += bytes;
        link.largest_packet_bytes = link.largest_packet_bytes.max(bytes);
    }

    fn follow_up(&self, matched: Result<Matched<Offered<T>, Assigned<T>>>) {
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
        for (message, items, arrival) in matched.assigned {
            message.assigned(items);
            let failure = Arc::clone(&self.failure);
            let copied = arrival.clone();
            arrival.on_complete(move |result| match result {
                Ok(()) => message.copied(items, &copied),
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
