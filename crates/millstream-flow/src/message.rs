//! Messages on their way: what is sent, and how much of it is still to go.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use millstream_device::{
    BufferReader, Device, DeviceBuffer, Event, HostData, Part, PartMut, Stream, TransferWay,
};
use parking_lot::{Mutex, RwLock};
use smallvec::{SmallVec, smallvec};

use crate::failure::{Failure, PendingCalls};
use crate::policy::MessageInfo;
use crate::port::{PacketBuffer, Port};
use crate::segment::Held;
use crate::sender_shared::SenderShared;
use crate::staging::Staging;
use crate::ways::{self, SMALL_BYTES};
use crate::{Item, Result, Wait};

/// Where the items of a message lie.
pub(crate) enum Payload<T: Item> {
    /// A send buffer of the link; goes back to it when copied.
    Pooled(DeviceBuffer<T>),
    /// A buffer that stays the caller's.
    Shared(BufferReader<T>),
    /// A packet buffer of another link; goes back to that when copied.
    Forwarded(Held<T>),
    /// Host memory.
    Host(HostData<T>),
    /// A packet buffer of the destination, which goes with the offer.
    InPlace,
}

/// Items of a message, and what they are copied into.
type Parts<'a, T> = SmallVec<[(Range<usize>, PartMut<'a, T>); 1]>;

impl<T: Item> Payload<T> {
    fn copy(&self, way: TransferWay, parts: Parts<'_, T>, lane: &Stream) -> Result<Event> {
        if let Payload::Host(data) = self {
            for (range, into) in parts {
                lane.upload(data.slice(range)?, into)?;
            }
            return Ok(lane.record()?);
        }
        let part = |(range, into)| Ok((self.part(range)?, into));
        let mut copies = parts.into_iter().map(part).collect::<Result<SmallVec<[_; 1]>>>()?;
        match copies.pop() {
            Some((items, into)) if copies.is_empty() => ways::copy(way, items, into, lane),
            last => {
                lane.copy_each(copies.into_iter().chain(last))?;
                Ok(lane.record()?)
            }
        }
    }

    /// Items in memory of a device.
    fn part(&self, range: Range<usize>) -> Result<Part<'_, T>> {
        Ok(match self {
            Payload::Pooled(buffer) => buffer.part(range)?,
            Payload::Shared(buffer) => buffer.part(range)?,
            Payload::Forwarded(held) => held.part(range)?,
            Payload::Host(_) | Payload::InPlace => return Err(crate::Error::Ended),
        })
    }

    /// Notes that what was done up to `event` is over: the buffer's next user need not wait for it.
    pub(crate) fn retire(&self, event: &Event) {
        match self {
            Payload::Pooled(buffer) => buffer.retire(event),
            Payload::Forwarded(held) => held.retire(event),
            Payload::Shared(_) | Payload::Host(_) | Payload::InPlace => {}
        }
    }

    /// Nobody copies the payload any more: a buffer goes back to where it came from.
    pub(crate) fn give_back(self, sender: &SenderShared<T>) {
        match self {
            Payload::Pooled(buffer) => {
                sender.buffers.give_back(buffer.in_flight().is_none().then_some(buffer));
            }
            Payload::Forwarded(held) => held.release_forwarded(),
            // Dropped before this returns: whoever then hears that the message is over may write the buffer.
            Payload::Shared(_) | Payload::Host(_) | Payload::InPlace => {}
        }
    }
}

fn wait_all<'a>(lane: &Stream, events: impl IntoIterator<Item = &'a Event>) -> Result<()> {
    Ok(events.into_iter().try_for_each(|event| lane.wait(event))?)
}

/// One message, from its offer until its last packet is copied.
pub(crate) struct Message<T: Item> {
    pub(crate) info: MessageInfo,
    pub(crate) source: Device,
    /// The event after which the payload may be read.
    ready: Option<Event>,
    /// Taken out when the last copy is done. By then nobody submits another copy, so taking the
    /// write lock waits for no submitter.
    payload: RwLock<Option<Payload<T>>>,
    /// Items that no packet has been assigned for, over all destinations.
    unassigned: AtomicUsize,
    /// Items not known to be copied, over all destinations.
    uncopied: AtomicUsize,
    sender: Arc<SenderShared<T>>,
    completion: Option<Arc<Completion>>,
}

impl<T: Item> fmt::Debug for Message<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Message").field("info", &self.info).finish_non_exhaustive()
    }
}

/// The copies of a shared buffer, for whoever wants to write it again.
#[derive(Debug)]
pub(crate) struct Completion {
    source: Device,
    state: Mutex<CompletionState>,
}

#[derive(Debug, Default)]
struct CompletionState {
    copies: Vec<Event>,
    done: bool,
    waker: Option<std::task::Waker>,
}

impl Completion {
    /// A completion of a message from `source`. Its waiter also hears of a failure of the graph.
    pub(crate) fn watched(source: &Device, failure: &Failure) -> Arc<Completion> {
        let completion = Completion { source: source.clone(), state: Mutex::default() };
        let completion = Arc::new(completion);
        let port: Weak<Completion> = Arc::downgrade(&completion);
        failure.watch(port);
        completion
    }

    /// Ready, with the events of all copies, when all of them are done.
    pub(crate) fn poll(&self, waker: &std::task::Waker) -> Option<Vec<Event>> {
        let mut state = self.state.lock();
        if state.done {
            return Some(std::mem::take(&mut state.copies));
        }
        let before = state.waker.replace(waker.clone());
        drop(state);
        // A waker's drop may run any code: do it without the lock.
        drop(before);
        None
    }

    /// All copies are done.
    pub(crate) fn finish(&self) {
        self.state.lock().done = true;
        self.interrupt();
    }
}

impl PendingCalls for Completion {
    fn interrupt(&self) {
        let waker = self.state.lock().waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn clear(&self) {}

    fn waits(&self) -> Vec<Wait> {
        let is_awaited = self.state.lock().waker.is_some();
        is_awaited.then(|| Wait::Sent { from: self.source.name() }).into_iter().collect()
    }
}

impl<T: Item> Message<T> {
    /// A message of `info.items` items; `copies` items are copied in all, over all destinations.
    pub(crate) fn new(
        info: MessageInfo,
        sender: Arc<SenderShared<T>>,
        payload: Payload<T>,
        ready: Option<Event>,
        completion: Option<Arc<Completion>>,
        copies: usize,
    ) -> Message<T> {
        Message {
            info,
            source: sender.source.clone(),
            ready,
            payload: RwLock::new(Some(payload)),
            unassigned: AtomicUsize::new(copies),
            uncopied: AtomicUsize::new(copies),
            sender,
            completion,
        }
    }

    /// Whether the items lie in memory of the program, which only the host copies.
    pub(crate) fn is_host_data(&self) -> bool {
        matches!(*self.payload.read(), None | Some(Payload::Host(_)))
    }

    /// The event after which the message is in its destination's packet buffer, if it was written
    /// there in place.
    pub(crate) fn in_place(&self) -> Option<Event> {
        self.ready.clone().filter(|_| matches!(*self.payload.read(), Some(Payload::InPlace)))
    }

    /// Whether it must not wait behind others.
    fn is_small(&self) -> bool {
        self.bytes() <= SMALL_BYTES
    }

    pub(crate) fn bytes(&self) -> usize {
        self.info.items * size_of::<T>()
    }

    /// Submits the copies of packets, or of one packet through `staging` if there is one, and returns
    /// their event.
    pub(crate) fn copy(
        &self,
        way: TransferWay,
        packets: &mut [(Range<usize>, PacketBuffer<T>)],
        port: &Port<T>,
        staging: Option<&mut Staging<T>>,
    ) -> Result<Event> {
        let payload = self.payload.read();
        let Some(payload) = payload.as_ref() else {
            return Err(crate::Error::Ended);
        };
        let is_small = self.is_small();
        let lane = match payload {
            Payload::Host(_) if staging.is_some() => port.filling(),
            Payload::Host(_) => None,
            _ => self.sender.lane(is_small),
        };
        let lane = lane.unwrap_or_else(|| port.lane(is_small));
        wait_all(lane, self.ready.iter())?;
        let event = match (staging, packets) {
            (None, packets) => {
                let mut parts = Parts::with_capacity(packets.len());
                for (range, PacketBuffer { buffer, free_after }) in packets {
                    wait_all(lane, free_after.iter())?;
                    parts.push((range.clone(), buffer.part_mut(0..range.len())?));
                }
                payload.copy(way, parts, lane)?
            }
            (Some(staging), [(range, PacketBuffer { buffer: into, free_after })]) => {
                let (staged, (buffer, second)) = (0..range.len(), staging.second_way(is_small));
                let part = (range.clone(), buffer.part_mut(staged.clone())?);
                let first = payload.copy(way, smallvec![part], lane)?;
                wait_all(second, [&first].into_iter().chain(free_after.iter()))?;
                ways::copy(way, buffer.part(staged.clone())?, into.part_mut(staged)?, second)?
            }
            (Some(_), _) => return Err(crate::Error::Ended),
        };
        if let Some(completion) = &self.completion {
            completion.state.lock().copies.push(event.clone());
        }
        Ok(event)
    }

    /// A packet of `items` has been assigned.
    pub(crate) fn assigned(&self, items: usize) {
        // Relaxed: the count is all that is shared; the waiter's lock orders the rest.
        if self.unassigned.fetch_sub(items, Ordering::Relaxed) == items {
            self.sender.assigned(self.in_place().is_some());
        }
    }

    /// A packet of `items`, copied up to `event`, has arrived.
    pub(crate) fn copied(&self, items: usize, event: &Event) {
        {
            let payload = self.payload.read();
            if let Some(payload) = payload.as_ref() {
                payload.retire(event);
            }
            // Relaxed: the last one then takes the write lock, after all others have released the read lock.
            if self.uncopied.fetch_sub(items, Ordering::Relaxed) > items {
                return;
            }
        }
        let payload = self.payload.write().take();
        if let Some(payload) = payload {
            payload.give_back(&self.sender);
        }
        if let Some(completion) = &self.completion {
            completion.finish();
        }
    }
}
