//! Operations of a stream that wait for the host, while other streams of its lane go on.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Once};

use super::in_order::{InOrder, Rest, Step};
use super::lane::Lane;
use super::operation::{Operation, Submitted};
use super::settle::{Resuming, watch_stream};
use crate::event::Event;

/// The way of a stream's operations to the lane that it shares. An operation that must come after
/// an event for which the lane must not wait ([`Operation::obstacle`]) waits here, and so does
/// everything behind it.
pub(crate) struct StreamQueue {
    lane: Arc<Lane>,
    operations: Arc<InOrder<(), Operation>>,
    /// Done when something first waits in this queue.
    watched: Once,
}

thread_local! {
    /// Queues that this thread resumes next, while it is resuming one: an event that a resumed
    /// operation records may let another stream go on, and so forth, as often as there are streams.
    static NEXT: RefCell<Option<VecDeque<Arc<StreamQueue>>>> = const { RefCell::new(None) };
}

impl std::fmt::Debug for StreamQueue {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let waiting = self.operations.outstanding();
        write!(formatter, "StreamQueue({waiting} before {:?})", self.lane)
    }
}

impl StreamQueue {
    pub(super) fn new(lane: Arc<Lane>) -> Arc<StreamQueue> {
        let operations = Arc::new(InOrder::new(()));
        Arc::new(StreamQueue { lane, operations, watched: Once::new() })
    }

    pub(super) fn lane(&self) -> &Lane {
        &self.lane
    }

    /// Gives an operation to the lane by `pass`, either now or once what it must come after is
    /// over; the lane then submits it as soon as it can.
    pub(super) fn submit(
        self: &Arc<Self>,
        operation: Operation,
        pass: impl FnOnce(&Arc<Lane>, Operation) -> Submitted,
    ) -> Submitted {
        let mut passed = Submitted::Queued;
        let obstacle = self.operations.submit(operation, |(), operation| {
            self.perform(operation, |lane, operation| passed = pass(lane, operation))
        });
        match obstacle {
            Some(event) => {
                self.lane.begin_waiting();
                self.watched.call_once(|| watch_stream(&self.operations));
                Submitted::HeldUp(Arc::clone(self), event)
            }
            None => passed,
        }
    }

    pub(super) fn resume_after(self: Arc<Self>, event: &Event) {
        event.on_recorded(move || self.resume());
    }

    /// Gives the lane what has waited. If this thread is already doing so for another queue, this
    /// one comes after it.
    fn resume(self: Arc<Self>) {
        let Some(_resuming) = Outermost::begin(&self) else { return };
        let mut queue = Some(self);
        while let Some(resumed) = queue {
            resumed.pass_on();
            queue = Outermost::next();
        }
    }

    fn pass_on(self: Arc<Self>) {
        loop {
            let mut passed = Submitted::Queued;
            let rest = self.operations.resume(
                |_, next| Some(next),
                |_| false,
                |(), operation| {
                    self.perform(operation, |lane, operation| passed = lane.enter(operation))
                },
            );
            // Without the queue's locks: those who hear may submit more.
            passed.finish_late(self.lane.poison());
            match rest {
                Rest::None => return self.lane.end_waiting(),
                Rest::More | Rest::Gathers => {}
                Rest::HeldUp(event) => return self.resume_after(&event),
            }
        }
    }

    fn perform(
        &self,
        operation: Operation,
        pass: impl FnOnce(&Arc<Lane>, Operation),
    ) -> Step<Operation, Event> {
        match operation.obstacle(self.lane.number()) {
            Some(event) => Step::HeldUp(operation, event),
            None => {
                pass(&self.lane, operation);
                Step::Done
            }
        }
    }
}

/// Held by a thread while it resumes queues, one after another.
struct Outermost(Resuming);

impl Outermost {
    /// `None` if the thread is already resuming another queue, after which it resumes this one.
    fn begin(queue: &Arc<StreamQueue>) -> Option<Outermost> {
        let outermost = |next: &RefCell<Option<VecDeque<_>>>| match &mut *next.borrow_mut() {
            Some(next) => {
                next.push_back(Arc::clone(queue));
                false
            }
            next => {
                *next = Some(VecDeque::new());
                true
            }
        };
        // At the end of a thread, the list is gone.
        NEXT.try_with(outermost).unwrap_or(true).then(|| Outermost(Resuming::begin()))
    }

    fn next() -> Option<Arc<StreamQueue>> {
        let first = |next: &RefCell<Option<VecDeque<_>>>| next.borrow_mut().as_mut()?.pop_front();
        NEXT.try_with(first).ok().flatten()
    }
}

impl Drop for Outermost {
    fn drop(&mut self) {
        // At the end of a thread, the list is gone, too.
        let _ = NEXT.try_with(RefCell::take);
    }
}
