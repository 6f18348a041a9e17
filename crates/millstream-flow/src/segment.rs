//! Segments: buffers with a size, a source, a sequence and an offset
//! \[G §3, Table 1\].

use std::fmt;
use std::future::poll_fn;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use millstream_device::{Accesses, Argument, Awaitable, Device, Event, Part, Read, Stream};

use crate::message::Payload;
use crate::port::{Packet, PacketBuffer, Port};
use crate::{Error, Item, Result};

/// A packet buffer in a receiver's hands; goes back to the link when released.
pub(crate) struct Held<T: Item> {
    /// `None` once released.
    packet: Option<Packet<T>>,
    port: Arc<Port<T>>,
}

impl<T: Item> Held<T> {
    /// Part of the items, as the source of a copy.
    pub(crate) fn part(&self, range: Range<usize>) -> Result<Part<'_, T>> {
        match &self.packet {
            Some(packet) => Ok(packet.buffer.part(range)?),
            None => Err(Error::Ended),
        }
    }

    /// A copy from this buffer is over: the next copy into it need not wait for that one.
    pub(crate) fn retire(&self, event: &Event) {
        if let Some(packet) = &self.packet {
            packet.buffer.retire(event);
        }
    }

    /// Gives the buffer back after it has been copied; a failure ends the graph.
    pub(crate) fn release_forwarded(mut self) {
        if let Err(error) = self.release("forwarded") {
            self.port.failure.fail(error);
        }
    }

    fn release_after(mut self, stream: &Stream) -> Result<()> {
        let Some(packet) = self.packet.take() else {
            return Ok(());
        };
        let freed =
            match packet.buffer.covered_by(stream, "a release").and_then(|()| stream.record()) {
                Ok(freed) => freed,
                Err(error) => {
                    self.packet = Some(packet);
                    return Err(error.into());
                }
            };
        let port = Arc::clone(&self.port);
        let (buffer, free_after) = (packet.buffer, Some(freed.clone()));
        // Posted only once it is free, so that no copy waits for it in a lane that others use.
        freed.on_complete(move |result| match result {
            Ok(()) => port.post(PacketBuffer { buffer, free_after }),
            Err(error) => port.failure.fail(Error::Device(error)),
        });
        Ok(())
    }

    fn release(&mut self, action: &'static str) -> Result<()> {
        let Some(packet) = self.packet.take() else {
            return Ok(());
        };
        let Some(access) = packet.buffer.in_flight() else {
            self.port.post(PacketBuffer { buffer: packet.buffer, free_after: None });
            return Ok(());
        };
        let (buffer, access) = (packet.buffer.to_string(), access.to_string());
        self.packet = Some(packet);
        Err(Error::InFlight { buffer, action, access })
    }
}

impl<T: Item> Drop for Held<T> {
    fn drop(&mut self) {
        if let Err(error) = self.release("dropped") {
            self.port.failure.suspect(error);
        }
    }
}

/// A packet assigned to a receiver whose bytes may still be on their way
/// \[G Table 1, §4.2\].
///
/// Make a stream wait for it ([`Stream::wait`]) or await [`ready`](Self::ready)
/// before touching the items, and give the buffer back with
/// [`release_after`](Self::release_after), or [send it on](crate::Sender::forward). Dropping it releases it too, and is
/// an error of the graph while the copy or a kernel is in flight on it.
///
/// The host cannot read it before it has waited:
///
/// ```
/// # use millstream_flow::{PendingSegment, Result};
/// async fn sum(pending: PendingSegment<u32>) -> Result<u32> {
///     let segment = pending.ready().await?;
///     let sum = segment.host_view()?.iter().sum();
///     segment.release()?;
///     Ok(sum)
/// }
/// ```
///
/// ```compile_fail,E0599
/// # use millstream_flow::{PendingSegment, Result};
/// async fn sum(pending: PendingSegment<u32>) -> Result<u32> {
///     let sum = pending.host_view()?.iter().sum();
///     pending.release()?;
///     Ok(sum)
/// }
/// ```
///
/// Nor can anything be read after the buffer was given back:
///
/// ```compile_fail,E0505
/// # use millstream_flow::{PendingSegment, Result};
/// async fn sum(pending: PendingSegment<u32>) -> Result<u32> {
///     let segment = pending.ready().await?;
///     let items = segment.host_view()?;
///     segment.release()?;
///     Ok(items.iter().sum())
/// }
/// ```
pub struct PendingSegment<T: Item> {
    held: Held<T>,
    len: usize,
    arrival: Event,
    origin: Origin,
}

/// Where a segment comes from.
#[derive(Clone, Debug)]
struct Origin {
    source: Device,
    sequence: u64,
    offset: usize,
    message_len: usize,
    metadata: u64,
}

macro_rules! describe_segment {
    () => {
        /// Items in the segment.
        pub fn len(&self) -> usize {
            self.len
        }

        /// Whether the segment has no items; a segment that was received always has some.
        pub fn is_empty(&self) -> bool {
            self.len == 0
        }

        /// The endpoint that sent it.
        pub fn source(&self) -> &Device {
            &self.origin.source
        }

        /// Position of its message among those of the sender, from 0.
        pub fn sequence(&self) -> u64 {
            self.origin.sequence
        }

        /// Position of its first item in the message.
        pub fn offset(&self) -> usize {
            self.origin.offset
        }

        /// Items in the whole message.
        pub fn message_len(&self) -> usize {
            self.origin.message_len
        }

        /// The word that the sender gave the message.
        pub fn metadata(&self) -> u64 {
            self.origin.metadata
        }

        /// The items, as the source of a copy.
        ///
        /// # Errors
        /// None while the segment is held.
        pub fn part(&self) -> Result<Part<'_, T>> {
            self.held.part(0..self.len)
        }

        /// Gives the buffer back once everything submitted to `stream` so far
        /// is done.
        ///
        /// # Errors
        /// An operation on the buffer that `stream` is not ordered after; the error names the
        /// operation and its event. The segment is then gone, which ends the graph if that
        /// operation is still in flight.
        pub fn release_after(self, stream: &Stream) -> Result<()> {
            self.held.release_after(stream)
        }

        /// Gives the buffer back now.
        ///
        /// # Errors
        /// An operation on the buffer that the host has not waited for. The segment is then gone,
        /// which ends the graph.
        pub fn release(mut self) -> Result<()> {
            self.held.release("released")
        }
    };
}

impl<T: Item> PendingSegment<T> {
    pub(crate) fn new(packet: Packet<T>, port: Arc<Port<T>>) -> PendingSegment<T> {
        let info = &packet.message.info;
        let origin = Origin {
            source: packet.message.source.clone(),
            sequence: info.sequence,
            offset: packet.range.start,
            message_len: info.items,
            metadata: info.metadata,
        };
        let (len, arrival) = (packet.range.len(), packet.arrival.clone());
        PendingSegment { held: Held { packet: Some(packet), port }, len, arrival, origin }
    }

    describe_segment!();

    /// What a sender of this endpoint forwards: the payload, its metadata, and the event after
    /// which it may be read.
    pub(crate) fn into_payload(
        self,
        sender: &Device,
        stream: &Stream,
    ) -> Result<(Payload<T>, u64, Event)> {
        let receiver = &self.held.port.device;
        if receiver != sender {
            let (found, expected) = (receiver.name(), sender.name());
            return Err(Error::SegmentElsewhere { found, expected });
        }
        if let Some(packet) = &self.held.packet {
            packet.buffer.covered_by(stream, "a forward")?;
        }
        let ready = stream.record()?;
        Ok((Payload::Forwarded(self.held), self.origin.metadata, ready))
    }

    /// Waits until the items have arrived.
    ///
    /// # Errors
    /// The failure of the copy, or the graph's first cause.
    ///
    /// # Cancel safety
    /// Dropping the future drops the segment in flight, an error of the graph.
    pub async fn ready(self) -> Result<Segment<T>> {
        let failure = &self.held.port.failure;
        let mut arrival = pin!(self.arrival.completed());
        // If the graph fails before the packet is there, its runner polls once more.
        let arrived = poll_fn(|context| match (arrival.as_mut().poll(context), failure.cause()) {
            (Poll::Pending, Some(cause)) => Poll::Ready(Err(cause.clone())),
            (arrived, _) => arrived.map_err(Error::Device),
        });
        if let Err(error) = arrived.await {
            failure.fail(error.clone());
            return Err(failure.cause().cloned().unwrap_or(error));
        }
        Ok(Segment { held: self.held, len: self.len, origin: self.origin })
    }
}

/// A packet that has arrived: its items may be used by the host at once, and by
/// any stream.
///
/// ```
/// # use millstream_flow::{Buffers, Context, Devices, Error, Graph};
/// # let context = Context::builder().devices(Devices::host(1)).build()?;
/// # let graph = Graph::new(&context);
/// # let device = &context.devices()[0];
/// # let (mut feed, mut input) = graph.link::<u32>(device, context.host(), Buffers::items(4))?;
/// # let run = graph.run(async move {
/// # feed.send_all(vec![1u32, 2, 3]).await?;
/// # feed.shutdown()?;
/// let Some(pending) = input.recv().await? else { return Err(Error::Ended) };
/// let segment = pending.ready().await?;
/// assert_eq!(segment.host_view()?.iter().sum::<u32>(), 6);
/// segment.release()?;
/// # assert!(input.recv().await?.is_none());
/// # Ok::<(), Error>(())
/// # });
/// # context.block_on(run)??;
/// # Ok::<(), Error>(())
/// ```
pub struct Segment<T: Item> {
    held: Held<T>,
    len: usize,
    origin: Origin,
}

impl<T: Item> Segment<T> {
    describe_segment!();

    /// The items; on the host endpoint only.
    ///
    /// # Errors
    /// A segment elsewhere.
    pub fn host_view(&self) -> Result<&[T]> {
        match &self.held.packet {
            Some(packet) => Ok(&packet.buffer.host_view()?[..self.len]),
            None => Err(Error::Ended),
        }
    }
}

impl<T: Item> Awaitable for PendingSegment<T> {
    fn event(&self) -> &Event {
        &self.arrival
    }
}

macro_rules! readable_by_kernels {
    ($segment:ident) => {
        // SAFETY: the part, which this delegates to, keeps the promise.
        unsafe impl<T: Item> Argument<Read<T>> for &$segment<T> {
            fn bind(
                self,
                accesses: &mut Accesses,
            ) -> millstream_device::Result<<Read<T> as millstream_device::Parameter>::Bound> {
                match &self.held.packet {
                    Some(packet) => packet.buffer.part(0..self.len)?.bind(accesses),
                    None => Err(millstream_device::Error::Closed),
                }
            }
        }

        impl<T: Item> fmt::Debug for $segment<T> {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter
                    .debug_struct(stringify!($segment))
                    .field("len", &self.len)
                    .field("origin", &self.origin)
                    .finish_non_exhaustive()
            }
        }
    };
}

readable_by_kernels!(PendingSegment);
readable_by_kernels!(Segment);
