//! Streams of a GPU. The driver has only a few streams that run side by side (beyond that, hardware
//! queues alias), so any number of [`CudaStream`]s share a few [`Lane`](super::lane::Lane)s. No
//! wait of a lane refers to a later submission, so sharing cannot close a cycle.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use super::lane::Lane;
use super::operation::{Operation, Performed, Submitted, TracedTask, Work};
use super::pending::Held;
use super::settle::settle;
use super::stream_queue::StreamQueue;
use crate::event::Event;
use crate::first_cause::FirstCause;
use crate::task::{Followers, Submitting, Task};
use crate::{Error, Result};

/// A stream: an order of its own, on a lane that it shares.
#[derive(Debug)]
pub(crate) struct CudaStream {
    queue: Arc<StreamQueue>,
    cause: Arc<FirstCause>,
    /// Whether other devices are parts of this GPU, too.
    is_shared: bool,
}

impl CudaStream {
    pub(super) fn new(lane: Arc<Lane>, is_shared: bool) -> CudaStream {
        CudaStream { queue: StreamQueue::new(lane), cause: Arc::default(), is_shared }
    }

    /// The first cause, if an operation has failed.
    pub(crate) fn check(&self) -> Result<()> {
        let poison = self.queue.lane().poison();
        self.cause.get().map_or_else(|| poison.check(), |cause| Err(cause.clone()))
    }

    pub(crate) fn cause(&self) -> &FirstCause {
        &self.cause
    }

    /// Fails the stream; the caller goes on.
    pub(crate) fn fail(&self, cause: Error) -> Submitted {
        let failed = self.cause.set(cause);
        Submitted::Performed(Performed { result: Ok(()), event: None, failed, refused: None })
    }

    /// Does in advance, before any lock is taken, what may take long: loading may wait for running kernels.
    pub(crate) fn prepare(&self, task: &Task, submitting: Submitting) -> Result<()> {
        if let Task::Launch(launch) = task {
            let context = self.queue.lane().context();
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

    /// Who submits. Where devices share a GPU, it is not a thread: streams there may share a queue
    /// of the hardware, in which a kernel that waits for another device's kernel must not lie
    /// before that one.
    fn submitting(&self, wanted: Submitting) -> Submitting {
        if self.is_shared { Submitting::Caller } else { wanted }
    }

    /// Submits a task that has been [prepared](CudaStream::prepare), in this way.
    pub(crate) fn submit(&self, name: &Arc<str>, task: Task, submitting: Submitting) -> Submitted {
        let task = self.traced(name, task);
        match self.submitting(submitting) {
            Submitting::Caller => self.pass(Work::Run(task), Lane::enter),
            Submitting::Thread => self.pass(Work::Run(task), Lane::leave),
            Submitting::Later => self.hold(task),
        }
    }

    /// A task with its tracing, if it is traced. Virtual devices' kernels that wait for each other
    /// are not: a mark behind one of them might hold up the hardware queue in which the next one
    /// lies.
    fn traced(&self, name: &Arc<str>, task: Task) -> TracedTask {
        let lane = self.queue.lane();
        match self.is_shared && lane.is_of_gangs() {
            true => (task, None),
            false => lane.traced(name, task),
        }
    }

    /// Holds a launch. Does in advance what can be done, so that kernels that wait for each other
    /// begin sooner.
    fn hold(&self, mut task: TracedTask) -> Submitted {
        let ready = match &mut task.0 {
            Task::Launch(launch) => launch.make_ready(self.queue.lane().context()),
            _ => Ok(()),
        };
        match ready {
            Ok(()) => self.pass(Work::Run(task), Lane::hold),
            Err(error) => self.fail(error),
        }
    }

    /// Submits a kernel that has been prepared, and an event after it.
    pub(crate) fn submit_with_event(
        &self,
        name: &Arc<str>,
        task: Task,
        event: Event,
        followers: Followers,
    ) -> Submitted {
        let work = Work::RunTo(self.traced(name, task), event, followers);
        match self.submitting(followers.submitting()) {
            Submitting::Thread => self.pass(work, Lane::leave),
            Submitting::Caller | Submitting::Later => self.pass(work, Lane::enter),
        }
    }

    /// Records an event, which completes at once if there is nothing to come after: that takes no
    /// call of the driver.
    pub(crate) fn record(&self, event: Event) -> Submitted {
        self.pass(Work::Point(Some(event), None), Lane::enter_after_all)
    }

    /// The same for an event that only the host waits for: it needs no event of the driver, which
    /// would take about a microsecond.
    pub(crate) fn end(&self, event: Event) -> Submitted {
        self.pass(Work::End(event), Lane::enter_after_all)
    }

    /// The count of the lane's operations that need the host in order to end.
    pub(crate) fn needs_host(&self) -> Arc<AtomicUsize> {
        self.queue.lane().needs_host()
    }

    /// Makes what comes next on the stream come after an event.
    pub(crate) fn wait(&self, event: Event) -> Submitted {
        // An event that is over needs no wait, and each wait costs the stream a microsecond.
        match event.is_complete() {
            true => Submitted::Queued,
            false => self.pass(Work::Wait(event), Lane::enter),
        }
    }

    /// Holds `last` until everything submitted so far is over.
    pub(crate) fn close(&self, last: Box<dyn Any + Send>) {
        // A poisoned lane releases nothing any more.
        let _ = self.pass(Work::Point(None, Some(Held::Other(last))), Lane::enter).finish();
    }

    fn pass(&self, work: Work, pass: impl FnOnce(&Arc<Lane>, Operation) -> Submitted) -> Submitted {
        self.queue.submit(Operation { work, cause: Arc::clone(&self.cause) }, pass)
    }
}
