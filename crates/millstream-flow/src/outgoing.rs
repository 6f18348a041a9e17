//! What a sender sends, without its devices: messages from their sending until all their packets
//! are assigned.
//!
//! | a message | because | then |
//! |---|---|---|
//! | is held up | what produces it is not done: the device has not counted its items, or it is small, and would hold up strangers on its lane | [`produced`](Outgoing::produced) |
//! | is ready | it may be offered | whoever comes to [`offer_ready`](Outgoing::offer_ready) |
//! | is offered | it has left the queue, and destinations claim its packets | [`assigned`](Outgoing::assigned), unless it has no items |
//!
//! Messages leave in the order in which they came: one that is held up holds up those behind it,
//! and nobody else's. One thread at a time offers, without the lock, since to offer means to submit
//! copies. Another that comes meanwhile leaves its message to that one, which looks once more under
//! the lock before it stops. So no lock is held while anything is submitted, and no message is left.
//!
//! A sender is open, then shut down, then *closed*: shut down, and nothing is left to offer. Whoever
//! offers says that once.
//!
//! | what | who writes it, under the lock |
//! |---|---|
//! | `messages`, `next_sequence` | the sender (push), whoever offers (pop), the graph's end (all) |
//! | `items` of a message | the sender; else whoever hears that it is produced |
//! | `is_offering` | whoever finds nobody at it; the same, when nothing is ready |
//! | `unassigned` | whoever offers (more), who assigns a message's last packet (less) |
//! | `end` | the sender; whoever offers |
//!
//! The lock orders all of it. The model is `tests/models/tests/outgoing.rs`.

use std::collections::VecDeque;
use std::task::{Poll, Waker};

use crate::sync::{Fault, seeded};
use crate::watched::Watched;

/// A sender's messages.
pub(crate) struct Outgoing<M> {
    state: Watched<State<M>>,
}

struct State<M> {
    /// Not offered yet, in the order they were sent.
    messages: VecDeque<Sent<M>>,
    next_sequence: u64,
    is_offering: bool,
    /// Messages offered whose last packet has not been assigned.
    unassigned: usize,
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    ShutDown,
    Closed,
}

struct Sent<M> {
    message: M,
    sequence: u64,
    /// `None` while it is held up.
    items: Option<usize>,
}

/// A message that goes out.
pub(crate) struct Offered<M> {
    pub(crate) message: M,
    /// How many the sender had sent before.
    pub(crate) sequence: u64,
    pub(crate) items: usize,
}

/// What whoever offers does next.
enum Next<M> {
    Offer(Offered<M>),
    /// Nothing is ready.
    Stop {
        closes: bool,
    },
}

impl<M> State<M> {
    /// Whether nobody else is offering; if so, the caller is.
    fn begin(&mut self) -> bool {
        let is_first = !self.is_offering || seeded(Fault::OfferSideBySide);
        self.is_offering = true;
        is_first
    }

    fn next(&mut self) -> Next<M> {
        match self.messages.pop_front() {
            Some(Sent { message, sequence, items: Some(items) }) => {
                self.unassigned += usize::from(items > 0);
                return Next::Offer(Offered { message, sequence, items });
            }
            Some(held_up) => self.messages.push_front(held_up),
            None => {}
        }
        // In the same critical section as the look: a message that becomes ready later finds nobody offering.
        self.is_offering = seeded(Fault::StopAfterTheLook);
        let is_last = self.messages.is_empty() || seeded(Fault::CloseBeforeTheLast);
        let closes = self.end == End::ShutDown && is_last;
        if closes {
            self.end = End::Closed;
        }
        Next::Stop { closes }
    }

    fn is_flushed(&self) -> bool {
        self.messages.is_empty() && self.unassigned == 0 && !self.is_offering
    }
}

impl<M> Outgoing<M> {
    pub(crate) fn new() -> Outgoing<M> {
        let (messages, next_sequence, is_offering) = (VecDeque::new(), 0, false);
        let (unassigned, end) = (0, End::Open);
        let state = State { messages, next_sequence, is_offering, unassigned, end };
        Outgoing { state: Watched::new(state) }
    }

    /// Appends a message, with its item count unless it is held up. Returns its sequence number.
    pub(crate) fn push(&self, message: M, items: Option<usize>) -> u64 {
        self.state.with(|state| {
            let sequence = state.next_sequence;
            state.next_sequence += 1;
            state.messages.push_back(Sent { message, sequence, items });
            sequence
        })
    }

    /// A message is no longer held up, and has `items` items.
    pub(crate) fn produced(&self, sequence: u64, items: usize) {
        self.state.with(|state| {
            let held_up = state.messages.iter_mut().find(|sent| sent.sequence == sequence);
            // No message is left after the graph's end.
            if let Some(sent) = held_up {
                sent.items = Some(items);
            }
        });
    }

    /// Offers messages in their order as far as they are ready, unless somebody else is offering,
    /// who will then offer these, too. Returns whether this has closed the sender.
    pub(crate) fn offer_ready(&self, mut offer: impl FnMut(Offered<M>)) -> bool {
        if !self.state.with(State::begin) {
            return false;
        }
        loop {
            match self.state.change(State::next) {
                Next::Offer(offered) => offer(offered),
                Next::Stop { closes } => {
                    if seeded(Fault::StopAfterTheLook) {
                        self.state.with(|state| state.is_offering = false);
                    }
                    return closes;
                }
            }
        }
    }

    /// The last packet of a message has been assigned.
    pub(crate) fn assigned(&self) {
        self.state.change(|state| state.unassigned = state.unassigned.saturating_sub(1));
    }

    /// Nothing more is pushed.
    pub(crate) fn shut_down(&self) {
        self.state.with(|state| state.end = End::ShutDown);
    }

    /// Waits until all packets of all messages are assigned, or until there is a `cause` not to
    /// wait, which [`wake`](Outgoing::wake) announces.
    pub(crate) fn poll_flushed<E>(
        &self,
        waker: &Waker,
        cause: impl FnOnce() -> Option<E>,
    ) -> Poll<Result<(), E>> {
        self.state.poll(waker, |state| match cause() {
            Some(cause) => Some(Err(cause)),
            None => state.is_flushed().then_some(Ok(())),
        })
    }

    /// The number of messages not assigned yet, if somebody waits for that.
    pub(crate) fn awaited(&self) -> Option<usize> {
        self.state.awaited(|state| state.messages.len() + state.unassigned)
    }

    /// Makes all waiters look again.
    pub(crate) fn wake(&self) {
        self.state.change(|_| {});
    }

    /// Gives up the messages that are not offered.
    pub(crate) fn clear(&self) {
        // Drop the messages without the lock: it gives buffers back.
        let given_up = self.state.with(|state| std::mem::take(&mut state.messages));
        drop(given_up);
    }
}
