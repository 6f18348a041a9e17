//! The sending end of a link.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use millstream_device::{Awaitable, Device, DeviceBuffer, HostData, Stream};

use crate::counter::Counter;
use crate::failure::Failure;
use crate::message::{Completion, Payload};
use crate::segment::PendingSegment;
use crate::send_buffer::SendBuffer;
use crate::sender_shared::{Parcel, SenderShared};
use crate::{Error, Item, Result};

/// The sending end of a link: an endpoint's way into a [`Router`](crate::Router)
/// or to the other end of a plain link.
///
/// Messages may have any length; they go out in packets no larger than the
/// receivers' buffers, as buffers are free. Messages of one sender are offered
/// in the order they were sent.
///
/// A sender must be [`shutdown`](Sender::shutdown); dropping it before is an
/// error of the graph.
///
/// After that nothing can be sent, which the compiler sees to:
///
/// ```
/// # use millstream_flow::{Result, Sender};
/// async fn feed(mut output: Sender<u32>) -> Result<()> {
///     output.send_all(vec![1, 2, 3]).await?;
///     output.shutdown()
/// }
/// ```
///
/// ```compile_fail,E0382
/// # use millstream_flow::{Result, Sender};
/// async fn feed(mut output: Sender<u32>) -> Result<()> {
///     output.shutdown()?;
///     output.send_all(vec![1, 2, 3]).await
/// }
/// ```
///
/// A sender is one end of a link, not several:
///
/// ```compile_fail,E0599
/// # use millstream_flow::{Result, Sender};
/// async fn feed(mut output: Sender<u32>) -> Result<()> {
///     let mut other = output.clone();
///     other.send_all(vec![1, 2, 3]).await?;
///     other.shutdown()?;
///     output.shutdown()
/// }
/// ```
#[derive(Debug)]
pub struct Sender<T: Item> {
    shared: Arc<SenderShared<T>>,
    shut_down: bool,
}

impl<T: Item> Sender<T> {
    pub(crate) fn new(shared: Arc<SenderShared<T>>) -> Sender<T> {
        let port: Weak<SenderShared<T>> = Arc::downgrade(&shared);
        shared.failure.watch(port);
        Sender { shared, shut_down: false }
    }

    /// The endpoint that sends.
    pub fn device(&self) -> &Device {
        &self.shared.source
    }

    /// Sets how many send buffers may be out at once; two unless set.
    #[must_use]
    pub fn with_send_buffers(self, count: usize) -> Sender<T> {
        self.shared.buffers.set_limit(count);
        self
    }

    /// Waits for a free send buffer of `len` items on this endpoint: the link's back-pressure. A
    /// buffer is free again when its message has been copied. Its initial contents are undefined,
    /// for example those of an earlier message.
    ///
    /// # Errors
    /// The graph's first cause; no memory for the buffer.
    ///
    /// # Cancel safety
    /// Nothing is taken until the future resolves.
    pub async fn buffer(&mut self, len: usize) -> Result<SendBuffer<T>> {
        let shared = &self.shared;
        let cause = || shared.failure.cause().cloned();
        let reused = poll_fn(|context| shared.buffers.poll_take(context.waker(), cause));
        let buffer = match reused.await? {
            Some(buffer) if buffer.len() >= len => buffer,
            _ => {
                let label = format!("send buffer of {}", self.shared.source);
                match self.shared.source.buffer_to_overwrite(len) {
                    Ok(buffer) => buffer.with_label(label),
                    Err(error) => {
                        self.shared.buffers.give_back(None);
                        return Err(error.into());
                    }
                }
            }
        };
        Ok(SendBuffer::new(buffer, len, Arc::clone(&self.shared)))
    }

    /// Waits for a free packet buffer of the receiver, for a kernel of this endpoint to write `len`
    /// items into: what is [sent](Sender::send) in it is there when the kernel is over, and nothing is
    /// copied \[G §2.1, direct access\]. `stream` comes after what the receiver has done with it.
    /// The link's statistics count it as a push.
    ///
    /// Where that cannot be, it is a [buffer](Sender::buffer) of this endpoint, which is copied:
    ///
    /// * before the graph runs;
    /// * if there are several receivers, or this device cannot reach the receiver's memory;
    /// * for no items, or for more than a packet has;
    /// * if another [way](millstream_device::TransferWay) is asked for, or this endpoint is the host;
    /// * while an earlier message of this sender waits for a packet buffer;
    /// * if only one packet buffer is left that no sender has reserved.
    ///
    /// A kernel should write each item once and read none: the buffer may lie behind a link.
    ///
    /// A receiver that keeps some packets while it waits for others needs one buffer more than it
    /// keeps, and one for each that its senders keep while they send others.
    ///
    /// ```
    /// use millstream_device::{Kernel, Value, Write};
    /// use millstream_flow::{Buffers, Context, Devices, Error, Graph};
    ///
    /// static SET: Kernel<(Write<u32>, Value<u32>)> = Kernel::new("set", |_, (items, value)| {
    ///     items.fill(value);
    ///     Ok(())
    /// });
    ///
    /// let context = Context::builder().devices(Devices::host(1)).build()?;
    /// let graph = Graph::new(&context);
    /// let device = context.devices()[0].clone();
    /// let buffers = Buffers::items(4).count(2);
    /// let (mut output, input) = graph.link::<u32>(&device, context.host(), buffers)?;
    /// graph.spawn(async move {
    ///     let stream = device.stream()?;
    ///     for value in 0..3 {
    ///         let mut packet = output.packet(4, &stream).await?;
    ///         SET.launch(&stream, 4, (&mut packet, value))?;
    ///         output.send(packet, &stream)?;
    ///     }
    ///     output.shutdown()
    /// });
    /// let items = context.block_on(graph.run(input.collect()))??;
    /// assert_eq!(items, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Sender::buffer`]; a failed stream.
    ///
    /// # Cancel safety
    /// Nothing is taken until the future resolves.
    ///
    /// # Device ordering
    /// What is submitted to `stream` next comes after the receiver's last use of the buffer, and what
    /// waits for the received segment comes after what was on the stream when it was sent.
    pub async fn packet(&mut self, len: usize, stream: &Stream) -> Result<SendBuffer<T>> {
        let Some(packet) = self.shared.reserve(len).await? else {
            return self.buffer(len).await;
        };
        let free_after = packet.buffer.free_after.clone();
        let buffer = SendBuffer::in_packet(packet, len, Arc::clone(&self.shared));
        if let Some(event) = free_after {
            stream.wait(&event)?;
        }
        Ok(buffer)
    }

    /// Sends a buffer once everything submitted to `stream` so far is done. Later messages of this
    /// sender are offered after this one; if it is copied and has 64 KiB or less, they wait until
    /// `stream` has come this far.
    ///
    /// # Errors
    /// The graph's first cause; [`Error::NotRunning`] before the graph runs; a buffer of another link; an
    /// operation on the buffer that `stream` is not ordered after. The buffer is dropped then, which ends
    /// the graph if an operation on it is in flight. A routing policy without an answer ends the graph,
    /// too.
    pub fn send(&mut self, buffer: SendBuffer<T>, stream: &Stream) -> Result<()> {
        buffer.check(&self.shared)?;
        let (ready, len) = (buffer.ordered_event(stream)?, buffer.len());
        self.shared.send(buffer.into_parcel(ready), Some(len)).map(drop)
    }

    /// A counter at 0, for [`Sender::send_counted`].
    ///
    /// # Errors
    /// No memory of the host.
    pub fn counter(&self) -> Result<Counter> {
        Counter::new(&self.shared.host)
    }

    /// As [`Sender::send`], with a length that only the device knows: when `stream` has come this
    /// far, the first `count` items are sent, or nothing if `count` is 0. Later messages of this
    /// sender wait until then.
    ///
    /// # Errors
    /// As [`Sender::send`]; a count larger than the buffer ends the graph.
    pub fn send_counted(
        &mut self,
        buffer: SendBuffer<T>,
        count: Counter,
        stream: &Stream,
    ) -> Result<()> {
        buffer.check(&self.shared)?;
        let (ready, capacity) = (buffer.ordered_event(stream)?, buffer.len());
        let sequence = self.shared.send(buffer.into_parcel(ready.clone()), None)?;
        self.shared.offer_after(&ready, sequence, move || match count.count()? {
            count if count <= capacity => Ok(count),
            count => Err(Error::CountTooLarge { count, capacity }),
        });
        Ok(())
    }

    /// Sends host data as one message and waits until all its packets are
    /// assigned.
    ///
    /// GPUs copy only out of pinned memory. Packets of up to 64 KiB the driver itself copies into some, on
    /// the submitting thread. Larger ones are copied by threads of the host into pinned packets, of which
    /// each link allocates as many as it has packet buffers, 16 at most, when it is first sent a message of
    /// more than 64 KiB; if none of these is free, the driver copies the packet. For much data
    /// [`Sender::send_from`] with a buffer of the host is faster: GPUs read that directly.
    ///
    /// # Errors
    /// The graph's first cause.
    ///
    /// # Cancel safety
    /// Once polled, the message is sent as a whole even if the future is dropped.
    pub async fn send_all(&mut self, data: impl Into<HostData<T>>) -> Result<()> {
        self.send_data(data, 0)?;
        self.flushed().await
    }

    /// Sends host data as one message with `metadata` for the routing policy, without waiting:
    /// whatever it is given is queued. If you send much, await [`Sender::flushed`] now and then, as
    /// [`Sender::send_all`] does after every message. A message without items reaches nobody.
    /// Before the first message of more than 64 KiB, the link pins memory for GPUs, as
    /// [`Sender::send_all`] explains; this takes milliseconds for each 16 MiB.
    ///
    /// # Errors
    /// The graph's first cause.
    pub fn send_data(&mut self, data: impl Into<HostData<T>>, metadata: u64) -> Result<()> {
        let data = data.into();
        let items = data.len();
        self.shared.prepare_for_host_data(items)?;
        let payload = Payload::Host(data);
        let parcel = Parcel { payload, packet: None, metadata, ready: None, completion: None };
        self.shared.send(parcel, Some(items)).map(drop)
    }

    /// Sends a buffer that stays the caller's, once everything submitted to
    /// `stream` so far is done. Await [`Sent`] before writing the buffer again.
    ///
    /// # Errors
    /// As [`Sender::send`].
    pub fn send_from(
        &mut self,
        buffer: &DeviceBuffer<T>,
        stream: &Stream,
        metadata: u64,
    ) -> Result<Sent> {
        buffer.covered_by(stream, "a send")?;
        let ready = stream.record()?;
        let completion = Completion::watched(&self.shared.source, &self.shared.failure);
        let items = buffer.len();
        let sent =
            Sent { completion: Arc::clone(&completion), failure: Arc::clone(&self.shared.failure) };
        let payload = Payload::Shared(buffer.reader());
        let (ready, completion) = (Some(ready), Some(completion));
        let parcel = Parcel { payload, packet: None, metadata, ready, completion };
        self.shared.send(parcel, Some(items))?;
        Ok(sent)
    }

    /// Sends a segment received at this endpoint on, as a message of its own with the same
    /// metadata, once everything submitted to `stream` so far is done. No other buffer is involved:
    /// the packet's own buffer is sent, and goes back to its link when it has been copied to all
    /// destinations. The stream must come after the segment.
    ///
    /// ```
    /// use millstream_device::Stream;
    /// use millstream_flow::{Receiver, Result, Sender};
    ///
    /// /// Each packet leaves while others arrive.
    /// async fn pass_on(mut input: Receiver<u32>, mut output: Sender<u32>, stream: Stream) -> Result<()> {
    ///     while let Some(pending) = input.recv().await? {
    ///         stream.wait(&pending)?; // kernels on the stream may read it, too
    ///         output.forward(pending, &stream)?;
    ///     }
    ///     output.shutdown()
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`Sender::send`], for the segment's buffer; a segment that lies on another endpoint. The
    /// graph ends if an operation still uses the segment when it has been copied.
    pub fn forward(&mut self, segment: PendingSegment<T>, stream: &Stream) -> Result<()> {
        let items = segment.len();
        let (payload, metadata, ready) = segment.into_payload(&self.shared.source, stream)?;
        let ready = Some(ready);
        let parcel = Parcel { payload, packet: None, metadata, ready, completion: None };
        self.shared.send(parcel, Some(items)).map(drop)
    }

    /// Waits until every packet of every message so far has been assigned.
    ///
    /// # Errors
    /// The graph's first cause.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn flushed(&mut self) -> Result<()> {
        let shared = &self.shared;
        let cause = || shared.failure.cause().cloned();
        poll_fn(|context| shared.outgoing.poll_flushed(context.waker(), cause)).await
    }

    /// Says that nothing more will be sent; what was sent still arrives.
    ///
    /// # Errors
    /// The graph's first cause.
    pub fn shutdown(mut self) -> Result<()> {
        self.shut_down = true;
        self.shared.shut_down()
    }
}

impl<T: Item> Drop for Sender<T> {
    fn drop(&mut self) {
        if !self.shut_down {
            let from = self.shared.source.name();
            self.shared.failure.suspect(Error::SenderDropped { from });
        }
    }
}

/// The copies of a message sent with [`Sender::send_from`]. As a future it
/// resolves when the buffer may be written again, by the host or any stream.
#[derive(Debug)]
#[must_use = "the buffer must not be written before this resolves"]
pub struct Sent {
    completion: Arc<Completion>,
    failure: Arc<Failure>,
}

impl Future for Sent {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        if let Some(copies) = self.completion.poll(context.waker()) {
            copies.iter().for_each(|copy| copy.event().merge_into_host());
            return Poll::Ready(Ok(()));
        }
        match self.failure.cause() {
            Some(cause) => Poll::Ready(Err(cause.clone())),
            None => Poll::Pending,
        }
    }
}
