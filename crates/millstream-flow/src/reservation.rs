//! Packet buffers that senders reserve, for kernels to write into \[G §2.1, direct access\].
//!
//! A reservation is an offer like others, in a queue of its own: when its turn comes, it claims a
//! free buffer, which goes to the sender and not to the receiver's inbox. What is sent in it is an
//! offer that brings its buffer ([`Destination::offer_in_place`]).
//!
//! | a reservation | then |
//! |---|---|
//! | waits | it is given a buffer, or given up: its offer is then stale, unless it has just been claimed |
//! | is given a buffer | the sender takes it, or gives it up: the buffer is free again |
//! | is given up | whoever has claimed a buffer for it frees that |
//!
//! All but one of a destination's buffers may be reserved at once, and a sender reserves none while
//! a message of its own still waits for one. Who would have the last one does without.
//!
//! [`Destination::offer_in_place`]: crate::multiplexer::Destination::offer_in_place

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millstream_device::Event;

use crate::failure::{Failure, PendingCalls};
use crate::multiplexer::Offer;
use crate::port::{Offered, PacketBuffer, Port};
use crate::watched::Watched;
use crate::{Error, Item, Result, Wait};

/// How many buffers of a destination are reserved, or are about to be.
#[derive(Debug)]
pub(crate) struct Reserved {
    count: AtomicUsize,
    most: usize,
}

impl Reserved {
    /// None reserved yet of `buffers`.
    pub(crate) fn of(buffers: usize) -> Reserved {
        Reserved { count: AtomicUsize::new(0), most: buffers.saturating_sub(1) }
    }

    /// Reserves one more, unless that would be the last buffer.
    fn begin(&self) -> bool {
        // Relaxed, here and below: only the number itself matters.
        let more = |count| (count < self.most).then_some(count + 1);
        self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// One reservation less: its buffer has been sent, or is free again.
    pub(crate) fn end(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Where a sender waits for a buffer.
pub(crate) struct Reservation<T: Item> {
    state: Watched<State<T>>,
}

enum State<T: Item> {
    Waits,
    Given(PacketBuffer<T>),
    /// Taken, or given up.
    Over,
}

impl<T: Item> State<T> {
    fn is_given(&self) -> bool {
        matches!(self, State::Given(_))
    }

    /// Ends the wait. Returns the buffer if one was given but not taken.
    fn end(&mut self) -> Option<PacketBuffer<T>> {
        match std::mem::replace(self, State::Over) {
            State::Given(buffer) => Some(buffer),
            State::Waits | State::Over => None,
        }
    }
}

impl<T: Item> Reservation<T> {
    /// Gives the sender a buffer; returns it if the sender has given up.
    pub(crate) fn give(&self, buffer: PacketBuffer<T>) -> Option<PacketBuffer<T>> {
        self.state.change(|state| match state {
            State::Waits => {
                *state = State::Given(buffer);
                None
            }
            State::Given(_) | State::Over => Some(buffer),
        })
    }
}

impl<T: Item> PendingCalls for Reservation<T> {
    fn interrupt(&self) {
        self.state.change(|_| {});
    }

    fn clear(&self) {
        drop(self.state.with(State::end));
    }

    /// The port reports reservations along with its other offers.
    fn waits(&self) -> Vec<Wait> {
        Vec::new()
    }
}

/// A packet buffer that a sender has reserved.
pub(crate) struct ReservedPacket<T: Item> {
    pub(crate) buffer: PacketBuffer<T>,
    pub(crate) port: Arc<Port<T>>,
}

impl<T: Item> ReservedPacket<T> {
    /// Nothing is sent in this buffer: it is free after `event`. A failure ends the graph.
    pub(crate) fn free_after(self, event: &Event) {
        let ReservedPacket { buffer: PacketBuffer { buffer, .. }, port } = self;
        let free_after = Some(event.clone());
        event.on_complete(move |result| match result {
            Ok(()) => port.unreserve(PacketBuffer { buffer, free_after }),
            Err(error) => port.failure.fail(Error::Device(error)),
        });
    }
}

/// A reservation whose buffer has not been taken yet. Dropping it gives it up.
struct Reserving<'a, T: Item> {
    port: &'a Arc<Port<T>>,
    reservation: Arc<Reservation<T>>,
    offer: Arc<Offer<Offered<T>>>,
    is_taken: bool,
}

/// Waits for a free buffer of a destination, for a sender of the source with this number. `None` if
/// only one unreserved buffer is left. Afterwards either its message or [`Port::unreserve`] must
/// follow.
///
/// # Errors
/// The graph's first cause.
///
/// # Cancel safety
/// Nothing is reserved until the future resolves.
pub(crate) async fn reserve<T: Item>(
    port: &Arc<Port<T>>,
    source: usize,
    failure: &Failure,
) -> Result<Option<ReservedPacket<T>>> {
    if !port.reserved.begin() {
        return Ok(None);
    }
    let reservation = Arc::new(Reservation { state: Watched::new(State::Waits) });
    let watched = Arc::downgrade(&reservation);
    failure.watch(watched);
    let offered = Offered::Reservation(Arc::clone(&reservation));
    // A source number of its own, so a queue of its own: no message stands behind the reservation.
    let offer = Arc::new(Offer::new(offered, usize::MAX - source, 0..1));
    let mut reserving = Reserving { port, reservation, offer, is_taken: false };
    port.offer(Arc::clone(&reserving.offer));
    let state = &reserving.reservation.state;
    let buffer = poll_fn(|context| {
        state.poll(context.waker(), |state| match failure.cause() {
            Some(cause) => Some(Err(cause.clone())),
            None if state.is_given() => state.end().map(Ok),
            None => None,
        })
    });
    let buffer = buffer.await?;
    reserving.is_taken = true;
    Ok(Some(ReservedPacket { buffer, port: Arc::clone(port) }))
}

impl<T: Item> Drop for Reserving<'_, T> {
    fn drop(&mut self) {
        if self.is_taken {
            return;
        }
        // Make the offer stale, so that nobody claims a buffer for it, and let the receiver look
        // whether this was the last one.
        if self.offer.claim(1).is_some() {
            self.port.offer_exhausted();
        }
        match self.reservation.state.with(State::end) {
            Some(buffer) => self.port.unreserve(buffer),
            None => self.port.reserved.end(),
        }
    }
}
