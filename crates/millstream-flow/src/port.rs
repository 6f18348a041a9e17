//! One destination of a router on its device: packet buffers posted ahead, and
//! the copies into them \[G §4.1, pipelined receivers\].

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use millstream_device::{Device, DeviceBuffer, DeviceId, Event, Stream, StreamKind, TransferWay};
use parking_lot::Mutex;
use smallvec::{SmallVec, smallvec};

use crate::context::Context;
use crate::failure::{Failure, PendingCalls};
use crate::joining::Joining;
use crate::message::Message;
use crate::multiplexer::{Claim, Destination, Offer, Standing};
use crate::reservation::{Reservation, Reserved};
use crate::staging::{Staging, StagingPool};
use crate::statistics::LinkStatistics;
use crate::ways::{SMALL_BYTES, Ways};
use crate::{Error, Item, Result, Wait};

/// What is queued in a multiplexer.
pub(crate) enum Offered<T: Item> {
    /// A message, and everyone it is offered to.
    Message(Arc<Message<T>>, Arc<[Arc<Port<T>>]>),
    /// A sender that wants a packet buffer.
    Reservation(Arc<Reservation<T>>),
}

impl<T: Item> fmt::Debug for Offered<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Offered::Message(message, _) => fmt::Debug::fmt(message, formatter),
            Offered::Reservation(_) => formatter.write_str("Reservation"),
        }
    }
}

/// A packet buffer, free once `free_after` is complete (it is, when posted).
#[derive(Debug)]
pub(crate) struct PacketBuffer<T: Item> {
    pub(crate) buffer: DeviceBuffer<T>,
    pub(crate) free_after: Option<Event>,
}

/// What messages' packets hold, and the buffers that they go into.
pub(crate) type Packets<T> = SmallVec<[(Range<usize>, PacketBuffer<T>); 1]>;

/// A packet assigned to a receiver; its copy is submitted.
#[derive(Debug)]
pub(crate) struct Packet<T: Item> {
    pub(crate) buffer: DeviceBuffer<T>,
    pub(crate) range: Range<usize>,
    pub(crate) message: Arc<Message<T>>,
    pub(crate) arrival: Event,
}

/// Packets that were claimed together.
type Assigned<T> = SmallVec<[Packet<T>; 1]>;

/// A receiver's side of a router.
pub(crate) struct Port<T: Item> {
    pub(crate) device: Device,
    pub(crate) destination: Destination<Offered<T>, PacketBuffer<T>, Packet<T>>,
    /// How many packet buffers there are.
    buffers: usize,
    /// The sources whose senders may send more, once the graph runs.
    open_senders: Mutex<Vec<Device>>,
    pub(crate) reserved: Reserved,
    /// Lanes for copies from the host; small messages use the second. Other copies run on the
    /// sender's lanes, like the copy engines of the original's lanes \[G §4.1\].
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
        let joining = Joining::of(buffers, packet_items.saturating_mul(size_of::<T>()));
        let (destination, context) = (Destination::new(packet_items, joining), context.clone());
        Ok(Port {
            device,
            destination,
            buffers,
            open_senders: Mutex::default(),
            reserved: Reserved::of(buffers),
            lanes,
            failure,
            context,
            staging,
            links,
        })
    }

    /// Fixes who can send here.
    pub(crate) fn seal(&self, senders: Vec<Device>) {
        let count = senders.len();
        *self.open_senders.lock() = senders;
        self.destination.seal(count);
    }

    /// A sender that could reach this port has shut down, and all its messages have been offered.
    pub(crate) fn sender_closed(&self, source: &Device) {
        self.open_senders.lock().retain(|sender| sender != source);
        self.destination.sender_closed();
    }

    /// Prepares for packets that `source` sends through memory of the host.
    pub(crate) fn prepare_for(&self, source: &Device) {
        let bytes = self.packet_bytes();
        if !source.is_host_endpoint() && self.link(source, |link| link.ways.stages(bytes)) {
            // A failure does not matter: the memory is asked for again when it is needed.
            let _ = self.staging.prepare(self.buffers);
        }
    }

    /// Prepares for messages that lie in memory of the program.
    pub(crate) fn prepare_for_host_data(&self) {
        if self.device.is_gpu() && self.packet_bytes() > SMALL_BYTES {
            self.staging.prepare_for_host_data(self.buffers);
        }
    }

    fn packet_bytes(&self) -> usize {
        self.destination.packet_items() * size_of::<T>()
    }

    /// The stream that copies the program's memory into a staging buffer.
    pub(crate) fn filling(&self) -> Option<&Stream> {
        self.staging.filling()
    }

    /// The lane for copies from the host.
    pub(crate) fn lane(&self, is_small: bool) -> &Stream {
        &self.lanes[usize::from(is_small)]
    }

    /// Queues an offer here. Failures end the graph.
    pub(crate) fn offer(&self, offer: Arc<Offer<Offered<T>>>) {
        let joins = self.joins(&offer.message);
        self.give_up_if_over(self.destination.offer(offer, joins, |claim| self.assign(claim)));
    }

    /// Whether packets may be copied together, from one buffer to another.
    fn joins(&self, offered: &Offered<T>) -> bool {
        let Offered::Message(message, _) = offered else { return false };
        self.destination.joins()
            && !message.is_host_data()
            && self.link(&message.source, |link| link.ways.join(self.packet_bytes()))
    }

    /// Queues a message that was written into a reserved packet buffer. Failures end the graph.
    pub(crate) fn offer_in_place(&self, offer: Arc<Offer<Offered<T>>>, buffer: PacketBuffer<T>) {
        let assigned = self.destination.offer_in_place(offer, buffer, |claim| self.assign(claim));
        self.give_up_if_over(assigned);
    }

    /// Whether kernels of `source` may write packets of this many items directly into this port's buffers.
    pub(crate) fn is_written_by(&self, source: &Device, items: usize) -> bool {
        matches!(self.context.transfer(), None | Some(TransferWay::Push))
            && (1..=self.destination.packet_items()).contains(&items)
            && !source.is_host_endpoint()
            && source.reaches(&self.device)
    }

    /// Gives back a packet buffer that was reserved.
    pub(crate) fn unreserve(&self, buffer: PacketBuffer<T>) {
        self.reserved.end();
        self.post(buffer);
    }

    /// Gives a packet buffer back. Failures end the graph.
    pub(crate) fn post(&self, buffer: PacketBuffer<T>) {
        if self.failure.cause().is_some() {
            return;
        }
        if let Some(event) = &buffer.free_after {
            // The buffer's last use is over, which its drop must know, too.
            buffer.buffer.retire(event);
        }
        self.give_up_if_over(self.destination.post(buffer, |claim| self.assign(claim)));
    }

    /// Packets and bytes of each link into this port.
    pub(crate) fn traffic(&self) -> Vec<LinkStatistics> {
        let links = self.links.lock();
        let carry = |statistics: &&LinkStatistics| statistics.packets > 0;
        links.values().map(|link| &link.statistics).filter(carry).cloned().collect()
    }

    /// Submits the copies of packets, if they need any, or gives a buffer to a sender. No lock that
    /// a callback may want is held: the driver may take its time, and may first have to report
    /// failures from within the call.
    fn assign(&self, claim: Claim<Offered<T>, PacketBuffer<T>>) -> Result<Assigned<T>> {
        let Claim { offer, packets, joins, is_last } = claim;
        let (message, ports) = match &offer.message {
            Offered::Message(message, ports) => (message, ports),
            Offered::Reservation(reservation) => {
                let given = packets.into_iter().map(|(_, buffer)| reservation.give(buffer));
                given.flatten().for_each(|buffer| self.post(buffer));
                return Ok(Assigned::new());
            }
        };
        if is_last {
            self.tell_others(ports);
        }
        if let Some(written) = message.in_place() {
            self.reserved.end();
            self.count(&message.source, &packets, TransferWay::Push, false);
            return Ok(self.submitted(message, packets, &written, None, None));
        }
        let this = ports.iter().find(|port| self.is(port)).filter(|_| joins);
        let counts = this.map(|port| (port, &offer));
        let (mut assigned, mut rest) = (Assigned::new(), packets.into_iter());
        while let Some(first) = rest.next() {
            let (way, mut staging) = self.route(message, first.0.len())?;
            let mut packets: Packets<T> = smallvec![first];
            if way == TransferWay::Copy && staging.is_none() {
                packets.extend(rest.by_ref());
            }
            self.count(&message.source, &packets, way, staging.is_some());
            let arrival = message.copy(way, &mut packets, self, staging.as_mut())?;
            assigned.extend(self.submitted(message, packets, &arrival, staging, counts));
        }
        Ok(assigned)
    }

    /// Packets that arrive together. `counts` has this port and their offer, if it counts them.
    fn submitted(
        &self,
        message: &Arc<Message<T>>,
        packets: Packets<T>,
        arrival: &Event,
        staging: Option<Staging<T>>,
        counts: Option<(&Arc<Port<T>>, &Arc<Offer<Offered<T>>>)>,
    ) -> Assigned<T> {
        let items = packets.iter().map(|(range, _)| range.len()).sum();
        message.assigned(items);
        self.follow_up(message, items, arrival, staging);
        if let Some((port, offer)) = counts {
            let (port, offer, packets) = (Arc::clone(port), Arc::clone(offer), packets.len());
            arrival.on_complete(move |result| {
                // Of a failure the graph hears otherwise.
                if result.is_ok() {
                    port.arrived(&offer, packets);
                }
            });
        }
        let packet = |(range, PacketBuffer { buffer, .. })| Packet {
            buffer,
            range,
            message: Arc::clone(message),
            arrival: arrival.clone(),
        };
        packets.into_iter().map(packet).collect()
    }

    fn is(&self, port: &Arc<Port<T>>) -> bool {
        std::ptr::eq(Arc::as_ptr(port), self)
    }

    /// Tells the other `ports` that nothing is left of an offer.
    fn tell_others(&self, ports: &[Arc<Port<T>>]) {
        let others = ports.iter().filter(|port| !self.is(port));
        others.for_each(|port| port.offer_exhausted());
    }

    /// Somebody else has claimed what was left of an offer. Failures end the graph.
    pub(crate) fn offer_exhausted(&self) {
        self.give_up_if_over(self.destination.offer_exhausted(|claim| self.assign(claim)));
    }

    /// Which way a packet goes, and the host memory that it goes through, if any.
    fn route(
        &self,
        message: &Message<T>,
        items: usize,
    ) -> Result<(TransferWay, Option<Staging<T>>)> {
        let (bytes, source) = (items * size_of::<T>(), &message.source);
        let is_host_data = message.is_host_data();
        let (way, goes_through_host) = self.link(source, |link| match is_host_data {
            true => (TransferWay::Copy, false),
            false => {
                let way = link.ways.of(bytes, message.bytes(), || source.is_copying());
                (way, link.ways.through_host(way))
            }
        });
        let staging = match is_host_data {
            // The driver copies small data at once.
            true if bytes <= SMALL_BYTES => None,
            true => self.staging.take_prepared(),
            false if goes_through_host => Some(self.staging.take()?),
            false => None,
        };
        Ok((way, staging))
    }

    /// Counts packets of a source.
    fn count(&self, source: &Device, packets: &Packets<T>, way: TransferWay, through_host: bool) {
        self.link(source, |link| {
            for (range, _) in packets {
                let bytes = (range.len() * size_of::<T>()) as u64;
                link.statistics.count(bytes, way, through_host);
            }
        });
    }

    /// The state of the link from a source.
    fn link<R>(&self, source: &Device, look: impl FnOnce(&mut LinkFrom) -> R) -> R {
        let mut links = self.links.lock();
        look(links.entry(source.id()).or_insert_with(|| {
            let table = self.context.topology().transfer_table();
            let ways = Ways::new(self.context.transfer(), table, source, &self.device);
            let statistics = LinkStatistics::new(source.name(), self.device.name());
            LinkFrom { ways, statistics }
        }))
    }

    /// Registers what happens when packets have arrived.
    fn follow_up(
        &self,
        message: &Arc<Message<T>>,
        items: usize,
        arrival: &Event,
        staging: Option<Staging<T>>,
    ) {
        let (failure, pool) = (Arc::clone(&self.failure), Arc::clone(&self.staging));
        let (message, copied) = (Arc::clone(message), arrival.clone());
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

    /// So many packets of an offer that joins have arrived. Failures end the graph.
    fn arrived(&self, offer: &Offer<Offered<T>>, packets: usize) {
        self.give_up_if_over(self.destination.arrived(offer, packets, |claim| self.assign(claim)));
    }

    fn give_up_if_over(&self, assigned: Result<()>) {
        if let Err(error) = assigned {
            self.failure.fail(error);
        }
        // A message that a device counted may be queued after everything has been given up. It
        // would stay for ever, since messages hold their ports: clear again.
        if self.failure.cause().is_some() {
            self.destination.clear();
        }
    }
}

impl<T: Item> PendingCalls for Port<T> {
    fn interrupt(&self) {
        self.destination.interrupt();
    }

    fn clear(&self) {
        self.destination.clear();
    }

    fn waits(&self) -> Vec<Wait> {
        let Standing { offers, buffers, arrived, is_awaited } = self.destination.standing();
        let (to, packet_buffers) = (|| self.device.name(), self.buffers);
        let held = packet_buffers.saturating_sub(buffers + arrived);
        let packet = is_awaited.then(|| {
            let open_senders = self.open_senders.lock().iter().map(Device::name).collect();
            Wait::Packet { to: to(), open_senders, held, packet_buffers }
        });
        let buffers = (offers > 0).then(|| Wait::PacketBuffers {
            to: to(),
            offers,
            arrived,
            held,
            packet_buffers,
        });
        packet.into_iter().chain(buffers).collect()
    }
}
