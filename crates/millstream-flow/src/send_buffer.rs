//! Send buffers: what kernels or the host fill before it is sent.

use std::fmt;
use std::sync::Arc;

use millstream_device::{Accesses, Argument, DeviceBuffer, Event, PartMut, Read, Stream, Write};

use crate::message::Payload;
use crate::port::{PacketBuffer, Port};
use crate::reservation::ReservedPacket;
use crate::sender_shared::{Parcel, SenderShared};
use crate::{Error, Item, Result};

/// A free buffer of a link, on the sender's endpoint or, from [`Sender::packet`](crate::Sender::packet),
/// the receiver's: filled by kernels (pass `&mut buffer`) or by the host, and given to
/// [`Sender::send`](crate::Sender::send).
///
/// Once sent it belongs to the link, and cannot be written any more:
///
/// ```
/// # use millstream_device::Stream;
/// # use millstream_flow::{Result, Sender};
/// async fn send_zeros(output: &mut Sender<u32>, stream: &Stream) -> Result<()> {
///     let mut buffer = output.buffer(8).await?;
///     buffer.host_view_mut()?.fill(0);
///     output.send(buffer, stream)
/// }
/// ```
///
/// ```compile_fail,E0382
/// # use millstream_device::Stream;
/// # use millstream_flow::{Result, Sender};
/// async fn send_zeros(output: &mut Sender<u32>, stream: &Stream) -> Result<()> {
///     let mut buffer = output.buffer(8).await?;
///     output.send(buffer, stream)?;
///     buffer.host_view_mut()?.fill(0);
///     Ok(())
/// }
/// ```
pub struct SendBuffer<T: Item> {
    /// `None` once sent.
    buffer: Option<DeviceBuffer<T>>,
    /// The port whose packet buffer this is, if it is one.
    port: Option<Arc<Port<T>>>,
    len: usize,
    metadata: u64,
    sender: Arc<SenderShared<T>>,
}

impl<T: Item> fmt::Debug for SendBuffer<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SendBuffer").field("len", &self.len).finish_non_exhaustive()
    }
}

impl<T: Item> SendBuffer<T> {
    pub(crate) fn new(
        buffer: DeviceBuffer<T>,
        len: usize,
        sender: Arc<SenderShared<T>>,
    ) -> SendBuffer<T> {
        SendBuffer { buffer: Some(buffer), port: None, len, metadata: 0, sender }
    }

    pub(crate) fn in_packet(
        ReservedPacket { buffer, port }: ReservedPacket<T>,
        len: usize,
        sender: Arc<SenderShared<T>>,
    ) -> SendBuffer<T> {
        let (buffer, port) = (Some(buffer.buffer), Some(port));
        SendBuffer { buffer, port, len, metadata: 0, sender }
    }

    /// Whether it is a packet buffer of the receiver: nothing is copied.
    pub fn is_in_place(&self) -> bool {
        self.port.is_some()
    }

    /// Items in the buffer.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the buffer holds no item.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Keeps the first `len` items only.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Sets the word that the routing policy and the receiver see.
    pub fn set_metadata(&mut self, metadata: u64) {
        self.metadata = metadata;
    }

    /// The items, for host code to write. This works only if the buffer lies on the host endpoint:
    /// its own, or, if the buffer is [in place](SendBuffer::is_in_place), the receiver's.
    ///
    /// # Errors
    /// A buffer that lies elsewhere; an operation in flight on it.
    pub fn host_view_mut(&mut self) -> Result<&mut [T]> {
        match &mut self.buffer {
            Some(buffer) => Ok(&mut buffer.host_view_mut()?[..self.len]),
            None => Err(Error::Ended),
        }
    }

    /// The items, as the destination of a copy: in the receiver's memory, if it is
    /// [in place](SendBuffer::is_in_place).
    ///
    /// # Errors
    /// None while the buffer is this program's.
    pub fn part_mut(&mut self) -> Result<PartMut<'_, T>> {
        match &mut self.buffer {
            Some(buffer) => Ok(buffer.part_mut(0..self.len)?),
            None => Err(Error::Ended),
        }
    }

    /// Whether this buffer belongs to this sender, and the sender can send; otherwise it is given back.
    pub(crate) fn check(&self, sender: &Arc<SenderShared<T>>) -> Result<()> {
        if Arc::ptr_eq(&self.sender, sender) {
            return sender.check();
        }
        let (of, from) = (self.sender.source.name(), sender.source.name());
        Err(Error::ForeignBuffer { of, from })
    }

    /// Records the event after which the buffer may be copied.
    pub(crate) fn ordered_event(&self, stream: &Stream) -> Result<Event> {
        if let Some(buffer) = &self.buffer {
            buffer.covered_by(stream, "a send")?;
        }
        Ok(stream.record()?)
    }

    /// What is sent, and the event after which it is ready.
    pub(crate) fn into_parcel(mut self, ready: Event) -> Parcel<T> {
        let (payload, packet) = match (self.buffer.take(), self.port.take()) {
            (Some(buffer), Some(port)) => {
                let buffer = PacketBuffer { buffer, free_after: None };
                (Payload::InPlace, Some(ReservedPacket { buffer, port }))
            }
            (Some(buffer), None) => (Payload::Pooled(buffer), None),
            (None, _) => (Payload::Host(Vec::new().into()), None),
        };
        let (metadata, ready) = (self.metadata, Some(ready));
        Parcel { payload, packet, metadata, ready, completion: None }
    }
}

impl<T: Item> Drop for SendBuffer<T> {
    fn drop(&mut self) {
        let Some(buffer) = self.buffer.take() else {
            return;
        };
        match (buffer.in_flight(), self.port.take()) {
            (None, None) => self.sender.buffers.give_back(Some(buffer)),
            (None, Some(port)) => port.unreserve(PacketBuffer { buffer, free_after: None }),
            (Some(access), port) => {
                match port {
                    None => self.sender.buffers.give_back(None),
                    Some(port) => port.reserved.end(),
                }
                let buffer = buffer.to_string();
                let access = access.to_string();
                self.sender.failure.suspect(Error::InFlight { buffer, action: "dropped", access });
            }
        }
    }
}

// SAFETY: the part, which this delegates to, keeps the promise.
unsafe impl<T: Item> Argument<Read<T>> for &SendBuffer<T> {
    fn bind(
        self,
        accesses: &mut Accesses,
    ) -> millstream_device::Result<<Read<T> as millstream_device::Parameter>::Bound> {
        match &self.buffer {
            Some(buffer) => buffer.part(0..self.len)?.bind(accesses),
            None => Err(millstream_device::Error::Closed),
        }
    }
}

// SAFETY: the part, which this delegates to, keeps the promise.
unsafe impl<T: Item> Argument<Write<T>> for &mut SendBuffer<T> {
    fn bind(
        self,
        accesses: &mut Accesses,
    ) -> millstream_device::Result<<Write<T> as millstream_device::Parameter>::Bound> {
        match &mut self.buffer {
            Some(buffer) => buffer.part_mut(0..self.len)?.bind(accesses),
            None => Err(millstream_device::Error::Closed),
        }
    }
}
