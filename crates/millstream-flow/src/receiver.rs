//! The receiving end of a link: a pipelined receiver \[G §4.1\].

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use millstream_device::Device;

use crate::port::Port;
use crate::segment::PendingSegment;
use crate::{Error, Item, Result};

/// The receiving end of a link. Its packet buffers are posted ahead, so that
/// copies overlap with whatever the device computes.
///
/// Dropping it before the end of its stream is an error of the graph.
///
/// ```
/// use millstream_flow::{Buffers, Context, Devices, Error, Graph};
///
/// let context = Context::builder().devices(Devices::host(1)).build()?;
/// let graph = Graph::new(&context);
/// let device = &context.devices()[0];
/// let (mut feed, mut input) = graph.link::<u32>(device, context.host(), Buffers::items(4))?;
/// graph.spawn(async move {
///     feed.send_all((0..10).collect::<Vec<u32>>()).await?;
///     feed.shutdown()
/// });
/// let sum = context.block_on(graph.run(async move {
///     let mut sum = 0;
///     while let Some(pending) = input.recv().await? {
///         let segment = pending.ready().await?;
///         sum += segment.host_view()?.iter().sum::<u32>();
///         segment.release()?;
///     }
///     Ok::<u32, Error>(sum)
/// }))??;
/// assert_eq!(sum, 45);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct Receiver<T: Item> {
    port: Arc<Port<T>>,
}

impl<T: Item> Receiver<T> {
    pub(crate) fn new(port: Arc<Port<T>>) -> Receiver<T> {
        Receiver { port }
    }

    /// The endpoint that receives.
    pub fn device(&self) -> &Device {
        &self.port.device
    }

    /// Items in a packet, at most.
    pub fn packet_items(&self) -> usize {
        self.port.destination.packet_items()
    }

    /// The next packet; `None` once every sender that can reach this receiver
    /// has shut down and everything sent has been received.
    ///
    /// # Errors
    /// The graph's first cause.
    ///
    /// # Cancel safety
    /// Cancel safe: a packet is taken only when the future resolves.
    ///
    /// # Device ordering
    /// The copy is submitted; the items are there when the segment's event is
    /// complete, see [`PendingSegment`].
    pub async fn recv(&mut self) -> Result<Option<PendingSegment<T>>> {
        let next = poll_fn(|context| {
            if let Some(cause) = self.port.failure.cause() {
                return Poll::Ready(Err(cause.clone()));
            }
            match self.port.destination.poll_next(context.waker()) {
                Poll::Ready(next) => Poll::Ready(Ok(next)),
                // The failure may have come before the waker was registered.
                Poll::Pending => match self.port.failure.cause() {
                    Some(cause) => Poll::Ready(Err(cause.clone())),
                    None => Poll::Pending,
                },
            }
        });
        Ok(next.await?.map(|packet| PendingSegment::new(packet, Arc::clone(&self.port))))
    }

    /// Receives everything and returns the items in the order of arrival; on
    /// the host endpoint only.
    ///
    /// # Errors
    /// The graph's first cause; a receiver elsewhere.
    ///
    /// # Cancel safety
    /// Dropping the future drops this receiver, an error of the graph.
    pub async fn collect(mut self) -> Result<Vec<T>> {
        let mut items = Vec::new();
        while let Some(pending) = self.recv().await? {
            let segment = pending.ready().await?;
            items.extend_from_slice(segment.host_view()?);
            segment.release()?;
        }
        Ok(items)
    }
}

impl<T: Item> Drop for Receiver<T> {
    fn drop(&mut self) {
        if !self.port.destination.has_ended() {
            let to = self.port.device.name();
            self.port.failure.suspect(Error::ReceiverDropped { to });
        }
    }
}
