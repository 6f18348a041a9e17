//! The sending end of a link.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use millstream_device::{
    Awaitable, Device, DeviceBuffer, Event, EventStatus, HostData, SharedBuffer, Stream,
};
use parking_lot::Mutex;

use crate::failure::{Failure, Interrupt};
use crate::message::{Completion, Message, Payload};
use crate::policy::MessageInfo;
use crate::router::RouterShared;
use crate::segment::{PendingSegment, SendBuffer};
use crate::ways::SMALL_BYTES;
use crate::{Error, Item, Result};

/// How many items a kernel produced: one word on the host that kernels write
/// and [`Sender::send_counted`] reads once they are done.
pub type Counter = SharedBuffer<u32>;

/// Streams of a sender's device for its copies; none on the host.
#[derive(Debug)]
pub(crate) struct Lanes {
    /// Take turns.
    pub(crate) large: Vec<Stream>,
    /// For small messages, so that these do not wait behind large ones.
    pub(crate) small: Option<Stream>,
}

/// What the sender, its messages and its send buffers share.
pub(crate) struct SenderShared<T: Item> {
    pub(crate) source: Device,
    /// Copies from this sender, in turn, so that one begins while another's end is
    /// told; none on the host, which uses the receivers' lanes.
    lanes: Lanes,
    copies: AtomicUsize,
    pub(crate) failure: Arc<Failure>,
    router: Arc<RouterShared<T>>,
    state: Mutex<State<T>>,
}

struct State<T: Item> {
    /// Messages not offered yet, in the order they were sent.
    outgoing: VecDeque<Outgoing<T>>,
    /// Somebody offers messages from the front of `outgoing`.
    offering: bool,
    /// Messages offered whose last packet has not been assigned.
    unassigned: usize,
    next_sequence: u64,
    shut_down: bool,
    /// The destinations have been told of the shutdown.
    closed: bool,
    free: Vec<DeviceBuffer<T>>,
    /// Send buffers handed out or on their way.
    outstanding: usize,
    limit: usize,
    wakers: Vec<Waker>,
}

struct Outgoing<T: Item> {
    payload: Payload<T>,
    sequence: u64,
    metadata: u64,
    ready: Option<Event>,
    /// `None` until it may be offered: until the device has counted, or has produced a small one.
    items: Option<usize>,
    completion: Option<Arc<Completion>>,
}

impl<T: Item> fmt::Debug for SenderShared<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sender").field("source", &self.source).finish_non_exhaustive()
    }
}

impl<T: Item> SenderShared<T> {
    pub(crate) fn new(
        source: Device,
        lanes: Lanes,
        failure: Arc<Failure>,
        router: Arc<RouterShared<T>>,
    ) -> SenderShared<T> {
        let state = Mutex::new(State {
            outgoing: VecDeque::new(),
            offering: false,
            unassigned: 0,
            next_sequence: 0,
            shut_down: false,
            closed: false,
            free: Vec::new(),
            outstanding: 0,
            limit: 2,
            wakers: Vec::new(),
        });
        SenderShared { source, lanes, copies: AtomicUsize::new(0), failure, router, state }
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

    /// The last packet of a message has been assigned.
    pub(crate) fn message_assigned(&self) {
        let wakers = {
            let mut state = self.state.lock();
            state.unassigned = state.unassigned.saturating_sub(1);
            std::mem::take(&mut state.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// A send buffer is free again; `None` if it has to be allocated anew.
    pub(crate) fn return_buffer(&self, buffer: Option<DeviceBuffer<T>>) {
        let wakers = {
            let mut state = self.state.lock();
            state.outstanding = state.outstanding.saturating_sub(1);
            if !state.shut_down {
                state.free.extend(buffer);
            }
            std::mem::take(&mut state.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Calls `ready` until it has an answer, again after every change.
    async fn wait_until<R>(&self, mut ready: impl FnMut(&mut State<T>) -> Option<R>) -> Result<R> {
        poll_fn(|context: &mut Context<'_>| {
            let mut state = self.state.lock();
            if let Some(cause) = self.failure.cause() {
                return Poll::Ready(Err(cause.clone()));
            }
            if let Some(answer) = ready(&mut state) {
                return Poll::Ready(Ok(answer));
            }
            if !state.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                state.wakers.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    fn enqueue(
        self: &Arc<Self>,
        payload: Payload<T>,
        metadata: u64,
        ready: Option<Event>,
        items: Option<usize>,
        completion: Option<Arc<Completion>>,
    ) -> Result<u64> {
        self.failure.check()?;
        if !self.router.is_sealed() {
            return Err(Error::NotRunning);
        }
        // Lanes of small messages are few, and strangers share them: none waits there for what
        // produces it. Of larger ones the copies are submitted ahead.
        let producer = ready.clone().filter(|ready| {
            let is_small = items.is_some_and(|items| items * size_of::<T>() <= SMALL_BYTES);
            is_small && ready.status() == EventStatus::Pending
        });
        let sequence = {
            let mut state = self.state.lock();
            let sequence = state.next_sequence;
            state.next_sequence += 1;
            let items = items.filter(|_| producer.is_none());
            let outgoing = Outgoing { payload, sequence, metadata, ready, items, completion };
            state.outgoing.push_back(outgoing);
            sequence
        };
        match producer.zip(items) {
            Some((producer, items)) => self.offer_after(&producer, sequence, move || Ok(items)),
            None => self.offer_ready(),
        }
        Ok(sequence)
    }

    /// Lets message `sequence` go when its producer is done, with the items that are there then.
    fn offer_after(
        self: &Arc<Self>,
        producer: &Event,
        sequence: u64,
        items: impl FnOnce() -> Result<usize> + Send + 'static,
    ) {
        let shared = Arc::clone(self);
        producer.on_complete(move |result| {
            match result.map_err(Error::Device).and_then(|()| items()) {
                Ok(items) => shared.produced(sequence, items),
                Err(error) => shared.failure.fail(error),
            }
        });
    }

    /// Message `sequence` may be offered.
    fn produced(self: &Arc<Self>, sequence: u64, items: usize) {
        {
            let mut state = self.state.lock();
            let waiting = state.outgoing.iter_mut().find(|outgoing| outgoing.sequence == sequence);
            if let Some(outgoing) = waiting {
                outgoing.items = Some(items);
            }
        }
        self.offer_ready();
    }

    /// Offers messages from the front of the queue as far as they may be
    /// offered. One caller at a time, so that they go out in order.
    fn offer_ready(self: &Arc<Self>) {
        let mut state = self.state.lock();
        if state.offering {
            return;
        }
        state.offering = true;
        loop {
            let ready = state.outgoing.front().is_some_and(|outgoing| outgoing.items.is_some());
            let next = if ready { state.outgoing.pop_front() } else { None };
            let Some(outgoing) = next else { break };
            let items = outgoing.items.unwrap_or(0);
            state.unassigned += usize::from(items > 0);
            drop(state);
            if let Err(error) = self.offer(outgoing, items) {
                self.failure.fail(error);
            }
            state = self.state.lock();
        }
        state.offering = false;
        let close = state.shut_down && state.outgoing.is_empty() && !state.closed;
        state.closed |= close;
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        if close {
            self.router.sender_closed(&self.source);
        }
    }

    fn offer(self: &Arc<Self>, outgoing: Outgoing<T>, items: usize) -> Result<()> {
        let Outgoing { payload, sequence, metadata, ready, completion, .. } = outgoing;
        if items == 0 {
            if let Payload::Pooled(buffer) = payload {
                self.return_buffer(buffer.in_flight().is_none().then_some(buffer));
            }
            if let Some(completion) = completion {
                completion.finish();
            }
            return Ok(());
        }
        let info = MessageInfo { items, sequence, metadata };
        let offers = self.router.route(&info, &self.source)?;
        let copies = offers.iter().map(|(range, _)| range.len()).sum();
        let message = Message::new(info, Arc::clone(self), payload, ready, completion, copies);
        self.router.offer(Arc::new(message), offers);
        Ok(())
    }
}

impl<T: Item> Interrupt for SenderShared<T> {
    fn interrupt(&self) {
        let wakers = std::mem::take(&mut self.state.lock().wakers);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn clear(&self) {
        let given_up = {
            let mut state = self.state.lock();
            (std::mem::take(&mut state.outgoing), std::mem::take(&mut state.free))
        };
        drop(given_up);
    }
}

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
        self.shared.state.lock().limit = count.max(1);
        self
    }

    /// Waits for a free send buffer of `len` items on this endpoint: the link's
    /// back-pressure. A buffer is free again when its message has been copied. What it holds at
    /// first is not defined: an earlier message, say.
    ///
    /// # Errors
    /// The graph's first cause; no memory for the buffer.
    ///
    /// # Cancel safety
    /// Nothing is taken until the future resolves.
    pub async fn buffer(&mut self, len: usize) -> Result<SendBuffer<T>> {
        let reused = self.shared.wait_until(|state| {
            (state.outstanding < state.limit).then(|| {
                state.outstanding += 1;
                state.free.pop()
            })
        });
        let buffer = match reused.await? {
            Some(buffer) if buffer.len() >= len => buffer,
            _ => {
                let label = format!("send buffer of {}", self.shared.source);
                match self.shared.source.buffer_to_overwrite(len) {
                    Ok(buffer) => buffer.with_label(label),
                    Err(error) => {
                        self.shared.return_buffer(None);
                        return Err(error.into());
                    }
                }
            }
        };
        Ok(SendBuffer::new(buffer, len, Arc::clone(&self.shared)))
    }

    /// Sends a buffer once everything submitted to `stream` so far is done. Later messages of
    /// this sender wait their turn: until then, if this one is of 64 KiB or less.
    ///
    /// # Errors
    /// The graph's first cause; an operation on the buffer that `stream` is not
    /// ordered after; a routing policy without an answer ends the graph.
    pub fn send(&mut self, buffer: SendBuffer<T>, stream: &Stream) -> Result<()> {
        let (ready, len) = (buffer.ordered_event(stream)?, buffer.len());
        let (payload, metadata) = buffer.into_payload();
        self.shared.enqueue(payload, metadata, Some(ready), Some(len), None).map(drop)
    }

    /// As [`Sender::send`], with a length that only the device knows: the first
    /// `count` items go out when `stream` has come so far. Nothing goes out if
    /// it is 0. Later messages of this sender wait their turn.
    ///
    /// # Errors
    /// As [`Sender::send`]; a count larger than the buffer ends the graph.
    pub fn send_counted(
        &mut self,
        buffer: SendBuffer<T>,
        count: Counter,
        stream: &Stream,
    ) -> Result<()> {
        let (ready, capacity) = (buffer.ordered_event(stream)?, buffer.len());
        let (payload, metadata) = buffer.into_payload();
        let sequence = self.shared.enqueue(payload, metadata, Some(ready.clone()), None, None)?;
        self.shared.offer_after(&ready, sequence, move || match count.load(0)? as usize {
            count if count <= capacity => Ok(count),
            count => Err(Error::CountTooLarge { count, capacity }),
        });
        Ok(())
    }

    /// Sends host data as one message and waits until all its packets are
    /// assigned.
    ///
    /// The driver copies packets for GPUs out of such memory on the thread that submits them. Much
    /// data goes faster in a buffer of the host ([`Sender::send_from`]), out of which GPUs copy
    /// by themselves, all at once.
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

    /// Sends host data as one message with `metadata` for the routing policy.
    ///
    /// # Errors
    /// The graph's first cause.
    pub fn send_data(&mut self, data: impl Into<HostData<T>>, metadata: u64) -> Result<()> {
        let data = data.into();
        let items = data.len();
        self.shared.enqueue(Payload::Host(data), metadata, None, Some(items), None).map(drop)
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
        buffer.covered_by(stream)?;
        let ready = stream.record()?;
        let completion = Completion::watched(&self.shared.failure);
        let items = buffer.len();
        let sent =
            Sent { completion: Arc::clone(&completion), failure: Arc::clone(&self.shared.failure) };
        let payload = Payload::Shared(buffer.reader());
        self.shared.enqueue(payload, metadata, Some(ready), Some(items), Some(completion))?;
        Ok(sent)
    }

    /// Sends on what was received at this endpoint, as a message of its own with the same
    /// metadata, once everything submitted to `stream` so far is done, and gives the packet's buffer
    /// back to its link when it has been copied to all destinations: no other buffer is in
    /// between. The stream must come after the segment.
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
    /// As [`Sender::send`]; a segment that lies elsewhere. What uses the segment and is not over
    /// when it has been copied ends the graph.
    pub fn forward(&mut self, segment: PendingSegment<T>, stream: &Stream) -> Result<()> {
        let items = segment.len();
        let (payload, metadata, ready) = segment.into_payload(&self.shared.source, stream)?;
        self.shared.enqueue(payload, metadata, Some(ready), Some(items), None).map(drop)
    }

    /// Waits until every packet of every message so far has been assigned.
    ///
    /// # Errors
    /// The graph's first cause.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn flushed(&mut self) -> Result<()> {
        self.shared
            .wait_until(|state| {
                (state.outgoing.is_empty() && state.unassigned == 0 && !state.offering)
                    .then_some(())
            })
            .await
    }

    /// Says that nothing more will be sent; what was sent still arrives.
    ///
    /// # Errors
    /// The graph's first cause.
    pub fn shutdown(mut self) -> Result<()> {
        self.shut_down = true;
        self.shared.state.lock().shut_down = true;
        self.shared.failure.check()?;
        self.shared.offer_ready();
        Ok(())
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
