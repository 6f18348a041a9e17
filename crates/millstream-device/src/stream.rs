//! Streams: in-order queues of a device's operations.

use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytemuck::Pod;
use parking_lot::Mutex;

use crate::device::Device;
use crate::event::{Awaitable, Completion, Event};
use crate::host::{Operation, StreamQueue, Work};
use crate::ledger::{AccessKind, Ledger, StreamIndex};
use crate::memory::{Allocation, DeviceBuffer, Part, PartMut};
use crate::shared::{AtomicPod, SharedBuffer};
use crate::{Error, Result};

/// What a stream is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StreamKind {
    /// Kernels.
    Compute,
    /// Kernels that run before others: split-receive \[G §4.3\].
    HighPriority,
    /// Copies.
    Copy,
}

impl fmt::Display for StreamKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            StreamKind::Compute => "compute",
            StreamKind::HighPriority => "high priority",
            StreamKind::Copy => "copy",
        })
    }
}

/// Items on the host for an upload: owned or shared, never borrowed, because
/// the copy happens later.
#[derive(Clone)]
pub struct HostData<T> {
    items: Arc<[T]>,
    range: Range<usize>,
}

impl<T> fmt::Debug for HostData<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "HostData({} items)", self.range.len())
    }
}

impl<T> HostData<T> {
    /// Items to upload.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Some of the items; no copy is made.
    ///
    /// # Errors
    /// A range that does not lie in the data.
    pub fn slice(&self, range: Range<usize>) -> Result<HostData<T>> {
        let len = self.len();
        if range.start > range.end || range.end > len {
            let buffer = "host data".to_string();
            return Err(Error::OutOfRange { buffer, start: range.start, end: range.end, len });
        }
        let start = self.range.start;
        let range = start + range.start..start + range.end;
        Ok(HostData { items: Arc::clone(&self.items), range })
    }
}

impl<T> From<Vec<T>> for HostData<T> {
    fn from(items: Vec<T>) -> HostData<T> {
        Arc::<[T]>::from(items).into()
    }
}

impl<T> From<Arc<[T]>> for HostData<T> {
    fn from(items: Arc<[T]>) -> HostData<T> {
        let range = 0..items.len();
        HostData { items, range }
    }
}

/// An in-order queue of operations of one device. Calls submit and return; the
/// operations run later, in order, beside those of other streams. Cheap to clone.
///
/// What an operation uses must be ordered after earlier uses of the same
/// buffers, by the order of one stream, by [`Stream::wait`] or by host code that
/// waited; otherwise the call is refused with [`Error::Hazard`] and nothing is
/// submitted. A failed operation fails its stream for good.
#[derive(Clone)]
pub struct Stream {
    core: Arc<StreamCore>,
}

struct StreamCore {
    device: Device,
    kind: StreamKind,
    index: StreamIndex,
    place: Arc<str>,
    queue: Arc<StreamQueue>,
    /// Submissions happen one at a time: entered in the ledger and queued in
    /// the same order.
    submission: Mutex<()>,
}

impl Drop for StreamCore {
    fn drop(&mut self) {
        let ledger = Arc::clone(&self.device.core.ledger);
        let index = self.index;
        // The place in the clocks is free when the operations are over.
        let closing = Work::Run(Box::new(move || {
            ledger.close_stream(index);
            Ok(())
        }));
        let name = Arc::from("close");
        self.device.core.runner.submit(&self.queue, Operation { name, work: closing });
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Stream({})", self.core.place)
    }
}

impl Stream {
    pub(crate) fn new(device: Device, kind: StreamKind) -> Stream {
        let index = device.core.ledger.open_stream();
        let place: Arc<str> = format!("{device} {kind} stream {index}").into();
        let queue = StreamQueue::new(Arc::clone(&place), device.core.name(), index);
        let submission = Mutex::new(());
        Stream { core: Arc::new(StreamCore { device, kind, index, place, queue, submission }) }
    }

    /// The device whose operations these are.
    pub fn device(&self) -> &Device {
        &self.core.device
    }

    /// What the stream is for.
    pub fn kind(&self) -> StreamKind {
        self.core.kind
    }

    pub(crate) fn index(&self) -> StreamIndex {
        self.core.index
    }

    /// Records an event: complete when everything submitted so far is.
    ///
    /// # Errors
    /// The first cause, on a failed stream.
    pub fn record(&self) -> Result<Event> {
        let device = &self.core.device.core;
        let _one = self.core.submission.lock();
        self.core.queue.check()?;
        let (clock, number) = device.ledger.record(self.core.index);
        let (ledger, runner) = (Arc::clone(&device.ledger), Arc::clone(&device.runner));
        let event = Event::new(number, Arc::clone(&self.core.place), clock, ledger, runner);
        let work = Work::Record(event.clone());
        device.runner.submit(&self.core.queue, Operation { name: Arc::from("record"), work });
        Ok(event)
    }

    /// Makes what is submitted next come after an event, on whatever stream
    /// that was recorded. The host does not wait.
    ///
    /// # Errors
    /// The first cause, on a failed stream.
    pub fn wait(&self, awaitable: &impl Awaitable) -> Result<()> {
        let device = &self.core.device.core;
        let event = awaitable.event().clone();
        self.check_set("wait", event.ledger())?;
        let _one = self.core.submission.lock();
        self.core.queue.check()?;
        device.ledger.wait(self.core.index, event.clock());
        let name = Arc::from("wait");
        device.runner.submit(&self.core.queue, Operation { name, work: Work::Wait(event) });
        Ok(())
    }

    /// Copies items between buffers of any two devices.
    ///
    /// # Errors
    /// Different lengths; a hazard; the first cause on a failed stream.
    pub fn copy<'a, 'b, T: Pod>(
        &self,
        source: impl Into<Part<'a, T>>,
        destination: impl Into<PartMut<'b, T>>,
    ) -> Result<()> {
        let (source, destination) = (source.into(), destination.into());
        same_length(source.len(), destination.len())?;
        let from = Place::of_part(&source);
        let to = Place::of_part_mut(&destination);
        let accesses = [
            (Arc::clone(source.allocation), AccessKind::Read),
            (Arc::clone(destination.allocation), AccessKind::Write),
        ];
        self.submit("copy", &accesses, move || {
            // SAFETY: the ledger has ordered this operation alone on the
            // destination and after all writes of the source; lengths are equal
            // and the allocations differ (one write conflicts with any other use).
            unsafe {
                std::ptr::copy_nonoverlapping(from.items::<T>(), to.items::<T>(), from.len())
            };
            Ok(())
        })
    }

    /// Copies items from the host into a buffer.
    ///
    /// # Errors
    /// As [`Stream::copy`].
    pub fn upload<'b, T: Pod + Send + Sync>(
        &self,
        data: impl Into<HostData<T>>,
        destination: impl Into<PartMut<'b, T>>,
    ) -> Result<()> {
        let (data, destination) = (data.into(), destination.into());
        same_length(data.len(), destination.len())?;
        let to = Place::of_part_mut(&destination);
        let accesses = [(Arc::clone(destination.allocation), AccessKind::Write)];
        self.submit("upload", &accesses, move || {
            let items = &data.items[data.range.clone()];
            // SAFETY: ordered alone on the destination, which is as long as `items`.
            unsafe { std::ptr::copy_nonoverlapping(items.as_ptr(), to.items::<T>(), items.len()) };
            Ok(())
        })
    }

    /// A new buffer of this stream's device with these items.
    ///
    /// # Errors
    /// No memory; the first cause on a failed stream.
    pub fn uploaded<T: Pod + Send + Sync>(
        &self,
        data: impl Into<HostData<T>>,
    ) -> Result<DeviceBuffer<T>> {
        let data = data.into();
        let mut buffer = self.core.device.buffer(data.len())?;
        self.upload(data, &mut buffer)?;
        Ok(buffer)
    }

    /// Copies items to the host.
    ///
    /// # Errors
    /// A hazard; the first cause on a failed stream.
    pub fn download<'a, T: Pod + Send>(
        &self,
        source: impl Into<Part<'a, T>>,
    ) -> Result<Download<T>> {
        let source = source.into();
        self.download_place(source.allocation, source.range.clone(), AccessKind::Read)
    }

    /// Copies items of a shared buffer to the host.
    ///
    /// # Errors
    /// A range out of bounds; a kernel that may still change the buffer; the
    /// first cause on a failed stream.
    pub fn download_shared<T: AtomicPod>(
        &self,
        source: &SharedBuffer<T>,
        range: Range<usize>,
    ) -> Result<Download<T>> {
        source.check(&range)?;
        self.download_place(source.allocation(), range, AccessKind::Read)
    }

    /// Copies items from the host into a shared buffer.
    ///
    /// # Errors
    /// As [`Stream::download_shared`]; different lengths.
    pub fn upload_shared<T: AtomicPod>(
        &self,
        data: impl Into<HostData<T>>,
        destination: &SharedBuffer<T>,
        range: Range<usize>,
    ) -> Result<()> {
        destination.check(&range)?;
        let data = data.into();
        same_length(data.len(), range.len())?;
        let to = Place { allocation: Arc::clone(destination.allocation()), range };
        self.submit("upload", &[(to.allocation.clone(), AccessKind::Write)], move || {
            let items = &data.items[data.range.clone()];
            // SAFETY: ordered alone on the destination, which is as long as `items`.
            unsafe { std::ptr::copy_nonoverlapping(items.as_ptr(), to.items::<T>(), items.len()) };
            Ok(())
        })
    }

    /// Sets every item of a part.
    ///
    /// # Errors
    /// A hazard; the first cause on a failed stream.
    pub fn fill<'b, T: Pod + Send>(
        &self,
        destination: impl Into<PartMut<'b, T>>,
        value: T,
    ) -> Result<()> {
        self.fill_place(Place::of_part_mut(&destination.into()), value)
    }

    /// Sets items of a shared buffer.
    ///
    /// # Errors
    /// As [`Stream::download_shared`].
    pub fn fill_shared<T: AtomicPod>(
        &self,
        destination: &SharedBuffer<T>,
        range: Range<usize>,
        value: T,
    ) -> Result<()> {
        destination.check(&range)?;
        self.fill_place(Place { allocation: Arc::clone(destination.allocation()), range }, value)
    }

    fn fill_place<T: Pod + Send>(&self, to: Place, value: T) -> Result<()> {
        let accesses = [(Arc::clone(&to.allocation), AccessKind::Write)];
        self.submit("fill", &accesses, move || {
            // SAFETY: ordered alone on the destination, in range.
            let items = unsafe { std::slice::from_raw_parts_mut(to.items::<T>(), to.len()) };
            items.fill(value);
            Ok(())
        })
    }

    fn download_place<T: Pod + Send>(
        &self,
        allocation: &Arc<Allocation>,
        range: Range<usize>,
        kind: AccessKind,
    ) -> Result<Download<T>> {
        let from = Place { allocation: Arc::clone(allocation), range };
        let items = Arc::new(Mutex::new(Vec::new()));
        let received = Arc::clone(&items);
        self.submit("download", &[(Arc::clone(allocation), kind)], move || {
            // SAFETY: ordered after all writes, in range.
            let source = unsafe { std::slice::from_raw_parts(from.items::<T>(), from.len()) };
            *received.lock() = source.to_vec();
            Ok(())
        })?;
        let event = self.record()?;
        Ok(Download { items, completion: event.completed(), event })
    }

    pub(crate) fn check_set(&self, operation: &str, ledger: &Arc<Ledger>) -> Result<()> {
        if Arc::ptr_eq(ledger, &self.core.device.core.ledger) {
            return Ok(());
        }
        let (operation, device) = (operation.to_string(), self.core.device.name());
        Err(Error::DifferentDeviceSet { operation, device })
    }

    /// Enters an operation in the ledger and queues it.
    pub(crate) fn submit(
        &self,
        name: impl Into<Arc<str>>,
        accesses: &[(Arc<Allocation>, AccessKind)],
        run: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let device = &self.core.device.core;
        let name = name.into();
        for (allocation, _) in accesses {
            self.check_set(&name, &allocation.device.ledger)?;
        }
        let _one = self.core.submission.lock();
        self.core.queue.check()?;
        device.ledger.submit(self.core.index, &self.core.place, &name, accesses)?;
        let (faults, place) = (Arc::clone(&device.faults), Arc::clone(device.name()));
        let operation = Arc::clone(&name);
        let run = Box::new(move || {
            faults.check(&operation, &place)?;
            run()
        });
        device.runner.submit(&self.core.queue, Operation { name, work: Work::Run(run) });
        Ok(())
    }
}

fn same_length(from: usize, to: usize) -> Result<()> {
    if from == to { Ok(()) } else { Err(Error::LengthMismatch { from, to }) }
}

/// Some items of an allocation, held by an operation.
#[derive(Debug)]
pub(crate) struct Place {
    allocation: Arc<Allocation>,
    range: Range<usize>,
}

impl Place {
    pub(crate) fn new(allocation: &Arc<Allocation>, range: Range<usize>) -> Place {
        Place { allocation: Arc::clone(allocation), range }
    }

    fn of_part<T: Pod>(part: &Part<'_, T>) -> Place {
        Place::new(part.allocation, part.range.clone())
    }

    fn of_part_mut<T: Pod>(part: &PartMut<'_, T>) -> Place {
        Place::new(part.allocation, part.range.clone())
    }

    pub(crate) fn items<T: Pod>(&self) -> *mut T {
        self.allocation.items(&self.range)
    }

    pub(crate) fn len(&self) -> usize {
        self.range.len()
    }
}

/// Items on their way to the host: a future of them.
#[must_use = "futures do nothing unless polled"]
pub struct Download<T> {
    items: Arc<Mutex<Vec<T>>>,
    event: Event,
    completion: Completion,
}

impl<T> fmt::Debug for Download<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Download({})", self.event)
    }
}

impl<T> Download<T> {
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
        Ok(std::mem::take(&mut *self.items.lock()))
    }
}

impl<T> Future for Download<T> {
    type Output = Result<Vec<T>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Vec<T>>> {
        let completed = Pin::new(&mut self.completion).poll(context);
        completed.map_ok(|()| std::mem::take(&mut *self.items.lock()))
    }
}
