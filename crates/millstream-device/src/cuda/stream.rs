//! Streams of a GPU. The driver has few that run side by side (hardware queues
//! alias beyond that), so any number of [`CudaStream`]s share a few [`Lane`]s.
//! No wait refers to a later submission, so sharing cannot close a cycle.

use std::any::Any;
use std::sync::Arc;

use super::lane::Lane;
use super::operation::{Performed, Submitted};
use super::pending::Held;
use super::settle::settle;
use crate::event::Event;
use crate::first_cause::FirstCause;
use crate::task::{Submitting, Task};
use crate::{Error, Result};

/// A stream: an order of its own on a lane it shares.
#[derive(Debug)]
pub(crate) struct CudaStream {
    lane: Arc<Lane>,
    cause: Arc<FirstCause>,
    /// Whether other devices are parts of the GPU.
    is_shared: bool,
}

impl CudaStream {
    pub(super) fn new(lane: Arc<Lane>, is_shared: bool) -> CudaStream {
        CudaStream { lane, cause: Arc::default(), is_shared }
    }

    /// The first cause, if an operation has failed.
    pub(crate) fn check(&self) -> Result<()> {
        let poison = &self.lane.context.poison;
        self.cause.get().map_or_else(|| poison.check(), |cause| Err(cause.clone()))
    }

    pub(crate) fn cause(&self) -> &FirstCause {
        &self.cause
    }

    /// Fails the stream; whoever submits goes on.
    pub(crate) fn fail(&self, cause: Error) -> Submitted {
        let failed = self.cause.set(cause);
        Submitted::Performed(Performed { result: Ok(()), event: None, failed })
    }

    /// Does what may take long, before any lock is taken: loading may wait for kernels that run.
    pub(crate) fn prepare(&self, task: &Task, submitting: Submitting) -> Result<()> {
        if let Task::Launch(launch) = task {
            let context = &self.lane.context;
            if !launch.is_loaded(context.id()) {
                context.bind()?;
                launch.load(context)?;
            }
        }
        if self.submitting(submitting) == Submitting::Caller {
            settle();
        }
        Ok(())
    }

    /// By whom. Where devices share a GPU, not by a thread: streams may share a queue of the
    /// hardware there, in which a kernel that waits for another device's must not lie before
    /// that one.
    fn submitting(&self, wanted: Submitting) -> Submitting {
        if self.is_shared { Submitting::Caller } else { wanted }
    }

    /// By whom, [prepared](CudaStream::prepare).
    pub(crate) fn submit(&self, task: Task, submitting: Submitting) -> Submitted {
        match self.submitting(submitting) {
            Submitting::Caller => self.lane.submit(task, &self.cause),
            Submitting::Thread => self.lane.leave(task, &self.cause),
            Submitting::Later => self.hold(task),
        }
    }

    /// What can be done beforehand is done, so that kernels which wait for each other begin sooner.
    fn hold(&self, mut task: Task) -> Submitted {
        let ready = match &mut task {
            Task::Launch(launch) => launch.make_ready(&self.lane.context),
            _ => Ok(()),
        };
        match ready {
            Ok(()) => self.lane.hold(task, &self.cause),
            Err(error) => self.fail(error),
        }
    }

    /// A kernel that tells, and an event after it; prepared.
    pub(crate) fn submit_and_record(&self, task: Task, event: Event) -> Submitted {
        self.lane.submit_and_record(task, event, &self.cause)
    }

    pub(crate) fn record(&self, event: Event) -> Submitted {
        self.lane.record(event, &self.cause)
    }

    pub(crate) fn end(&self, event: Event) -> Submitted {
        self.lane.end(event, &self.cause)
    }

    pub(crate) fn wait(&self, event: Event) -> Submitted {
        self.lane.wait(event, &self.cause)
    }

    /// Holds `last` until everything submitted so far is over.
    pub(crate) fn close(&self, last: Box<dyn Any + Send>) {
        // A poisoned lane lets go of nothing more.
        let _ = self.lane.point(None, Some(Held::Other(last)), &self.cause).finish();
    }
}
