//! Large uploads to GPUs, in packets through pinned memory that many threads fill. From other
//! memory the driver copies with one thread, at a sixth of what the bus can carry.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytemuck::Pod;
use rayon::prelude::*;

use crate::Result;
use crate::event::{Event, EventStatus};
use crate::host_data::HostData;
use crate::ledger::AccessKind;
use crate::memory::DeviceBuffer;
use crate::parameter::Accesses;
use crate::part::PartMut;
use crate::stream::Stream;
use crate::task::{Place, Task};

/// Uploads of this many bytes or more are large.
const LARGE: usize = 64 << 20;
/// Bytes of a packet, and of the piece of it that one thread copies.
const PACKET: usize = 16 << 20;
const PIECE: usize = 128 << 10;
/// The most packets under way.
const PACKETS: usize = 4;
/// How long one packet may be under way. The stream may be waiting for something that only the
/// caller will do: then the rest is left to the stream, and this does not wait for it.
const PATIENCE: Duration = Duration::from_millis(100);

impl Stream {
    /// Copies items from the host into a buffer, made a part at a time: `make` is given the place of the first
    /// of some and memory for these, and writes all of them. Many threads call it at once, in any order. Large
    /// uploads to a GPU go in packets, as those of [`Stream::upload`] do, so that few of the items are in the
    /// host's memory at once.
    ///
    /// ```
    /// use millstream_device::{DeviceList, DeviceSet};
    ///
    /// let set = DeviceSet::builder().devices(DeviceList::host(1)).build()?;
    /// let (device, stream) = (&set.devices()[0], set.devices()[0].stream()?);
    /// let mut squares = device.buffer::<u64>(4)?;
    /// stream.upload_made(&mut squares, |first, items| {
    ///     (first..).zip(items).for_each(|(at, item)| *item = (at * at) as u64);
    /// })?;
    /// assert_eq!(set.block_on(stream.download(&squares)?)??, [0, 1, 4, 9]);
    /// # Ok::<(), millstream_device::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Stream::upload`].
    pub fn upload_made<'b, T: Pod + Send + Sync>(
        &self,
        destination: impl Into<PartMut<'b, T>>,
        make: impl Fn(usize, &mut [T]) + Sync,
    ) -> Result<()> {
        let destination = destination.into();
        let len = destination.len();
        let to = Place::new::<T>(destination.allocation, &destination.range);
        let done = self.upload_in_packets(len, &to, &make)?;
        if done > 0 && done == len {
            return Ok(());
        }
        let mut rest = vec![T::zeroed(); len - done];
        in_pieces(done, &mut rest, &make);
        self.upload_rest(rest.into(), done, to)
    }

    pub(crate) fn upload_place<T: Pod + Send + Sync>(
        &self,
        data: HostData<T>,
        to: Place,
    ) -> Result<()> {
        let items = data.items();
        let copy = |first: usize, to: &mut [T]| to.copy_from_slice(&items[first..][..to.len()]);
        let done = self.upload_in_packets(items.len(), &to, &copy)?;
        if done > 0 && done == items.len() {
            return Ok(());
        }
        self.upload_rest(data.slice(done..items.len())?, done, to)
    }

    /// Uploads the items behind the first `done` ones.
    fn upload_rest<T: Pod + Send + Sync>(
        &self,
        rest: HostData<T>,
        done: usize,
        to: Place,
    ) -> Result<()> {
        let to = to.part(done * size_of::<T>()..to.bytes());
        let mut accesses = Accesses::of([to.allocation().access(AccessKind::Write)]);
        self.submit("upload", &mut accesses, Task::Upload { from: Box::new(rest), to })
    }

    /// Returns how many of `len` items have been uploaded: fewer than all if they are few or for a
    /// host device, if there is no pinned memory, or if the stream makes no progress.
    fn upload_in_packets<T: Pod + Send + Sync>(
        &self,
        len: usize,
        to: &Place,
        make: &(impl Fn(usize, &mut [T]) + Sync),
    ) -> Result<usize> {
        if !self.device().is_gpu() || len * size_of::<T>() < LARGE {
            return Ok(0);
        }
        let most = (PACKET / size_of::<T>()).max(1);
        let mut under_way = VecDeque::new();
        let mut done = 0;
        while done < len && has_room(&mut under_way) {
            let items = most.min(len - done);
            let Ok(mut pinned) = DeviceBuffer::<T>::new_in_host_memory(self.device(), items) else {
                break;
            };
            in_pieces(done, pinned.host_view_mut()?, make);
            let from = Place::new::<T>(pinned.allocation(), &(0..items));
            let first = done * size_of::<T>();
            let to = to.part(first..first + from.bytes());
            let mut accesses = Accesses::of([
                from.allocation().access(AccessKind::Read),
                to.allocation().access(AccessKind::Write),
            ]);
            self.submit("upload", &mut accesses, Task::Copy(vec![(from, to)]))?;
            under_way.push_back(self.record()?);
            done += items;
        }
        Ok(done)
    }
}

/// Makes items, from number `first` on, with all threads.
fn in_pieces<T: Send>(first: usize, items: &mut [T], make: &(impl Fn(usize, &mut [T]) + Sync)) {
    let most = (PIECE / size_of::<T>().max(1)).max(1);
    let pieces = items.par_chunks_mut(most).enumerate();
    pieces.for_each(|(piece, items)| make(first + most * piece, items));
}

/// Copies bytes with all threads; both slices have the same length. Touching new pages costs a
/// single thread more than the copy.
pub(crate) fn copy_by_all_threads(from: &[u8], to: &mut [u8]) {
    let pieces = to.par_chunks_mut(PIECE).zip(from.par_chunks(PIECE));
    pieces.for_each(|(to, from)| to.copy_from_slice(from));
}

/// Waits until there is room for another packet under way; false if that takes too long.
fn has_room(under_way: &mut VecDeque<Event>) -> bool {
    let start = Instant::now();
    while under_way.len() == PACKETS {
        if under_way[0].status() != EventStatus::Pending {
            under_way.pop_front();
        } else if start.elapsed() > PATIENCE {
            return false;
        } else {
            // A short sleep: a packet takes several times as long.
            std::thread::sleep(Duration::from_micros(20));
        }
    }
    true
}
