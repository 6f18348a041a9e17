//! A kernel that was launched before its packets are there.

use millstream_device::Event;

use super::group::FullEmpty;
use crate::Result;

/// A kernel that was [launched early](FullEmpty::launch_early). If the group ends all waiting, the
/// kernel ends before its work is done. A twin then fails, but a GPU's kernel just ends and its
/// stream goes on. So before you use the kernel's results, ask this
/// ([`completed`](EarlyKernel::completed)), not its event.
///
/// ```
/// use std::time::Duration;
/// use millstream_device::{Kernel, Step, StreamKind};
/// use millstream_flow::{Context, Devices, Error, FullEmpty, FullEmptyPackets, PacketShape};
///
/// let context = Context::builder().devices(Devices::host(1)).build()?;
/// let device = &context.devices()[0];
/// let group = FullEmpty::new(&context, Duration::from_secs(5))?;
/// let input = group.segment::<u32>(device, PacketShape::new(100, 50))?;
/// let wait = Kernel::<(FullEmptyPackets<u32>,)>::of_step_closure("wait", |block, (input,)| {
///     Ok(if input.items(block)?.is_some() { Step::Done } else { Step::Waits })
/// });
/// let stream = device.stream_of(StreamKind::Gang)?;
/// let error = context.block_on(async {
///     let early = group.launch_early(&stream, &wait, 2, (&input,)).await?;
///     group.release_all()?;
///     early.completed().await
/// })?;
/// assert!(matches!(error, Err(Error::Released)));
/// # Ok::<(), millstream_flow::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "whether it did its work it alone says"]
pub struct EarlyKernel {
    event: Event,
    group: FullEmpty,
}

impl EarlyKernel {
    pub(super) fn new(group: &FullEmpty, event: Event) -> EarlyKernel {
        EarlyKernel { event, group: group.clone() }
    }

    /// For streams that wait: complete when the kernel has ended, whether or not its packets came.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// Waits until the kernel has ended.
    ///
    /// # Errors
    /// The reason why the group has ended ([`FullEmpty::check`]), if it has, even if it ended after
    /// the kernel; otherwise the first cause, if the kernel or an operation before it failed.
    ///
    /// # Cancel safety
    /// Cancel safe.
    ///
    /// # Device ordering
    /// What host code does next comes after the kernel.
    pub async fn completed(&self) -> Result<()> {
        let ended = self.event.completed().await;
        // Check the group first: if it has ended, that is why a twin fails.
        self.group.check()?;
        Ok(ended?)
    }
}
