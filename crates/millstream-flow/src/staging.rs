//! Memory of the host through which packets go between devices that do not reach
//! each other's memory \[G §2.1\].

use std::fmt;

use millstream_device::{Device, DeviceBuffer, Event, Stream, StreamKind};
use parking_lot::Mutex;

use crate::{Item, Result};

/// A buffer of the host, and lanes from it to the destination, one of them for small
/// messages: a packet on its second way waits for its first one and for nothing else.
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

/// The staging buffers of one destination: as many as packets were under way at
/// once, at most one for each of its packet buffers.
pub(crate) struct StagingPool<T: Item> {
    host: Device,
    device: Device,
    packet_items: usize,
    free: Mutex<Vec<Staging<T>>>,
}

impl<T: Item> fmt::Debug for StagingPool<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "StagingPool({})", self.device)
    }
}

impl<T: Item> StagingPool<T> {
    pub(crate) fn new(host: &Device, device: &Device, packet_items: usize) -> StagingPool<T> {
        let (host, device) = (host.clone(), device.clone());
        StagingPool { host, device, packet_items, free: Mutex::new(Vec::new()) }
    }

    /// A buffer that nothing uses.
    pub(crate) fn take(&self) -> Result<Staging<T>> {
        if let Some(staging) = self.free.lock().pop() {
            return Ok(staging);
        }
        let label = format!("staging buffer of {}", self.device);
        let buffer = self.host.buffer(self.packet_items)?.with_label(label);
        let lane = self.device.stream_of(StreamKind::Copy)?;
        Ok(Staging { buffer, lane, small: self.device.stream_of(StreamKind::SmallCopy)? })
    }

    /// Gives a buffer back whose last use was over at `event`.
    pub(crate) fn give_back(&self, staging: Staging<T>, event: &Event) {
        staging.buffer.retire(event);
        self.free.lock().push(staging);
    }
}
