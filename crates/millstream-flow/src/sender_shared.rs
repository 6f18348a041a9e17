//! What a sender, its messages and its send buffers share.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millstream_device::{Device, DeviceBuffer, Event, EventStatus, Stream};

use crate::failure::{Failure, PendingCalls};
use crate::message::{Completion, Message, Payload};
use crate::outgoing::{Offered, Outgoing};
use crate::policy::MessageInfo;
use crate::reservation::{ReservedPacket, reserve};
use crate::router::RouterShared;
use crate::send_buffers::SendBuffers;
use crate::ways::SMALL_BYTES;
use crate::{Error, Item, Result, Wait};

/// Streams of a sender's device for its copies; none on the host.
#[derive(Debug)]
pub(crate) struct Lanes {
    /// Used in turn.
    pub(crate) large: Vec<Stream>,
    /// For small messages, so that they do not wait behind large ones.
    pub(crate) small: Option<Stream>,
}

/// A sender's way from its messages to the router.
pub(crate) struct SenderShared<T: Item> {
    pub(crate) source: Device,
    pub(crate) host: Device,
    /// Streams for copies from this sender, used in turn, so that a copy can begin while the end of
    /// the one before is being reported. None on the host, which uses the receivers' lanes.
    lanes: Lanes,
    copies: AtomicUsize,
    /// Messages that must be copied, and wait for packet buffers or for their producers.
    copied: AtomicUsize,
    pub(crate) failure: Arc<Failure>,
    router: Arc<RouterShared<T>>,
    pub(crate) outgoing: Outgoing<Parcel<T>>,
    pub(crate) buffers: SendBuffers<DeviceBuffer<T>>,
}

/// What is sent as a message.
pub(crate) struct Parcel<T: Item> {
    pub(crate) payload: Payload<T>,
    /// The packet buffer that it already lies in, if it was written in place.
    pub(crate) packet: Option<ReservedPacket<T>>,
    pub(crate) metadata: u64,
    /// The event that the copies come after.
    pub(crate) ready: Option<Event>,
    pub(crate) completion: Option<Arc<Completion>>,
}

impl<T: Item> fmt::Debug for SenderShared<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sender").field("source", &self.source).finish_non_exhaustive()
    }
}

impl<T: Item> SenderShared<T> {
    pub(crate) fn new(
        (source, host): (Device, Device),
        lanes: Lanes,
        failure: Arc<Failure>,
        router: Arc<RouterShared<T>>,
    ) -> SenderShared<T> {
        let (copies, copied) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (outgoing, buffers) = (Outgoing::new(), SendBuffers::new());
        SenderShared { source, host, lanes, copies, copied, failure, router, outgoing, buffers }
    }

    /// The lane of the next copy.
    pub(crate) fn lane(&self, is_small: bool) -> Option<&Stream> {
        if is_small {
            return self.lanes.small.as_ref();
        }
        // Relaxed: any order of the lanes will do.
        let turn = self.copies.fetch_add(1, Ordering::Relaxed);
        self.lanes.large.get(turn % self.lanes.large.len().max(1))
    }

    /// Whether anything can be sent.
    pub(crate) fn check(&self) -> Result<()> {
        self.failure.check()?;
        match self.router.is_sealed() {
            true => Ok(()),
            false => Err(Error::NotRunning),
        }
    }

    /// Prepares for messages of `items` items of the program's memory, if sending is possible.
    pub(crate) fn prepare_for_host_data(&self, items: usize) -> Result<()> {
        self.check()?;
        // The driver copies small data at once.
        if items * size_of::<T>() > SMALL_BYTES {
            let destinations = self.router.destinations(&self.source);
            destinations.iter().for_each(|port| port.prepare_for_host_data());
        }
        Ok(())
    }

    /// Sends a message of `items` items, or of as many as are counted later if that is `None`.
    pub(crate) fn send(self: &Arc<Self>, parcel: Parcel<T>, items: Option<usize>) -> Result<u64> {
        self.check()?;
        // Lanes of small messages are few, and unrelated senders share them: no small message waits
        // there for its producer. Copies of larger ones are submitted ahead, and a message in place
        // needs none.
        let producer = parcel.ready.clone().filter(|ready| {
            let is_small = items.is_some_and(|items| items * size_of::<T>() <= SMALL_BYTES);
            is_small && parcel.packet.is_none() && ready.status() == EventStatus::Pending
        });
        if parcel.packet.is_none() {
            // Relaxed: the look is the sender's own, and comes after this.
            self.copied.fetch_add(1, Ordering::Relaxed);
        }
        let sequence = self.outgoing.push(parcel, items.filter(|_| producer.is_none()));
        match producer.zip(items) {
            Some((producer, items)) => self.offer_after(&producer, sequence, move || Ok(items)),
            None => self.offer_ready(),
        }
        Ok(sequence)
    }

    /// Offers message `sequence` when its producer is done, with the number of items then known.
    pub(crate) fn offer_after(
        self: &Arc<Self>,
        producer: &Event,
        sequence: u64,
        items: impl FnOnce() -> Result<usize> + Send + 'static,
    ) {
        let shared = Arc::clone(self);
        producer.on_complete(move |result| {
            match result.map_err(Error::Device).and_then(|()| items()) {
                Ok(items) => {
                    shared.outgoing.produced(sequence, items);
                    shared.offer_ready();
                }
                Err(error) => shared.failure.fail(error),
            }
        });
    }

    /// All packets of a message have been assigned.
    pub(crate) fn assigned(&self, is_in_place: bool) {
        if !is_in_place {
            self.waits_no_more();
        }
        self.outgoing.assigned();
    }

    /// A message that is copied waits for no packet buffer any more.
    fn waits_no_more(&self) {
        // Relaxed: the decrement only lets the sender reserve again.
        self.copied.fetch_sub(1, Ordering::Relaxed);
    }

    /// Waits for a packet buffer that kernels of this endpoint may fill with `items` items. `None`
    /// where messages are copied, and while a copied message is waiting: a later message must stay
    /// behind it, and it may need that very buffer.
    pub(crate) async fn reserve(&self, items: usize) -> Result<Option<ReservedPacket<T>>> {
        if self.copied.load(Ordering::Relaxed) > 0 {
            return Ok(None);
        }
        match self.router.destinations(&self.source) {
            [port] if port.is_written_by(&self.source, items) => {
                reserve(port, self.source.id().number(), &self.failure).await
            }
            _ => Ok(None),
        }
    }

    /// Nothing more is sent; what was sent still goes out.
    pub(crate) fn shut_down(self: &Arc<Self>) -> Result<()> {
        self.outgoing.shut_down();
        self.buffers.shut_down();
        self.failure.check()?;
        self.offer_ready();
        Ok(())
    }

    fn offer_ready(self: &Arc<Self>) {
        let closes = self.outgoing.offer_ready(|offered| {
            if let Err(error) = self.offer(offered) {
                self.failure.fail(error);
            }
        });
        if closes {
            self.router.sender_closed(&self.source);
        }
    }

    fn offer(self: &Arc<Self>, offered: Offered<Parcel<T>>) -> Result<()> {
        let Offered { message: parcel, sequence, items } = offered;
        let Parcel { payload, packet, metadata, ready, completion } = parcel;
        if items == 0 {
            if let Some(ready) = &ready {
                payload.retire(ready);
            }
            match packet.zip(ready) {
                Some((packet, ready)) => packet.free_after(&ready),
                None => self.waits_no_more(),
            }
            payload.give_back(self);
            if let Some(completion) = completion {
                completion.finish();
            }
            return Ok(());
        }
        let info = MessageInfo { items, sequence, metadata };
        let offers = self.router.route(&info, &self.source);
        // Report this cause before the message is dropped: a packet that it lies in would otherwise
        // report that it was dropped in flight.
        let offers = offers.inspect_err(|error| self.failure.fail(error.clone()))?;
        // A packet in place has one destination, whatever the policy says.
        let copies = match packet {
            Some(_) => items,
            None => offers.iter().map(|(range, _)| range.len()).sum(),
        };
        let message = Message::new(info, Arc::clone(self), payload, ready, completion, copies);
        match packet {
            Some(packet) => self.router.offer_in_place(Arc::new(message), packet),
            None => self.router.offer(Arc::new(message), offers),
        }
        Ok(())
    }
}

impl<T: Item> PendingCalls for SenderShared<T> {
    fn interrupt(&self) {
        self.outgoing.wake();
        self.buffers.wake();
    }

    fn clear(&self) {
        self.outgoing.clear();
        self.buffers.clear();
    }

    fn waits(&self) -> Vec<Wait> {
        let from = || self.source.name();
        let buffer = self.buffers.awaited();
        let buffer = buffer.map(|send_buffers| Wait::SendBuffer { from: from(), send_buffers });
        let flushed = self.outgoing.awaited();
        let flushed = flushed.map(|messages| Wait::Flushed { from: from(), messages });
        buffer.into_iter().chain(flushed).collect()
    }
}
