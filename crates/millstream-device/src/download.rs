//! Items of a device, on their way to the host.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytemuck::Pod;
use rayon::prelude::*;

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
    /// Items that are copied into `staging` by work that comes before `event`.
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

    /// Waits for the items and leaves them where they are: in a buffer of the host's memory, whose
    /// items host code can [view](DeviceBuffer::host_view).
    ///
    /// # Errors
    /// The first cause, if an operation before failed.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing has changed.
    ///
    /// # Device ordering
    /// When it resolves, host code comes after the copy.
    ///
    /// ```
    /// use millstream_device::{DeviceList, DeviceSet};
    ///
    /// let set = DeviceSet::builder().devices(DeviceList::host(1)).build()?;
    /// let stream = set.devices()[0].stream()?;
    /// let buffer = stream.uploaded(vec![1, 2, 3])?;
    /// let arrived = set.block_on(stream.download(&buffer)?.arrived())??;
    /// assert_eq!(arrived.host_view()?, [1, 2, 3]);
    /// # Ok::<(), millstream_device::Error>(())
    /// ```
    pub async fn arrived(self) -> Result<DeviceBuffer<T>> {
        self.completion.await?;
        Ok(self.staging)
    }
}

/// The fewest items for a thread to copy.
const PIECE: usize = 1 << 16;

impl<T: Pod + Sync> Download<T> {
    /// Waits for the items, applies `map` to each and appends the results to `items`. All threads
    /// take part, since the host takes longer to touch new memory than the items took to arrive.
    ///
    /// # Errors
    /// The first cause, if an operation before failed; nothing is appended then.
    ///
    /// # Cancel safety
    /// Cancel safe: they are appended all at once.
    ///
    /// # Device ordering
    /// When it resolves, host code comes after the copy.
    ///
    /// ```
    /// use millstream_device::{DeviceList, DeviceSet};
    ///
    /// let set = DeviceSet::builder().devices(DeviceList::host(1)).build()?;
    /// let stream = set.devices()[0].stream()?;
    /// let buffer = stream.uploaded(vec![1, 2, 3])?;
    /// let mut items = vec![0_u64];
    /// set.block_on(stream.download(&buffer)?.append_to(&mut items, |item: i32| 10 * item as u64))??;
    /// assert_eq!(items, [0, 10, 20, 30]);
    /// # Ok::<(), millstream_device::Error>(())
    /// ```
    pub async fn append_to<R: Send>(
        self,
        items: &mut Vec<R>,
        map: impl Fn(T) -> R + Send + Sync,
    ) -> Result<()> {
        let Download { staging, completion, .. } = self;
        completion.await?;
        let arrived = staging.host_view()?;
        match arrived.len() {
            ..PIECE => items.extend(arrived.iter().map(|item| map(*item))),
            _ => {
                let arrived = arrived.par_iter().with_min_len(PIECE);
                items.par_extend(arrived.map(|item| map(*item)));
            }
        }
        Ok(())
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
