//! A task that a thread of its own polls.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};
use std::thread::{self, Builder, JoinHandle};

use futures_util::FutureExt;
use futures_util::future::RemoteHandle;
use millstream_device::{DeviceSet, Error as DeviceError};

use crate::Result;
use crate::graph::Task;

/// Stands for a task in whatever polls this; the task itself runs on a thread of its own, which
/// begins with the first poll. Dropping this drops the task, and waits until that is done.
pub(crate) enum TaskThread {
    Waiting { task: Option<Task>, set: DeviceSet },
    Running(Running),
}

pub(crate) struct Running {
    /// Declared before the thread: its drop ends what the thread polls.
    task: Option<RemoteHandle<Result<()>>>,
    thread: Option<JoinHandle<()>>,
}

impl TaskThread {
    pub(crate) fn new(task: Task, set: DeviceSet) -> TaskThread {
        TaskThread::Waiting { task: Some(task), set }
    }
}

impl Running {
    fn begin(task: Task, set: DeviceSet) -> Result<Running> {
        let (remote, handle) = task.remote_handle();
        let thread = Builder::new().name("millstream-tasks".to_string());
        // Such threads are used only on devices that are not simulated, where waiting does not fail.
        let thread = thread.spawn(move || drop(set.block_on(remote)));
        let refused =
            |error| DeviceError::Start { reason: format!("no thread for tasks: {error}") };
        let thread = thread.map_err(refused)?;
        Ok(Running { task: Some(handle), thread: Some(thread) })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.task.take());
        // The thread ends after its current poll, which does not block; a panic would be the task's
        // own. The thread may itself run this drop, when it wakes the owner of this: then it must
        // not join itself.
        let thread = self.thread.take();
        let others = thread.filter(|it| it.thread().id() != thread::current().id());
        let _ = others.map(JoinHandle::join);
    }
}

impl Future for TaskThread {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<Result<()>> {
        if let TaskThread::Waiting { task, set } = &mut *self
            && let Some(task) = task.take()
        {
            *self = TaskThread::Running(Running::begin(task, set.clone())?);
        }
        match &mut *self {
            TaskThread::Running(Running { task: Some(task), .. }) => task.poll_unpin(context),
            _ => Poll::Pending,
        }
    }
}
