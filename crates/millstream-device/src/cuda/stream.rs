//! Streams of a GPU. The driver has few that run side by side (hardware queues
//! alias beyond that), so any number of [`CudaStream`]s share a few [`Lane`]s.
//! No wait refers to a later submission, so sharing cannot close a cycle.

use std::any::Any;
use std::sync::Arc;

use parking_lot::Mutex;

use super::lane::Lane;
use super::pending::Held;
use crate::event::Event;
use crate::task::Task;
use crate::{Error, Result};

/// The first failure of a stream.
#[derive(Debug, Default)]
pub(super) struct FirstCause(Mutex<Option<Error>>);

impl FirstCause {
    pub(super) fn get(&self) -> Option<Error> {
        self.0.lock().clone()
    }

    pub(super) fn set(&self, cause: Error) {
        self.0.lock().get_or_insert(cause);
    }
}

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
        let poison = self.lane.context.poison.get().cloned();
        self.cause.get().or(poison).map_or(Ok(()), Err)
    }

    /// Fails the stream.
    pub(crate) fn fail(&self, cause: Error) {
        self.cause.set(cause);
    }

    pub(crate) fn submit(&self, task: Task) -> Result<()> {
        self.lane.submit(task, &self.cause).inspect_err(|cause| self.fail(cause.clone()))
    }

    /// As [`CudaStream::submit`], by a thread of the lane. Not where devices share a GPU:
    /// streams may share a queue of the hardware there, in which a kernel that waits for
    /// another device's must not lie before that one.
    pub(crate) fn leave(&self, task: Task) -> Result<()> {
        match self.is_shared {
            true => self.submit(task),
            false => {
                self.lane.leave(task, &self.cause);
                Ok(())
            }
        }
    }

    /// A kernel that tells, and an event after it.
    pub(crate) fn submit_and_record(&self, task: Task, event: &Event) -> Result<()> {
        let submitted = self.lane.submit_and_record(task, event.clone(), &self.cause);
        submitted.inspect_err(|cause| self.fail(cause.clone()))
    }

    pub(crate) fn record(&self, event: &Event) -> Result<()> {
        self.lane.record(event.clone(), &self.cause)
    }

    pub(crate) fn wait(&self, event: &Event) -> Result<()> {
        self.lane.wait(event.clone(), &self.cause)
    }

    /// Holds `last` until everything submitted so far is over.
    pub(crate) fn close(&self, last: Box<dyn Any + Send>) {
        // A poisoned lane lets go of nothing more.
        let _ = self.lane.point(None, Some(Held::Other(last)), &self.cause);
    }
}
