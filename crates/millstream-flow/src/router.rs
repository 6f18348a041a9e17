//! Routers: dynamic communication among many endpoints \[G §3, §4.2, Fig. 8\].

use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock, Weak};

use millstream_device::{Device, StreamKind};
use parking_lot::Mutex;

use crate::buffers::{Buffers, default_count};
use crate::failure::PendingCalls;
use crate::graph::GraphShared;
use crate::message::Message;
use crate::multiplexer::Offer;
use crate::policy::{MessageInfo, Route, RoutingPolicy};
use crate::port::{Offered, PacketBuffer, Port};
use crate::receiver::Receiver;
use crate::reservation::ReservedPacket;
use crate::segmenter;
use crate::sender::Sender;
use crate::sender_shared::{Lanes, SenderShared};
use crate::statistics::LinkStatistics;
use crate::{Error, Item, Result, ways};

/// Streams that the copies of a device's sender take in turn.
const LANES: usize = 2;

/// A part of a message, and the ports that may take it.
pub(crate) type Parts<T> = Vec<(Range<usize>, Arc<[Arc<Port<T>>]>)>;

/// What a router's senders share.
pub(crate) struct RouterShared<T: Item> {
    policy: RoutingPolicy,
    members: Mutex<Members<T>>,
    /// Fixed when the graph runs: what each sender can reach.
    reachable: OnceLock<Vec<Reachable<T>>>,
}

#[derive(Clone)]
struct Members<T: Item> {
    senders: Vec<Device>,
    /// Senders that were shut down before the graph ran.
    closed: Vec<Device>,
    ports: Vec<Arc<Port<T>>>,
}

struct Reachable<T: Item> {
    source: Device,
    devices: Vec<Device>,
    ports: Vec<Arc<Port<T>>>,
}

impl<T: Item> fmt::Debug for RouterShared<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("RouterShared")
    }
}

impl<T: Item> RouterShared<T> {
    pub(crate) fn is_sealed(&self) -> bool {
        self.reachable.get().is_some()
    }

    /// Applies the routing policy and the segmenter to a message.
    pub(crate) fn route(&self, message: &MessageInfo, source: &Device) -> Result<Parts<T>> {
        let reachable = self.reachable_from(source).ok_or(Error::NotRunning)?;
        let route = contained(|| self.policy.route(message, source, &reachable.devices))?;
        if route.destinations().is_empty() {
            return Err(Error::EmptyRoute { from: source.name() });
        }
        let mut ports: Vec<Arc<Port<T>>> = Vec::new();
        for to in route.destinations() {
            let port = reachable.port(to)?;
            // A destination that is named twice counts once.
            if !ports.iter().any(|known| Arc::ptr_eq(known, &port)) {
                ports.push(port);
            }
        }
        Ok(match route {
            Route::Any(_) => vec![(0..message.items, ports.into())],
            Route::All(_) => {
                ports.into_iter().map(|port| (0..message.items, Arc::from(vec![port]))).collect()
            }
            Route::Parts(_) => segmenter::parts(message.items, ports.len())
                .zip(ports)
                .filter(|(range, _)| !range.is_empty())
                .map(|(range, port)| (range, Arc::from(vec![port])))
                .collect(),
        })
    }

    /// Where messages from a source may go, once the graph runs.
    pub(crate) fn destinations(&self, source: &Device) -> &[Arc<Port<T>>] {
        self.reachable_from(source).map_or(&[], |reachable| &reachable.ports)
    }

    /// Offers a message that lies in a packet buffer of its destination.
    pub(crate) fn offer_in_place(&self, message: Arc<Message<T>>, packet: ReservedPacket<T>) {
        let ReservedPacket { buffer, port } = packet;
        let (source, items) = (message.source.id().number(), message.info.items);
        let offered = Offered::Message(message, Arc::from(vec![Arc::clone(&port)]));
        port.offer_in_place(Arc::new(Offer::new(offered, source, 0..items)), buffer);
    }

    /// Offers each part of a message to its ports.
    pub(crate) fn offer(&self, message: Arc<Message<T>>, parts: Parts<T>) {
        let source = message.source.id().number();
        for (range, ports) in parts {
            let offered = Offered::Message(Arc::clone(&message), Arc::clone(&ports));
            let offer = Arc::new(Offer::new(offered, source, range));
            for port in ports.iter() {
                port.offer(Arc::clone(&offer));
            }
        }
    }

    /// A sender on `source` has shut down, and all its messages have been offered.
    pub(crate) fn sender_closed(&self, source: &Device) {
        // The lock is held so that this comes entirely before or after the sealing of the graph.
        let mut members = self.members.lock();
        match self.reachable_from(source) {
            None => members.closed.push(source.clone()),
            Some(reachable) => {
                drop(members);
                reachable.ports.iter().for_each(|port| port.sender_closed(source));
            }
        }
    }

    fn reachable_from(&self, source: &Device) -> Option<&Reachable<T>> {
        self.reachable.get()?.iter().find(|reachable| reachable.source == *source)
    }
}

impl<T: Item> Members<T> {
    /// The receivers that a policy lets each sender reach. Must be called without the lock, since
    /// the policy is the program's code.
    fn reachable(&self, policy: &RoutingPolicy) -> Result<Vec<Reachable<T>>> {
        let mut ports = self.ports.clone();
        ports.sort_by_key(|port| port.device.index().unwrap_or(usize::MAX));
        let receivers: Vec<Device> = ports.iter().map(|port| port.device.clone()).collect();
        let reach = |source: &Device| {
            let devices = contained(|| policy.reachable(source, &receivers))?;
            let is_reachable = |port: &&Arc<Port<T>>| devices.contains(&port.device);
            let ports: Vec<_> = ports.iter().filter(is_reachable).cloned().collect();
            let devices = ports.iter().map(|port| port.device.clone()).collect();
            Ok(Reachable { source: source.clone(), devices, ports })
        };
        self.senders.iter().map(reach).collect()
    }

    fn count(&self) -> usize {
        self.senders.len() + self.ports.len()
    }
}

/// Calls the program's policy and makes its panic an error, which would otherwise go unnoticed.
fn contained<R>(ask: impl FnOnce() -> R) -> Result<R> {
    // Unwinding leaves nothing half done here, and the policy is not asked again.
    catch_unwind(AssertUnwindSafe(ask)).map_err(Error::panicked)
}

impl<T: Item> Reachable<T> {
    fn port(&self, to: &Device) -> Result<Arc<Port<T>>> {
        let place = self.devices.iter().position(|device| device == to);
        place.map(|place| Arc::clone(&self.ports[place])).ok_or_else(|| {
            Error::UnreachableDestination { from: self.source.name(), to: to.name() }
        })
    }
}

/// What a graph does with its routers, whatever they carry.
pub(crate) trait AnyRouter: Send + Sync {
    /// Makes in advance what takes long to make. Here and below, the caller holds no lock.
    fn prepare(&self) -> Result<()>;
    /// Fixes who can reach whom.
    fn seal(&self) -> Result<()>;
    /// Traffic of all links.
    fn traffic(&self) -> Vec<LinkStatistics>;
}

impl<T: Item> AnyRouter for RouterShared<T> {
    fn prepare(&self) -> Result<()> {
        let members = self.members.lock().clone();
        for Reachable { source, ports, .. } in members.reachable(&self.policy)? {
            ports.iter().for_each(|port| port.prepare_for(&source));
        }
        Ok(())
    }

    fn seal(&self) -> Result<()> {
        loop {
            let known = self.members.lock().clone();
            let reachable = known.reachable(&self.policy)?;
            let members = self.members.lock();
            // A sender or receiver that was being made when the graph was sealed may have joined meanwhile.
            if members.count() != known.count() {
                continue;
            }
            for port in &members.ports {
                let reaches = |from: &&Reachable<T>| {
                    from.devices.contains(&port.device) && !members.closed.contains(&from.source)
                };
                let senders = reachable.iter().filter(reaches).map(|from| from.source.clone());
                port.seal(senders.collect());
            }
            // Under the lock because of `sender_closed`. Sealing twice changes nothing.
            let _ = self.reachable.set(reachable);
            return Ok(());
        }
    }

    fn traffic(&self) -> Vec<LinkStatistics> {
        let members = self.members.lock();
        members.ports.iter().flat_map(|port| port.traffic()).collect()
    }
}

/// Connects many endpoints \[G §3\]: each has at most one sender and one
/// receiver here, and a [`RoutingPolicy`] decides who gets what.
///
/// ```
/// use millstream_flow::{Buffers, Context, Devices, Graph, first_available};
///
/// let context = Context::builder().devices(Devices::host(2)).build()?;
/// let graph = Graph::new(&context);
/// let router = graph.router::<u32>(first_available())?;
/// let mut sender = router.sender(&context.devices()[0])?;
/// let receiver = router.receiver(context.host(), Buffers::items(16))?;
/// let _idle = router.receiver(&context.devices()[0], Buffers::items(16))?;
/// let received = context.block_on(graph.run(async move {
///     sender.send_all(vec![1, 2, 3]).await?;
///     sender.shutdown()?;
///     receiver.collect().await
/// }))??;
/// assert_eq!(received, [1, 2, 3]);
/// # Ok::<(), millstream_flow::Error>(())
/// ```
#[derive(Clone)]
pub struct Router<T: Item> {
    shared: Arc<RouterShared<T>>,
    graph: Arc<GraphShared>,
}

impl<T: Item> fmt::Debug for Router<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Router")
    }
}

impl<T: Item> Router<T> {
    /// A router that is not part of the graph yet.
    pub(crate) fn new(policy: RoutingPolicy, graph: Arc<GraphShared>) -> Router<T> {
        let (senders, closed, ports) = (Vec::new(), Vec::new(), Vec::new());
        let members = Mutex::new(Members { senders, closed, ports });
        let shared = Arc::new(RouterShared { policy, members, reachable: OnceLock::new() });
        Router { shared, graph }
    }

    /// Makes the router part of the graph.
    ///
    /// # Errors
    /// [`Error::Sealed`] if the graph runs.
    pub(crate) fn join_graph(&self) -> Result<()> {
        self.graph.add(Arc::clone(&self.shared) as Arc<dyn AnyRouter>)
    }

    /// The link from `device` into this router.
    ///
    /// # Errors
    /// A device of another context, a second sender of the same device, a graph
    /// that runs already.
    pub fn sender(&self, device: &Device) -> Result<Sender<T>> {
        self.new_sender(device).map(Sender::new)
    }

    /// Must be called with the members' lock, under which sealing takes place: an end that joined
    /// later would never be sealed.
    fn check_unsealed(&self) -> Result<()> {
        if self.shared.is_sealed() { Err(Error::Sealed) } else { Ok(()) }
    }

    /// What a sender shares with its messages. Dropping this without having made a [`Sender`] does
    /// not count as dropping a sender.
    pub(crate) fn new_sender(&self, device: &Device) -> Result<Arc<SenderShared<T>>> {
        self.graph.check_endpoint(device)?;
        let mut members = self.shared.members.lock();
        self.check_unsealed()?;
        if members.senders.contains(device) {
            let (from, to) = (device.name(), "the router".to_string());
            return Err(Error::DuplicateLink { from, to });
        }
        ways::prepare(self.graph.context().transfer(), device)?;
        let streams = |kind, count| (0..count).map(move |_| device.stream_of(kind));
        let (large, small) = if device.is_host_endpoint() { (0, 0) } else { (LANES, 1) };
        let large: millstream_device::Result<_> = streams(StreamKind::Copy, large).collect();
        let small = streams(StreamKind::SmallCopy, small).next().transpose()?;
        let lanes = Lanes { large: large?, small };
        members.senders.push(device.clone());
        let failure = Arc::clone(&self.graph.failure);
        let router = Arc::clone(&self.shared);
        let ends = (device.clone(), self.graph.context().host().clone());
        Ok(Arc::new(SenderShared::new(ends, lanes, failure, router)))
    }

    /// The link from this router to `device`, with its packet buffers.
    ///
    /// # Errors
    /// As [`Router::sender`]; no memory for the buffers; packets too small for
    /// an item.
    pub fn receiver(&self, device: &Device, buffers: Buffers) -> Result<Receiver<T>> {
        let context = self.graph.context();
        let others = context.devices().iter().chain([context.host()]);
        self.receiver_from(others.filter(|other| *other != device), device, buffers)
    }

    /// The link from this router to `device`, with as many packet buffers as the
    /// links from `sources` need.
    pub(crate) fn receiver_from<'a>(
        &self,
        sources: impl IntoIterator<Item = &'a Device> + Clone,
        device: &Device,
        buffers: Buffers,
    ) -> Result<Receiver<T>> {
        self.graph.check_endpoint(device)?;
        let context = self.graph.context();
        let (packet_items, count) = buffers.resolve::<T>()?;
        let count = count.unwrap_or_else(|| {
            let packet_bytes = packet_items.saturating_mul(size_of::<T>());
            default_count(context, sources, device, packet_bytes)
        });
        let mut members = self.shared.members.lock();
        self.check_unsealed()?;
        if members.ports.iter().any(|port| port.device == *device) {
            let (from, to) = ("the router".to_string(), device.name());
            return Err(Error::DuplicateLink { from, to });
        }
        ways::prepare(context.transfer(), device)?;
        let failure = Arc::clone(&self.graph.failure);
        let port = Arc::new(Port::new(context, device.clone(), (packet_items, count), failure)?);
        for place in 0..count {
            let label = format!("packet buffer {place} of {device}");
            let buffer = device.buffer_to_overwrite(packet_items)?.with_label(label);
            port.post(PacketBuffer { buffer, free_after: None });
        }
        let watched: Weak<Port<T>> = Arc::downgrade(&port);
        self.graph.failure.watch(watched as Weak<dyn PendingCalls>);
        members.ports.push(Arc::clone(&port));
        Ok(Receiver::new(port))
    }
}
