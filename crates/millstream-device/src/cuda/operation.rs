//! What lanes do, and what has become of it.

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

/// What a lane does, one after the other.
pub(super) type Queue = InOrder<Submission, Operation>;

/// What a lane does for one of its streams.
pub(super) struct Operation {
    pub(super) work: Work,
    /// The stream's.
    pub(super) cause: Arc<FirstCause>,
}

/// A task, and how it is traced if it is.
pub(super) type TracedTask = (Task, Option<Box<Tracing>>);

pub(super) enum Work {
    Run(TracedTask),
    /// The same, and a point right behind it.
    RunTo(TracedTask, Event, Followers),
    /// Makes the driver's stream say when it has come to here.
    Point(Option<Event>, Option<Held>),
    /// The same, of an event that only the host waits for.
    End(Event),
    Wait(Event),
}

impl Operation {
    /// Makes one launch of this and the next, if they are launches of one kernel and stream
    /// that can be; gives the next back if not.
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

    /// What it records, if that.
    pub(super) fn event(&self) -> Option<&Event> {
        match &self.work {
            Work::RunTo(_, event, _) | Work::Point(Some(event), _) | Work::End(event) => {
                Some(event)
            }
            Work::Run(_) | Work::Point(None, _) | Work::Wait(_) => None,
        }
    }

    /// What it must come after and a lane's stream of the driver must not wait for: an event that is
    /// pending, and either not recorded on a GPU or on another lane that needs the host.
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

/// What has become of an operation, until whoever submits it holds the stream's lock no more.
#[must_use = "somebody may wait"]
pub(crate) enum Submitted {
    /// It waits behind others; whoever performs those performs it.
    Queued,
    /// It waits behind too many others.
    Crowded(Arc<Lane>),
    /// It is the first that is left to the GPU's thread.
    Left(Arc<Lane>, Busy),
    /// It is the first that waits, for whoever has submitted it.
    Held(Arc<Lane>),
    /// It is the first of its stream that waits, for this.
    HeldUp(Arc<StreamQueue>, Event),
    Performed(Performed),
}

impl Submitted {
    /// Says who goes on, and tells who wants to hear. The caller holds no lock that those may want.
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

    /// The same, of an operation that has waited: a failure is told to those who wait for its event.
    pub(super) fn finish_late(self, poison: &Poison) {
        match self {
            Submitted::Performed(performed) => performed.tell(poison),
            // Nothing is refused that is not performed.
            submitted => drop(submitted.finish()),
        }
    }

    /// As [`Submitted::finish`], but what waits for whoever has submitted it is performed here.
    ///
    /// # Errors
    /// What the driver refused at once, of what has not waited.
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

/// What the driver has been given, or not.
pub(crate) struct Performed {
    pub(super) result: Result<()>,
    /// Its event, if it has one.
    pub(super) event: Option<Event>,
    /// The stream's failure, if this was its first.
    pub(super) failed: Untold,
    /// Why a kernel was refused before its event, which fails for that.
    pub(super) refused: Option<Box<Error>>,
}

impl Performed {
    /// Tells those who wait for the event that it is recorded, or listen for failures; a failure
    /// is the caller's.
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

    /// Tells those who wait for the event of a failure, too: nobody else does. Nor will anybody know
    /// when what the event comes after is over, which is then no better than after a fault.
    pub(super) fn tell(self, poison: &Poison) {
        let event = self.event.clone();
        if let (Err(error), Some(event)) = (self.told_of_event(), event) {
            event.complete(Err(poison.get_or_init(|| error).clone()));
        }
    }
}
