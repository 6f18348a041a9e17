//! Kernels that have their place in their stream's order but have not begun.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::Result;
use crate::backend::Submitted;
use crate::kernel::Step;
use crate::stream::Stream;
use crate::task::{Launch, Task};

/// A kernel that has its place in its stream's order, from
/// [`BoundKernel::enter`](crate::BoundKernel::enter). It begins when this is dropped, at the
/// latest. As long as this is kept, so is everything that the kernel uses. The thread that hears of
/// the kernel's end then has nothing to give back before it passes that on.
///
/// Later work on this stream, and on streams that share a lane of the GPU with it, waits for the
/// kernel. So the thread that has yet to begin the kernel must not wait for such work. Whoever
/// enters kernels that wait for each other holds [`Launching`](crate::Launching) from before the
/// first one until all have begun.
///
/// ```
/// use millstream_device::{DeviceList, DeviceSet, EnteredKernel, Kernel, Shared};
/// use std::sync::atomic::Ordering;
///
/// static ADD: Kernel<(Shared<u32>,)> = Kernel::new("add", |_, (items,)| {
///     items[0].fetch_add(1, Ordering::Relaxed);
///     Ok(())
/// });
///
/// let set = DeviceSet::builder().devices(DeviceList::host(2)).build()?;
/// let items = set.host().shared(1)?;
/// let enter = |device: &millstream_device::Device| {
///     ADD.prepare(device, 1)?;
///     ADD.bind(&device.stream()?, 1, (&items,))?.enter()
/// };
/// let mut entered = set.devices().iter().map(enter).collect::<Result<Vec<_>, _>>()?;
/// entered.iter_mut().try_for_each(EnteredKernel::begin)?;
/// set.quiesce()?;
/// assert_eq!(items.load(0)?, 2);
/// # Ok::<(), millstream_device::Error>(())
/// ```
#[must_use = "dropped, it begins"]
pub struct EnteredKernel {
    /// `Some` until the kernel begins.
    submitted: Option<Submitted>,
    stream: Stream,
    _kept: Option<KeptLaunch>,
}

impl fmt::Debug for EnteredKernel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "EnteredKernel(on {:?})", self.stream)
    }
}

impl EnteredKernel {
    pub(crate) fn new(
        submitted: Submitted,
        stream: Stream,
        kept: Option<KeptLaunch>,
    ) -> EnteredKernel {
        EnteredKernel { submitted: Some(submitted), stream, _kept: kept }
    }

    /// Whether the kernel has not begun, and will not begin before it is told to: see
    /// [`BoundKernel::enter`](crate::BoundKernel::enter).
    pub fn is_held(&self) -> bool {
        self.submitted.as_ref().is_some_and(Submitted::is_held)
    }

    /// Lets a thread give the kernel to the GPU's driver; the caller goes on at once. Once only.
    ///
    /// # Errors
    /// What the driver refused at once, if the kernel was not waiting to be begun. Otherwise a
    /// launch that the driver refuses fails the stream.
    pub fn begin(&mut self) -> Result<()> {
        self.submitted.take().map_or(Ok(()), Submitted::finish)
    }

    /// Gives the kernel to the GPU's driver on this thread.
    ///
    /// # Errors
    /// As [`EnteredKernel::begin`].
    pub fn begin_here(&mut self) -> Result<()> {
        self.submitted.take().map_or(Ok(()), Submitted::begin_here)
    }
}

impl Drop for EnteredKernel {
    fn drop(&mut self) {
        // Those who listen to the stream hear of a failure.
        let _ = self.submitted.take().map(Submitted::finish);
    }
}

/// A launch that whoever has entered it keeps, too. Neither owner ever waits for the other at the
/// lock: one submits the launch, the other only drops it.
#[derive(Clone)]
pub(crate) struct KeptLaunch(Arc<Mutex<Box<dyn Launch>>>);

impl KeptLaunch {
    /// The same task, and a handle by which a launch can be kept.
    pub(crate) fn keep(task: Task) -> (Task, Option<KeptLaunch>) {
        match task {
            Task::Launch(launch) => {
                let kept = KeptLaunch(Arc::new(Mutex::new(launch)));
                (Task::Launch(Box::new(kept.clone())), Some(kept))
            }
            task => (task, None),
        }
    }
}

impl Launch for KeptLaunch {
    fn step_twin(&self, device: &str) -> Result<Step> {
        self.0.lock().step_twin(device)
    }

    #[cfg(feature = "cuda")]
    fn is_loaded(&self, context: crate::cuda::ContextId) -> bool {
        self.0.lock().is_loaded(context)
    }

    #[cfg(feature = "cuda")]
    fn load(&self, context: &crate::cuda::GpuContext) -> Result<()> {
        self.0.lock().load(context)
    }

    #[cfg(feature = "cuda")]
    fn make_ready(&mut self, context: &crate::cuda::GpuContext) -> Result<()> {
        self.0.lock().make_ready(context)
    }

    #[cfg(feature = "cuda")]
    fn tells(&self) -> bool {
        self.0.lock().tells()
    }

    #[cfg(feature = "cuda")]
    fn submit(&mut self, lane: &crate::cuda::LaneStream<'_>) -> Result<()> {
        self.0.lock().submit(lane)
    }

    #[cfg(feature = "cuda")]
    fn join(&mut self, next: Box<dyn Launch>) -> Option<Box<dyn Launch>> {
        Some(next)
    }

    #[cfg(feature = "cuda")]
    fn gathers(&self) -> bool {
        false
    }

    #[cfg(feature = "cuda")]
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    #[cfg(feature = "cuda")]
    fn into_any(self: Box<Self>) -> Box<dyn std::any::Any> {
        self
    }
}
