//! What of a stream waits for the host: other streams of its lane go on.

use std::sync::Arc;

use super::in_order::{InOrder, Rest, Step};
use super::lane::Lane;
use super::operation::{Operation, Submitted};
use super::settle::Resuming;
use crate::event::Event;

/// The way of a stream's operations to the lane that it shares. What must come after an event that
/// is not recorded on a GPU and not over waits here, and what is behind it.
pub(crate) struct StreamQueue {
    lane: Arc<Lane>,
    operations: InOrder<(), Operation>,
}

impl std::fmt::Debug for StreamQueue {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let waiting = self.operations.outstanding();
        write!(formatter, "StreamQueue({waiting} before {:?})", self.lane)
    }
}

impl StreamQueue {
    pub(super) fn new(lane: Arc<Lane>) -> Arc<StreamQueue> {
        Arc::new(StreamQueue { lane, operations: InOrder::new(()) })
    }

    pub(super) fn lane(&self) -> &Lane {
        &self.lane
    }

    /// Gives an operation to the lane by `pass`, now or once what it must come after is over: then
    /// the lane submits it as soon as it can.
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
                Submitted::HeldUp(Arc::clone(self), event)
            }
            None => passed,
        }
    }

    pub(super) fn resume_after(self: Arc<Self>, event: &Event) {
        event.on_recorded(move || self.resume());
    }

    /// Gives the lane what has waited.
    fn resume(self: Arc<Self>) {
        let _resuming = Resuming::begin();
        loop {
            let mut passed = Submitted::Queued;
            let rest = self.operations.resume(
                |_, next| Some(next),
                |_| false,
                |(), operation| {
                    self.perform(operation, |lane, operation| passed = lane.enter(operation))
                },
            );
            // Without the queue's locks, because whoever hears may submit more.
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
        match operation.obstacle() {
            Some(event) => Step::HeldUp(operation, event),
            None => {
                pass(&self.lane, operation);
                Step::Done
            }
        }
    }
}
