//! What lanes do, and what has become of it.

use std::sync::Arc;

use super::pending::Held;
use super::stream::FirstCause;
use crate::Result;
use crate::event::Event;
use crate::task::Task;

/// What a lane does for one of its streams.
pub(super) struct Operation {
    pub(super) work: Work,
    /// The stream's.
    pub(super) cause: Arc<FirstCause>,
}

pub(super) enum Work {
    Run(Task),
    /// A kernel that says itself that the driver's stream has come to here.
    Tell(Task, Event),
    /// Makes the driver's stream say when it has come to here.
    Point(Option<Event>, Option<Held>),
    Wait(Event),
}

impl Operation {
    /// Makes one launch of this and the next, if they are launches of one kernel and stream
    /// that can be; gives the next back if not.
    pub(super) fn join(&mut self, next: Operation) -> Option<Operation> {
        match (&mut self.work, next) {
            (
                Work::Run(Task::Launch(launch)),
                Operation { work: Work::Run(Task::Launch(next)), cause },
            ) if Arc::ptr_eq(&cause, &self.cause) => {
                let back = launch.join(next)?;
                Some(Operation { work: Work::Run(Task::Launch(back)), cause })
            }
            (_, next) => Some(next),
        }
    }
}

/// What has become of an operation.
pub(super) struct Performed {
    pub(super) result: Result<()>,
    /// Its event, if it has one.
    pub(super) event: Option<Event>,
}

impl Performed {
    /// Tells those who wait for the event that it is recorded; a failure is the caller's.
    pub(super) fn told(self) -> Result<()> {
        if let (Ok(()), Some(event)) = (&self.result, self.event) {
            event.recorded();
        }
        self.result
    }

    /// Tells them of a failure, too: nobody else does.
    pub(super) fn tell(self) {
        let event = self.event.clone();
        if let (Err(error), Some(event)) = (self.told(), event) {
            event.complete(Err(error));
        }
    }
}
