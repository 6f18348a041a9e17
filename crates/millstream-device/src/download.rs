//! Items of a device, on their way to the host.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytemuck::Pod;

use crate::Result;
use crate::event::{Completion, Event};
use crate::memory::DeviceBuffer;

/// Items on their way to the host: a future of them.
#[must_use = "futures do nothing unless polled"]
pub struct Download<T: Pod> {
    staging: DeviceBuffer<T>,
    event: Event,
    completion: Completion,
}

impl<T: Pod> fmt::Debug for Download<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Download({})", self.event)
    }
}

impl<T: Pod> Download<T> {
    /// Items that are copied to `staging` by what `event` comes after.
    pub(crate) fn new(staging: DeviceBuffer<T>, event: Event) -> Download<T> {
        Download { staging, completion: event.completed(), event }
    }

    /// The event after which the items are here.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// Blocks until the items are here.
    ///
    /// # Errors
    /// The first cause, if an operation before failed.
    pub fn wait(self) -> Result<Vec<T>> {
        self.event.synchronize()?;
        Ok(self.staging.host_view()?.to_vec())
    }
}

impl<T: Pod> Unpin for Download<T> {}

impl<T: Pod> Future for Download<T> {
    type Output = Result<Vec<T>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Vec<T>>> {
        match Pin::new(&mut self.completion).poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(cause)) => Poll::Ready(Err(cause)),
            Poll::Ready(Ok(())) => Poll::Ready(self.staging.host_view().map(<[T]>::to_vec)),
        }
    }
}
