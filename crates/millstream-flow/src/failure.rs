//! The first cause of a graph's failure, and the calls that have to see it.

use std::cell::Cell;
use std::ptr::null;
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::{Error, Wait};

/// Something with pending calls, which must see a failure.
pub(crate) trait PendingCalls: Send + Sync {
    /// Wakes every pending call.
    fn interrupt(&self);
    /// Gives up whatever is queued; the graph is over.
    fn clear(&self);
    /// What the pending calls wait for.
    fn waits(&self) -> Vec<Wait>;
}

thread_local! {
    /// The failure of the graph whose task is being polled by this thread, which is that task's own.
    static POLLED: Cell<*const Failure> = const { Cell::new(null()) };
    /// Like [`Failure::suspected`], for that task.
    static SUSPECTED: Cell<Option<Error>> = const { Cell::new(None) };
}

/// Shared by all parts of one graph: set once, by the first cause.
#[derive(Default)]
pub(crate) struct Failure {
    cause: OnceLock<Error>,
    /// Faults noticed in a `Drop`. When a task returns an error or panics, its senders and segments
    /// are dropped before the error is seen, and these drops must not pass for the cause. So the
    /// runner decides, once it has polled; for a task with a thread of its own, that thread
    /// decides.
    suspected: Mutex<Option<Error>>,
    ports: Mutex<Vec<Weak<dyn PendingCalls>>>,
    /// The task that runs the graph.
    runner: Mutex<Option<Waker>>,
}

impl std::fmt::Debug for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Failure").field(&self.cause.get()).finish()
    }
}

impl Failure {
    /// Registers a part of the graph to be interrupted.
    pub(crate) fn watch(&self, port: Weak<dyn PendingCalls>) {
        let mut ports = self.ports.lock();
        // Short-lived ports come and go: look for dead ones when it is cheap.
        if ports.len() == ports.capacity() {
            ports.retain(|port| port.strong_count() > 0);
            let live = ports.len();
            ports.reserve(live);
        }
        ports.push(port);
    }

    /// The first cause, if the graph is over.
    pub(crate) fn cause(&self) -> Option<&Error> {
        self.cause.get()
    }

    /// `Err` with the first cause, if the graph is over.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.cause.get() {
            Some(cause) => Err(cause.clone()),
            None => Ok(()),
        }
    }

    /// Ends the graph; the first cause stays.
    pub(crate) fn fail(&self, cause: Error) {
        if self.cause.set(cause).is_err() {
            return;
        }
        for port in self.ports() {
            port.interrupt();
        }
        self.wake_runner();
    }

    /// Notes a fault found in a `Drop`; whoever polls decides (see `suspected`).
    pub(crate) fn suspect(&self, fault: Error) {
        if self.cause.get().is_some() {
            return;
        }
        if std::ptr::eq(POLLED.get(), self) {
            let first = SUSPECTED.take().unwrap_or(fault);
            return SUSPECTED.set(Some(first));
        }
        self.suspected.lock().get_or_insert(fault);
        self.wake_runner();
    }

    /// Makes a suspicion the cause: the task that was running when it arose has not failed.
    pub(crate) fn promote_suspicion(&self) {
        let suspected = self.suspected.lock().take();
        if let Some(fault) = suspected {
            self.fail(fault);
        }
    }

    /// Polls a task on its own thread. The task's error takes precedence over faults of what it dropped.
    pub(crate) fn polled(
        &self,
        poll: impl FnOnce() -> Poll<Result<(), Error>>,
    ) -> Poll<Result<(), Error>> {
        POLLED.set(self);
        let polled = poll();
        POLLED.set(null());
        if let Poll::Ready(Err(error)) = &polled {
            self.fail(error.clone());
        }
        if let Some(fault) = SUSPECTED.take() {
            self.fail(fault);
        }
        polled
    }

    /// Remembers the task that runs the graph.
    pub(crate) fn register_runner(&self, context: &Context<'_>) {
        let waker = context.waker().clone();
        let before = self.runner.lock().replace(waker);
        // A waker's drop may run any code: do it without the lock.
        drop(before);
    }

    /// What the graph's pending calls wait for.
    pub(crate) fn waits(&self) -> Vec<Wait> {
        self.ports().iter().flat_map(|port| port.waits()).collect()
    }

    /// Gives up everything queued in the graph.
    pub(crate) fn clear_ports(&self) {
        for port in self.ports() {
            port.clear();
        }
    }

    fn ports(&self) -> Vec<Arc<dyn PendingCalls>> {
        self.ports.lock().iter().filter_map(Weak::upgrade).collect()
    }

    fn wake_runner(&self) {
        let waker = self.runner.lock().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
