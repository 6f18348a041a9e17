//! The operations of lanes, and what has become of them.

use std::sync::Arc;

use super::context::NativeEvent;
use super::in_order::InOrder;
use super::lane::Lane;
use super::pending::Held;
use super::settle::Busy;
use super::stream_queue::StreamQueue;
use super::submission::Submission;
use crate::event::{Event, EventStatus};
use crate::first_cause::{FirstCause, Untold};
use crate::poison::Poison;
use crate::task::{Followers, Task};
use crate::trace::Tracing;
use crate::{Error, Result};

/// The operations of a lane, performed one after another.
pub(super) type Queue = InOrder<Submission, Operation>;

/// An operation that a lane performs for one of its streams.
pub(super) struct Operation {
    pub(super) work: Work,
    /// The first failure of that stream.
    pub(super) cause: Arc<FirstCause>,
}

/// A task, with its tracing if it is traced.
pub(super) type TracedTask = (Task, Option<Box<Tracing>>);

pub(super) enum Work {
    Run(TracedTask),
    /// The same, with a point right behind it.
    RunTo(TracedTask, Event, Followers),
    /// Makes the driver's stream tell when it has come to here.
    Point(Option<Event>, Option<Held>),
    /// The same for an event that only the host waits for.
    End(Event),
    Wait(Event),
}

impl Operation {
    /// Merges this launch and the next one, if they are launches of the same kernel and stream and
    /// can be merged; otherwise returns the next one.
    pub(super) fn join(&mut self, next: Operation) -> Option<Operation> {
        match (&mut self.work, next) {
            (
                Work::Run((Task::Launch(launch), _)),
                Operation { work: Work::Run((Task::Launch(next), tracing)), cause },
            ) if Arc::ptr_eq(&cause, &self.cause) => {
                let back = Task::Launch(launch.join(next)?);
                Some(Operation { work: Work::Run((back, tracing)), cause })
            }
            (_, next) => Some(next),
        }
    }

    /// The event that it records, if any.
    pub(super) fn event(&self) -> Option<&Event> {
        match &self.work {
            Work::RunTo(_, event, _) | Work::Point(Some(event), _) | Work::End(event) => {
                Some(event)
            }
            Work::Run(_) | Work::Point(None, _) | Work::Wait(_) => None,
        }
    }

    /// The event that this operation must come after and that the lane's stream must not wait for
    /// in the driver: one that is pending, and either has not been recorded on a GPU or is on
    /// another lane that needs the host.
    pub(super) fn obstacle(&self, lane: usize) -> Option<Event> {
        let Work::Wait(event) = &self.work else { return None };
        let may_wait = |native: &NativeEvent| native.lane == lane || !native.needs_host();
        let is_held_up = !event.native().is_some_and(|native| may_wait(native))
            && event.status() == EventStatus::Pending;
        is_held_up.then(|| event.clone())
    }

    /// Whether it had better wait for others to join.
    pub(super) fn gathers(&self) -> bool {
        matches!(&self.work, Work::Run((Task::Launch(launch), _)) if launch.gathers())
    }
}

/// What has become of an operation. To be finished once its submitter no longer holds the stream's lock.
#[must_use = "somebody may wait"]
pub(crate) enum Submitted {
    /// It waits behind others; whoever performs those performs it, too.
    Queued,
    /// It waits behind too many others.
    Crowded(Arc<Lane>),
    /// It is the first one that is left to the GPU's thread.
    Left(Arc<Lane>, Busy),
    /// It is the first one that waits, until its submitter begins it.
    Held(Arc<Lane>),
    /// It is the first one of its stream that waits, for this event.
    HeldUp(Arc<StreamQueue>, Event),
    Performed(Performed),
}

impl Submitted {
    /// Sees to it that somebody goes on, and tells listeners. The caller must hold no lock that
    /// those may want.
    ///
    /// # Errors
    /// What the driver refused.
    pub(crate) fn finish(self) -> Result<()> {
        match self {
            Submitted::Queued => {}
            Submitted::Crowded(lane) => lane.wait_for_room(),
            Submitted::Left(lane, busy) => lane.resume_soon(busy),
            Submitted::Held(lane) => lane.let_go(),
            Submitted::HeldUp(queue, event) => queue.resume_after(&event),
            Submitted::Performed(performed) => return performed.told(),
        }
        Ok(())
    }

    /// The same for an operation that has waited: those who wait for its event are told of a failure.
    pub(super) fn finish_late(self, poison: &Poison) {
        match self {
            Submitted::Performed(performed) => performed.tell(poison),
            // Only performed operations can be refused.
            submitted => drop(submitted.finish()),
        }
    }

    /// As [`Submitted::finish`], but an operation that waits for its submitter is performed here.
    ///
    /// # Errors
    /// What the driver refused at once, if the operation did not wait.
    pub(crate) fn begin_here(self) -> Result<()> {
        match self {
            Submitted::Held(lane) => {
                lane.resume();
                Ok(())
            }
            submitted => submitted.finish(),
        }
    }
}

/// An operation that has been given to the driver, or refused.
pub(crate) struct Performed {
    pub(super) result: Result<()>,
    /// Its event, if it has one.
    pub(super) event: Option<Event>,
    /// The stream's failure, if this operation caused the first one.
    pub(super) failed: Untold,
    /// Why the kernel before the event was refused, if it was; the event then fails for that reason.
    pub(super) refused: Option<Box<Error>>,
}

impl Performed {
    /// Tells those who wait for the event that it has been recorded, and listeners of a failure. A
    /// failure is returned to the caller.
    pub(super) fn told(mut self) -> Result<()> {
        let refused = self.refused.take();
        self.told_of_event()?;
        refused.map_or(Ok(()), |refused| Err(*refused))
    }

    fn told_of_event(self) -> Result<()> {
        self.failed.tell();
        if let (Ok(()), Some(event)) = (&self.result, self.event) {
            event.recorded();
        }
        self.result
    }

    /// Also tells those who wait for the event of a failure, since nobody else does. If the event
    /// could not be recorded, nobody will know when what it comes after is over, which is as bad as
    /// after a fault.
    pub(super) fn tell(self, poison: &Poison) {
        let event = self.event.clone();
        if let (Err(error), Some(event)) = (self.told_of_event(), event) {
            event.complete(Err(poison.get_or_init(|| error).clone()));
        }
    }
}
