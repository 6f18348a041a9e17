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
use crate::staging::{Staging, StagingPool};
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
    /// Copies from the host run here; others on the sender's lane, as the copy
    /// engines of the original's lanes \[G §4.1\].
    pub(crate) lane: Stream,
    pub(crate) failure: Arc<Failure>,
    staging: Arc<StagingPool<T>>,
    traffic: Mutex<BTreeMap<DeviceId, LinkStatistics>>,
}

impl<T: Item> fmt::Debug for Port<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Port").field("device", &self.device).finish_non_exhaustive()
    }
}

impl<T: Item> Port<T> {
    pub(crate) fn new(
        host: &Device,
        device: Device,
        packet_items: usize,
        lane: Stream,
        failure: Arc<Failure>,
    ) -> Port<T> {
        let traffic = Mutex::new(BTreeMap::new());
        let staging = Arc::new(StagingPool::new(host, &device, packet_items));
        let destination = Destination::new(packet_items);
        Port { device, destination, lane, failure, staging, traffic }
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
        let mut staging = match message.goes_through_host(&self.device) {
            true => Some(self.staging.take()?),
            false => None,
        };
        let (free_after, through) = (free_after.as_ref(), staging.as_mut());
        let arrival = message.copy(range.clone(), self, &mut buffer, free_after, through)?;
        self.count(&message.source, range.len(), staging.is_some());
        let (items, message) = (range.len(), Arc::clone(message));
        let packet = Packet { buffer, range, message: message.clone(), arrival: arrival.clone() };
        Ok((packet, Assigned { message, items, arrival, staging }))
    }

    fn count(&self, source: &Device, items: usize, through_host: bool) {
        let bytes = (items * size_of::<T>()) as u64;
        let mut traffic = self.traffic.lock();
        let link = traffic
            .entry(source.id())
            .or_insert_with(|| LinkStatistics::new(source.name(), self.device.name()));
        link.packets += 1;
        link.bytes += bytes;
        link.packets_through_host += u64::from(through_host);
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
