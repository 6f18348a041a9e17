//! Matches offered messages with free packet buffers \[G §4.2, Fig. 8\].
//!
//! Every destination has a send queue (offers) and a receive queue (free
//! buffers) behind a lock of its own; there is no central one. A message
//! offered to many destinations is one [`Offer`] in many queues, claimed packet
//! by packet. `README.md` beside this file has states and races.

use std::collections::VecDeque;
use std::ops::Range;
use std::task::{Poll, Waker};

use smallvec::{SmallVec, smallvec};

use crate::joining::{Joining, UnderWay};
use crate::sync::{Arc, AtomicUsize, Fault, Mutex, Ordering, seeded};

/// A message, or a part of it, on offer to one or more destinations.
#[derive(Debug)]
pub(crate) struct Offer<M> {
    /// What is offered.
    pub(crate) message: M,
    source: usize,
    end: usize,
    /// The first item that nobody has claimed; advanced by each claim.
    cursor: AtomicUsize,
}

impl<M> Offer<M> {
    /// Offers the items of `range`, which come from the source with this number.
    pub(crate) fn new(message: M, source: usize, range: Range<usize>) -> Offer<M> {
        Offer { message, source, end: range.end, cursor: AtomicUsize::new(range.start) }
    }

    /// What tells offers apart, as long as they are there.
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Takes the next packet of at most `most` items; `None` if the offer is stale.
    pub(crate) fn claim(&self, most: usize) -> Option<Range<usize>> {
        let end_of = |start: usize| start.saturating_add(most).min(self.end);
        // Relaxed: the message itself travels through the queues' locks; here
        // only the cursor's own modification order matters.
        let mut start = self.cursor.load(Ordering::Relaxed);
        loop {
            if start >= self.end {
                return None;
            }
            if seeded(Fault::ClaimWithoutExchange) {
                self.cursor.store(end_of(start), Ordering::Relaxed);
                return Some(start..end_of(start));
            }
            let claimed = end_of(start);
            match self.cursor.compare_exchange_weak(
                start,
                claimed,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(start..claimed),
                Err(current) => start = current,
            }
        }
    }

    /// Whether every item has been claimed.
    fn is_stale(&self) -> bool {
        self.cursor.load(Ordering::Relaxed) >= self.end
    }
}

/// An offer in a send queue.
#[derive(Debug)]
struct Queued<M, B> {
    offer: Arc<Offer<M>>,
    /// The packet buffer of the destination in which its only packet lies already, if any.
    brought: Option<B>,
    /// Whether several of its packets may be copied together here.
    joins: bool,
}

/// The send queue: the offers of each source in order, sources packet by packet in turns, so
/// that no message waits until all of another source's are through. None of the queues is empty.
#[derive(Debug)]
struct SendQueue<M, B>(VecDeque<VecDeque<Queued<M, B>>>);

impl<M, B> SendQueue<M, B> {
    fn push(&mut self, queued: Queued<M, B>) {
        let is_of_source = |queue: &&mut VecDeque<Queued<M, B>>| {
            queue.front().is_some_and(|first| first.offer.source == queued.offer.source)
        };
        match self.0.iter_mut().find(is_of_source) {
            Some(queue) => queue.push_back(queued),
            None => self.0.push_back(VecDeque::from([queued])),
        }
    }

    /// The offer whose turn it is, with the buffer that it has brought, and whether it joins. If no
    /// buffer is free, only offers that have brought one are considered.
    fn next(&mut self, is_buffer_free: bool) -> Option<(Arc<Offer<M>>, Option<B>, bool)> {
        self.remove_stale();
        let may_go = |queue: &VecDeque<Queued<M, B>>| {
            is_buffer_free || queue.front().is_some_and(|first| first.brought.is_some())
        };
        let place = self.0.iter().position(may_go)?;
        if place > 0 && seeded(Fault::WaitForABuffer) {
            return None;
        }
        let queue = self.0.remove(place)?;
        // The others keep their turns.
        self.0.push_front(queue);
        let first = self.0.front_mut()?.front_mut()?;
        Some((Arc::clone(&first.offer), first.brought.take(), first.joins))
    }

    /// Gives the next turn to another source. Removes the offer if it is used up.
    fn end_turn(&mut self) {
        let Some(mut queue) = self.0.pop_front() else { return };
        queue.pop_front_if(|queued| queued.offer.is_stale());
        if !queue.is_empty() {
            self.0.push_back(queue);
        }
    }

    /// Removes stale offers from the fronts of the queues.
    fn remove_stale(&mut self) {
        for queue in &mut self.0 {
            let is_stale = |queued: &mut Queued<M, B>| {
                queued.offer.is_stale() && !seeded(Fault::StaleOfferKept)
            };
            while queue.pop_front_if(is_stale).is_some() {}
        }
        self.0.retain(|queue| !queue.is_empty());
    }

    /// Whether nothing is on offer any more.
    fn is_over(&mut self) -> bool {
        self.remove_stale();
        self.0.is_empty()
    }
}

/// Packets of an offer, claimed for this destination alone, and the buffers that they go into. There is
/// one, or several that are copied together.
#[derive(Debug)]
pub(crate) struct Claim<M, B> {
    pub(crate) offer: Arc<Offer<M>>,
    pub(crate) packets: SmallVec<[(Range<usize>, B); 1]>,
    /// Whether its packets are to be reported when they have [arrived](Destination::arrived).
    pub(crate) joins: bool,
    /// Whether nothing is left of the offer: its other destinations must be told with
    /// [`Destination::offer_exhausted`].
    pub(crate) is_last: bool,
}

/// The state of a destination, for reports of what a hanging program waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    /// Offers that wait for a free buffer.
    pub(crate) offers: usize,
    /// Buffers that are free or have a packet under way.
    pub(crate) buffers: usize,
    /// Packets that have arrived, but that the receiver has not taken.
    pub(crate) arrived: usize,
    /// The receiver waits for a packet.
    pub(crate) is_awaited: bool,
}

/// One destination of a router: its queues, and the packets assigned to it.
#[derive(Debug)]
pub(crate) struct Destination<M, B, P> {
    state: Mutex<State<M, B, P>>,
    packet_items: usize,
    joining: Joining,
}

#[derive(Debug)]
struct State<M, B, P> {
    offers: SendQueue<M, B>,
    /// Receive queue: the credit of this destination.
    buffers: VecDeque<B>,
    /// Packets whose copies are still to be submitted, in the order of their claims.
    claimed: VecDeque<Claim<M, B>>,
    /// The packets that somebody is assigning: he submits one claim, and then all that others leave.
    assigning: usize,
    under_way: UnderWay,
    /// Packets assigned and submitted, not yet taken by the receiver.
    inbox: VecDeque<P>,
    /// Senders that can reach this destination and have not shut down.
    open_senders: usize,
    /// No more senders can be added.
    sealed: bool,
    /// The receiver's task, while it waits.
    waker: Option<Waker>,
}

impl<M, B, P> State<M, B, P> {
    /// No packet is here and none can come: the receiver's end of stream.
    fn has_ended(&mut self) -> bool {
        let is_over = self.offers.is_over();
        let is_assigning =
            (self.assigning > 0 || !self.claimed.is_empty()) && !seeded(Fault::EndWhileAssigning);
        self.sealed && self.open_senders == 0 && self.inbox.is_empty() && !is_assigning && is_over
    }

    /// Claims packets as long as there are an offer and a buffer.
    fn match_up(&mut self, packet_items: usize) {
        while let Some((offer, brought, joins)) = self.offers.next(!self.buffers.is_empty()) {
            let claimed = offer.claim(packet_items);
            if claimed.is_none() && seeded(Fault::StaleOfferKept) {
                break;
            }
            self.offers.end_turn();
            let Some(range) = claimed else { continue };
            let Some(buffer) = brought.or_else(|| self.buffers.pop_front()) else {
                break;
            };
            let is_last = offer.is_stale() && !seeded(Fault::ExhaustedOfferNotAnnounced);
            let packets = smallvec![(range, buffer)];
            self.claimed.push_back(Claim { offer, packets, joins, is_last });
        }
    }

    /// The next claim, which the caller must submit; `None` if there is none, or if it waits.
    fn next_claim(&mut self, joining: Joining) -> Option<Claim<M, B>> {
        let next = match self.waits_for_another(joining) {
            true => None,
            false => self.claimed.pop_front(),
        };
        self.assigning = 0;
        let mut next = next?;
        if next.joins {
            let most = joining.together(self.under_way.of(next.offer.address()));
            while next.packets.len() < most {
                let Some(other) =
                    self.claimed.pop_front_if(|it| Arc::ptr_eq(&it.offer, &next.offer))
                else {
                    break;
                };
                next.packets.extend(other.packets);
                next.is_last |= other.is_last;
            }
            self.under_way.begin(next.offer.address(), next.packets.len());
        }
        self.assigning = next.packets.len();
        Some(next)
    }

    /// Whether the only claimed packet waits for another one to be copied with: the engine is busy with
    /// others of the same message until then, and more of that wait for buffers.
    fn waits_for_another(&self, joining: Joining) -> bool {
        let [only] = self.claimed.as_slices().0 else { return false };
        self.claimed.len() == 1
            && joining.waits(self.under_way.of(only.offer.address()))
            && only.joins
            && !only.offer.is_stale()
    }
}

impl<M, B, P> Destination<M, B, P> {
    /// A destination whose buffers hold `packet_items` items each.
    pub(crate) fn new(packet_items: usize, joining: Joining) -> Destination<M, B, P> {
        Destination {
            joining,
            state: Mutex::new(State {
                offers: SendQueue(VecDeque::new()),
                buffers: VecDeque::new(),
                claimed: VecDeque::new(),
                assigning: 0,
                under_way: UnderWay::default(),
                inbox: VecDeque::new(),
                open_senders: 0,
                sealed: false,
                waker: None,
            }),
            packet_items,
        }
    }

    /// Whether there are buffers enough for packets to be copied together.
    pub(crate) fn joins(&self) -> bool {
        self.joining.joins()
    }

    /// Items in a packet to this destination, at most.
    pub(crate) fn packet_items(&self) -> usize {
        self.packet_items
    }

    /// Fixes how many senders can reach this destination.
    pub(crate) fn seal(&self, senders: usize) {
        self.perhaps_end(|state| {
            state.open_senders = senders;
            state.sealed = true;
        });
    }

    /// Queues an offer and matches. If it `joins`, several of its packets may be copied together.
    /// `assign` submits the copies of a claim's packets, or has another use for their buffers, and must
    /// not panic. It is called without this destination's lock, by one caller at a time, in the order
    /// of the claims; other callers leave their claims to that one.
    ///
    /// # Errors
    /// The first error of `assign`; its packets and buffers are lost, and nothing more is assigned at
    /// this destination.
    pub(crate) fn offer<E, Packets: IntoIterator<Item = P>>(
        &self,
        offer: Arc<Offer<M>>,
        joins: bool,
        assign: impl FnMut(Claim<M, B>) -> Result<Packets, E>,
    ) -> Result<(), E> {
        let queued = Queued { offer, brought: None, joins };
        self.assign_after(|state| state.offers.push(queued), assign)
    }

    /// Like [`Destination::offer`], for one packet that already lies in a buffer of this
    /// destination: it waits for its turn, but for no free buffer.
    ///
    /// # Errors
    /// As [`Destination::offer`].
    pub(crate) fn offer_in_place<E, Packets: IntoIterator<Item = P>>(
        &self,
        offer: Arc<Offer<M>>,
        buffer: B,
        assign: impl FnMut(Claim<M, B>) -> Result<Packets, E>,
    ) -> Result<(), E> {
        let queued = Queued { offer, brought: Some(buffer), joins: false };
        self.assign_after(|state| state.offers.push(queued), assign)
    }

    /// Returns a free buffer to the receive queue and matches.
    ///
    /// # Errors
    /// As [`Destination::offer`].
    pub(crate) fn post<E, Packets: IntoIterator<Item = P>>(
        &self,
        buffer: B,
        assign: impl FnMut(Claim<M, B>) -> Result<Packets, E>,
    ) -> Result<(), E> {
        self.assign_after(|state| state.buffers.push_back(buffer), assign)
    }

    /// Packets of an offer that joins have arrived: what has waited for others may go alone.
    ///
    /// # Errors
    /// As [`Destination::offer`].
    pub(crate) fn arrived<E, Packets: IntoIterator<Item = P>>(
        &self,
        offer: &Offer<M>,
        packets: usize,
        assign: impl FnMut(Claim<M, B>) -> Result<Packets, E>,
    ) -> Result<(), E> {
        let end = |state: &mut State<M, B, P>| state.under_way.end(offer.address(), packets);
        if seeded(Fault::ArrivalUnheard) {
            self.update(end);
            return Ok(());
        }
        self.assign_after(end, assign)
    }

    /// One sender that could reach this destination has shut down.
    pub(crate) fn sender_closed(&self) {
        self.perhaps_end(|state| state.open_senders = state.open_senders.saturating_sub(1));
    }

    /// Another destination claimed the last packet of an offer that is queued here too. The lock orders the claim
    /// before a later look at the queue; if the look came first, the receiver is woken to look again. And what has
    /// waited for another packet of that offer goes alone.
    ///
    /// # Errors
    /// As [`Destination::offer`].
    pub(crate) fn offer_exhausted<E, Packets: IntoIterator<Item = P>>(
        &self,
        assign: impl FnMut(Claim<M, B>) -> Result<Packets, E>,
    ) -> Result<(), E> {
        self.assign_after(|_| {}, assign)
    }

    /// Wakes the receiver if `change` leads to the end of its stream.
    fn perhaps_end(&self, change: impl FnOnce(&mut State<M, B, P>)) {
        let waker = {
            let mut state = self.state.lock();
            change(&mut state);
            if state.has_ended() { state.waker.take() } else { None }
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The next packet, or `None` at the end; if pending, `waker` is called when there may be one.
    pub(crate) fn poll_next(&self, waker: &Waker) -> Poll<Option<P>> {
        let mut state = self.state.lock();
        if let Some(packet) = state.inbox.pop_front() {
            return Poll::Ready(Some(packet));
        }
        if state.has_ended() {
            return Poll::Ready(None);
        }
        let before = state.waker.replace(waker.clone());
        drop(state);
        // A waker's drop may run any code, and may own packets from here: do it without the lock.
        drop(before);
        Poll::Pending
    }

    /// Whether [`Destination::poll_next`] would say that the end is reached.
    pub(crate) fn has_ended(&self) -> bool {
        self.state.lock().has_ended()
    }

    /// The state of this destination.
    pub(crate) fn standing(&self) -> Standing {
        let state = self.state.lock();
        let State { offers, buffers, claimed, inbox, assigning, waker, .. } = &*state;
        let is_live = |queued: &&Queued<M, B>| !queued.offer.is_stale();
        Standing {
            offers: offers.0.iter().flatten().filter(is_live).count(),
            buffers: buffers.len() + claimed.len() + assigning,
            arrived: inbox.len(),
            is_awaited: waker.is_some(),
        }
    }

    /// Wakes the receiver so that it sees a failure.
    pub(crate) fn interrupt(&self) {
        let waker = self.state.lock().waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes everything out: used when the graph is over.
    pub(crate) fn clear(&self) {
        let given_up = {
            let mut state = self.state.lock();
            let state = &mut *state;
            (
                std::mem::take(&mut state.offers.0),
                std::mem::take(&mut state.buffers),
                std::mem::take(&mut state.claimed),
                std::mem::take(&mut state.inbox),
            )
        };
        // Dropped outside the lock: a packet's drop may look at this destination.
        drop(given_up);
    }

    fn assign_after<E, Packets: IntoIterator<Item = P>>(
        &self,
        change: impl FnOnce(&mut State<M, B, P>),
        mut assign: impl FnMut(Claim<M, B>) -> Result<Packets, E>,
    ) -> Result<(), E> {
        let mut next = self.update(|state| {
            change(state);
            state.match_up(self.packet_items);
            match state.assigning > 0 && !seeded(Fault::AssignSideBySide) {
                true => None,
                false => state.next_claim(self.joining),
            }
        });
        while let Some(claim) = next {
            let packets = assign(claim)?;
            next = self.update(|state| {
                state.inbox.extend(packets);
                state.next_claim(self.joining)
            });
        }
        Ok(())
    }

    /// Wakes the receiver if there is something for it now.
    fn update<R>(&self, update: impl FnOnce(&mut State<M, B, P>) -> R) -> R {
        let (waker, result) = {
            let mut state = self.state.lock();
            let result = update(&mut state);
            let wake = !state.inbox.is_empty() || state.has_ended();
            (if wake { state.waker.take() } else { None }, result)
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        result
    }
}
