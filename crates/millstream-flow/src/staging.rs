//! Pinned memory of the host through which packets go: between devices that do not reach each
//! other's memory \[G §2.1\], and from memory of the program to GPUs, whose engines read pinned
//! memory only. The driver would copy the latter on the thread that submits.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use millstream_device::{Device, DeviceBuffer, Event, Stream, StreamKind};
use parking_lot::Mutex;

use crate::{Item, Result};

/// Threads of the host that copy the program's memory to one destination at once.
const FILLING: usize = 4;

/// Buffers for the program's memory at most; each has two streams.
const MOST_FOR_HOST_DATA: usize = 16;

/// A buffer of the host, and the lanes from it to the destination, one of them for small messages.
/// A packet on its way out of the buffer waits for its way in, and for nothing else.
#[derive(Debug)]
pub(crate) struct Staging<T: Item> {
    buffer: DeviceBuffer<T>,
    lane: Stream,
    small: Stream,
}

impl<T: Item> Staging<T> {
    /// The buffer, and the lane out of it.
    pub(crate) fn second_way(&mut self, is_small: bool) -> (&mut DeviceBuffer<T>, &Stream) {
        (&mut self.buffer, if is_small { &self.small } else { &self.lane })
    }
}

/// The staging buffers of one destination: as many as packets were under way at once, but at most
/// one for each of its packet buffers, and as many again for the program's memory.
pub(crate) struct StagingPool<T: Item> {
    host: Device,
    device: Device,
    packet_items: usize,
    free: Mutex<Vec<Staging<T>>>,
    /// The host's streams that fill buffers from the program's memory, once they have been asked
    /// for; `None` if they could not be made.
    filling: OnceLock<Option<[Stream; FILLING]>>,
    /// The number of copies submitted to these streams.
    fillings: AtomicUsize,
}

impl<T: Item> fmt::Debug for StagingPool<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "StagingPool({})", self.device)
    }
}

impl<T: Item> StagingPool<T> {
    pub(crate) fn new(host: &Device, device: &Device, packet_items: usize) -> StagingPool<T> {
        let (host, device) = (host.clone(), device.clone());
        let (free, filling) = (Mutex::default(), OnceLock::new());
        let fillings = AtomicUsize::new(0);
        StagingPool { host, device, packet_items, free, filling, fillings }
    }

    /// Makes buffers.
    ///
    /// # Errors
    /// No memory is left.
    pub(crate) fn prepare(&self, count: usize) -> Result<()> {
        let missing = count.saturating_sub(self.free.lock().len());
        let made = (0..missing).map(|_| self.make()).collect::<Result<Vec<_>>>()?;
        self.free.lock().extend(made);
        Ok(())
    }

    /// The first time, makes buffers for the program's memory and streams that copy it there:
    /// pinning takes as long as copying many packets. If there is no memory, that is no error: the
    /// driver copies then.
    pub(crate) fn prepare_for_host_data(&self, count: usize) {
        self.filling.get_or_init(|| self.prepare_filling(count.min(MOST_FOR_HOST_DATA)).ok());
    }

    fn prepare_filling(&self, count: usize) -> Result<[Stream; FILLING]> {
        self.prepare(count)?;
        let stream = || self.host.stream_of(StreamKind::Copy);
        Ok([stream()?, stream()?, stream()?, stream()?])
    }

    /// A buffer for the program's memory; `None` if all are in use, or none were made.
    pub(crate) fn take_prepared(&self) -> Option<Staging<T>> {
        self.filling.get()?.as_ref()?;
        self.free.lock().pop()
    }

    /// The stream for the next copy out of the program's memory.
    pub(crate) fn filling(&self) -> Option<&Stream> {
        // Relaxed: any order of the streams will do.
        let turn = self.fillings.fetch_add(1, Ordering::Relaxed);
        self.filling.get()?.as_ref().map(|streams| &streams[turn % FILLING])
    }

    /// A free buffer, or else a new one.
    pub(crate) fn take(&self) -> Result<Staging<T>> {
        match self.free.lock().pop() {
            Some(staging) => Ok(staging),
            None => self.make(),
        }
    }

    fn make(&self) -> Result<Staging<T>> {
        let label = format!("staging buffer of {}", self.device);
        let buffer = self.host.buffer_to_overwrite(self.packet_items)?.with_label(label);
        let lane = self.device.stream_of(StreamKind::Copy)?;
        Ok(Staging { buffer, lane, small: self.device.stream_of(StreamKind::SmallCopy)? })
    }

    /// Takes back a buffer whose last use was over at `event`.
    pub(crate) fn give_back(&self, staging: Staging<T>, event: &Event) {
        staging.buffer.retire(event);
        self.free.lock().push(staging);
    }
}
