//! Streams: in-order queues of a device's operations.

mod failure_listener;
mod shared_copies;
mod with_event;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;
use parking_lot::{Mutex, MutexGuard};

pub use self::failure_listener::FailureListener;
use crate::backend::{Backend, OpenStream, Submitted};
use crate::device::Device;
use crate::download::Download;
use crate::event::{Awaitable, Completion, Event};
use crate::host_data::HostData;
use crate::ledger::{AccessKind, Given, Ledger, StreamIndex};
use crate::memory::{Allocation, DeviceBuffer};
use crate::needs_host::NeedsHost;
use crate::parameter::Accesses;
use crate::part::{Part, PartMut, same_length};
use crate::shared::{AtomicPod, SharedBuffer};
use crate::stream_kind::StreamKind;
use crate::task::{Place, Submitting, Task};
use crate::{Error, Result};

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
    backend: Backend,
    /// Held from an operation's entry in the ledger until it is queued, so that both happen in the
    /// same order.
    submission: Mutex<Given>,
}

/// An operation that has been entered in the ledger. To be dropped once its device has been given
/// the operation.
#[must_use]
struct Entered<'a> {
    given: MutexGuard<'a, Given>,
    sequence: u64,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.given.set(self.sequence);
    }
}

impl Drop for StreamCore {
    fn drop(&mut self) {
        // The place in the clocks becomes free when the operations are over.
        let open = OpenStream { ledger: Arc::clone(&self.device.core.ledger), index: self.index };
        self.backend.close(&self.device, open);
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Stream({})", self.core.place)
    }
}

impl Stream {
    /// A stream of a kind. A gang's stream may be told which turn of its GPU's lanes to take.
    pub(crate) fn new(device: Device, kind: StreamKind, turn: Option<usize>) -> Result<Stream> {
        let (index, given) = device.core.ledger.open_stream();
        let place: Arc<str> = format!("{device} {kind} stream {index}").into();
        let backend = Backend::new(&device, (kind, turn), &place, index)
            .inspect_err(|_| device.core.ledger.close_stream(index))?;
        let submission = Mutex::new(given);
        Ok(Stream {
            core: Arc::new(StreamCore { device, kind, index, place, backend, submission }),
        })
    }

    /// What is submitted from now on may end only after what the host submits later, such as a kernel
    /// that waits for packets, until that is dropped: when it has ended. Meanwhile other streams that
    /// wait for something behind it hold up no others of their lane, and go on when the host has heard
    /// of it.
    #[doc(hidden)]
    pub fn need_host(&self) -> NeedsHost {
        self.core.backend.need_host()
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

    /// What errors call the stream.
    pub(crate) fn place(&self) -> &str {
        &self.core.place
    }

    /// Whether everything that was submitted has gone well so far.
    ///
    /// # Errors
    /// The first cause, on a failed stream.
    pub fn check(&self) -> Result<()> {
        self.core.backend.check()
    }

    /// Records an event: complete when everything submitted so far is.
    ///
    /// # Errors
    /// The first cause, on a failed stream.
    pub fn record(&self) -> Result<Event> {
        self.record_with(Backend::record)
    }

    /// Completes when everything submitted so far is over. It is like an [event](Stream::record)
    /// that only the host can wait for, and takes GPUs less time.
    ///
    /// ```
    /// use millstream_device::{DeviceList, DeviceSet};
    ///
    /// let set = DeviceSet::builder().devices(DeviceList::host(1)).build()?;
    /// let stream = set.devices()[0].stream()?;
    /// let buffer = stream.uploaded(vec![1_u32, 2, 3])?;
    /// set.block_on(stream.completed()?)??;
    /// assert!(buffer.in_flight().is_none());
    /// # Ok::<(), millstream_device::Error>(())
    /// ```
    ///
    /// # Errors
    /// The first cause, on a failed stream; and when it resolves, if an operation before failed.
    ///
    /// # Cancel safety
    /// Cancel safe.
    ///
    /// # Device ordering
    /// When it resolves, what host code does next comes after everything submitted before.
    pub fn completed(&self) -> Result<Completion> {
        self.record_with(Backend::end).map(|event| event.completed())
    }

    /// As [`Stream::completed`], also on a stream that has failed, where what had begun before may
    /// still run.
    ///
    /// # Errors
    /// The driver's refusal.
    #[doc(hidden)]
    pub fn over(&self) -> Result<Completion> {
        let (event, submitted) = {
            let _one = self.core.submission.lock();
            self.submit_event(Backend::end)
        };
        submitted.finish().map(|()| event.completed())
    }

    /// Records an event in one of the backend's ways.
    fn record_with(
        &self,
        record: impl FnOnce(&Backend, &Device, Event) -> Submitted,
    ) -> Result<Event> {
        let (event, submitted) = {
            let _one = self.core.submission.lock();
            self.core.backend.check()?;
            self.submit_event(record)
        };
        submitted.finish().map(|()| event)
    }

    /// Must be called with the lock of submissions.
    fn submit_event(
        &self,
        record: impl FnOnce(&Backend, &Device, Event) -> Submitted,
    ) -> (Event, Submitted) {
        let event = self.new_event();
        (event.clone(), record(&self.core.backend, &self.core.device, event))
    }

    /// An event after everything in the ledger; nothing completes it yet.
    fn new_event(&self) -> Event {
        let device = &self.core.device.core;
        let (clock, number) = device.ledger.record(self.core.index);
        let (ledger, runner) = (Arc::clone(&device.ledger), Arc::clone(&device.runner));
        Event::new(number, Arc::clone(&self.core.place), clock, ledger, runner)
    }

    /// Makes what is submitted next come after an event, whatever stream that event was recorded
    /// on. The host does not wait.
    ///
    /// The streams of a GPU share [a few lanes](StreamKind) of each kind. A stream holds up no
    /// other stream while it waits for something that the *host* completes (a
    /// [`Promise`](crate::Promise) or the end of a host device's kernel), or for a kernel that
    /// itself waits for the host. A stream that waits for anything else of a GPU may hold up others
    /// in its lane until then.
    ///
    /// # Errors
    /// [`Error::DifferentDeviceSet`] for an event of another set; the first cause, on a failed stream.
    pub fn wait(&self, awaitable: &impl Awaitable) -> Result<()> {
        let event = awaitable.event().clone();
        self.check_set("wait", event.ledger())?;
        let submitted = {
            let _one = self.core.submission.lock();
            self.core.backend.check()?;
            self.core.device.core.ledger.wait(self.core.index, event.clock());
            self.core.backend.wait(&self.core.device, event)
        };
        submitted.finish()
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
        self.copy_each([(source.into(), destination.into())])
    }

    /// Copies items between several buffers, in any order. On a GPU they are one operation, and with a
    /// driver for CUDA 13.0 or later take less time than copies one by one, between which its engine pauses for
    /// microseconds.
    ///
    /// ```
    /// use millstream_device::{DeviceList, DeviceSet};
    ///
    /// let set = DeviceSet::builder().devices(DeviceList::host(1)).build()?;
    /// let stream = set.devices()[0].stream()?;
    /// let source = stream.uploaded(vec![1_u32, 2, 3, 4])?;
    /// let [mut low, mut high] = [set.host().buffer(2)?, set.host().buffer(2)?];
    /// let to_low = (source.part(0..2)?, (&mut low).into());
    /// stream.copy_each([to_low, (source.part(2..4)?, (&mut high).into())])?;
    /// stream.record()?.synchronize()?;
    /// assert_eq!((low.host_view()?[1], high.host_view()?[0]), (2, 3));
    /// # Ok::<(), millstream_device::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Stream::copy`], also if one of the copies writes a buffer that another one uses; nothing is
    /// submitted then.
    pub fn copy_each<'a, 'b, T: Pod>(
        &self,
        copies: impl IntoIterator<Item = (Part<'a, T>, PartMut<'b, T>)>,
    ) -> Result<()> {
        let places = copies.into_iter().map(|(source, destination)| {
            same_length(source.len(), destination.len())?;
            let from = Place::new::<T>(source.allocation, &source.range);
            Ok((from, Place::new::<T>(destination.allocation, &destination.range)))
        });
        self.copy_places(places.collect::<Result<_>>()?)
    }

    /// Copies items from the host into a buffer. An upload of 64 MiB or more to a GPU goes in
    /// packets through pinned memory, which the calling thread and others fill meanwhile. If a
    /// packet has been under way for 100 ms, because the stream is waiting for something, the
    /// stream does the rest by itself.
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
        let to = Place::new::<T>(destination.allocation, &destination.range);
        self.upload_place(data, to)
    }

    /// A new buffer of this stream's device with these items. On host devices, items that are only
    /// read need not be copied: see [`Stream::lent`].
    ///
    /// # Errors
    /// No memory; the first cause on a failed stream.
    pub fn uploaded<T: Pod + Send + Sync>(
        &self,
        data: impl Into<HostData<T>>,
    ) -> Result<DeviceBuffer<T>> {
        let data = data.into();
        let mut buffer = self.core.device.buffer_to_overwrite(data.len())?;
        self.upload(data, &mut buffer)?;
        Ok(buffer)
    }

    /// Copies items to the host.
    ///
    /// # Errors
    /// A hazard; no memory of the host; the first cause on a failed stream.
    pub fn download<'a, T: Pod + Send>(
        &self,
        source: impl Into<Part<'a, T>>,
    ) -> Result<Download<T>> {
        let source = source.into();
        self.download_place(source.allocation, &source.range)
    }

    fn copy_places(&self, places: Vec<(Place, Place)>) -> Result<()> {
        let mut accesses = Accesses::default();
        for (place, kind) in
            places.iter().flat_map(|(from, to)| [(from, AccessKind::Read), (to, AccessKind::Write)])
        {
            let (allocation, kind) = place.allocation().access(kind);
            accesses.add(&allocation, kind);
        }
        self.submit("copy", &mut accesses, Task::Copy(places))
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
        let destination = destination.into();
        self.fill_place(Place::new::<T>(destination.allocation, &destination.range), value)
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
        self.fill_place(Place::new::<T>(destination.allocation(), &range), value)
    }

    /// Stores values in words when everything submitted before is done, and visible to
    /// whoever acquires a value. What the words say orders nothing in the ledger.
    ///
    /// ```
    /// # use millstream_device::{DeviceList, DeviceSet};
    /// let set = DeviceSet::builder().devices(DeviceList::host(1)).build()?;
    /// let (word, stream) = (set.host().shared::<u32>(1)?, set.devices()[0].stream()?);
    /// stream.signal(&[(&word, 0, 5)])?;
    /// stream.record()?.synchronize()?;
    /// assert_eq!(word.load(0)?, 5);
    /// # Ok::<(), millstream_device::Error>(())
    /// ```
    ///
    /// # Errors
    /// An index out of range; memory out of reach; the first cause on a failed stream.
    pub fn signal(&self, words: &[(&SharedBuffer<u32>, usize, u32)]) -> Result<()> {
        let (mut accesses, task) = Task::signal(words)?;
        self.submit("signal", &mut accesses, task)
    }

    /// Whether [`Stream::signal`] can store in these words; nothing is submitted.
    ///
    /// # Errors
    /// An index out of range; memory out of reach.
    pub fn check_signal(&self, words: &[(&SharedBuffer<u32>, usize, u32)]) -> Result<()> {
        let (accesses, task) = Task::signal(words)?;
        self.check_accesses("signal", &accesses, &task)
    }

    fn fill_place<T: Pod + Send>(&self, to: Place, value: T) -> Result<()> {
        let mut accesses = Accesses::of([to.allocation().access(AccessKind::Write)]);
        let pattern = bytemuck::bytes_of(&value).to_vec();
        self.submit("fill", &mut accesses, Task::Fill { to, pattern })
    }

    fn download_place<T: Pod + Send>(
        &self,
        allocation: &Arc<Allocation>,
        range: &Range<usize>,
    ) -> Result<Download<T>> {
        let staging = DeviceBuffer::new_in_host_memory(&self.core.device, range.len())?;
        let from = Place::new::<T>(allocation, range);
        let to = Place::new::<T>(staging.allocation(), &(0..range.len()));
        let mut accesses = Accesses::of([
            allocation.access(AccessKind::Read),
            staging.allocation().access(AccessKind::Write),
        ]);
        self.submit("download", &mut accesses, Task::Copy(vec![(from, to)]))?;
        Ok(Download::new(staging, self.record()?))
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
        accesses: &mut Accesses,
        task: Task,
    ) -> Result<()> {
        self.submit_by(name.into(), accesses, task, Submitting::Caller)
    }

    /// The same, with the choice of who gives it to the driver.
    pub(crate) fn submit_by(
        &self,
        name: Arc<str>,
        accesses: &mut Accesses,
        task: Task,
        submitting: Submitting,
    ) -> Result<()> {
        self.submit_without_end(name, accesses, task, submitting)?.finish()
    }

    /// The same, but returns what is left to do after the submission.
    pub(crate) fn submit_without_end(
        &self,
        name: Arc<str>,
        accesses: &mut Accesses,
        task: Task,
        submitting: Submitting,
    ) -> Result<Submitted> {
        self.core.backend.prepare(&task, submitting)?;
        let _entered = self.enter(&name, accesses, &task)?;
        Ok(self.core.backend.submit(&self.core.device, name, task, submitting))
    }

    /// Enters an operation in the ledger. Nothing else is submitted until its device has been given it.
    fn enter(&self, name: &Arc<str>, accesses: &mut Accesses, task: &Task) -> Result<Entered<'_>> {
        let device = &self.core.device.core;
        self.check_accesses(name, accesses, task)?;
        let given = self.core.submission.lock();
        self.core.backend.check()?;
        let (index, place) = (self.core.index, &self.core.place);
        let sequence = device.ledger.submit(index, place, name, &accesses.list)?;
        accesses.end();
        Ok(Entered { given, sequence })
    }

    fn check_accesses(&self, name: &str, accesses: &Accesses, task: &Task) -> Result<()> {
        accesses.list.iter().try_for_each(|(allocation, _)| {
            self.check_set(name, &allocation.device.ledger)?;
            self.core.device.core.check_reach(task, allocation)
        })
    }
}
