//! Large uploads to GPUs, in packets through pinned memory that many threads fill: from other
//! memory the driver copies with one thread, at a sixth of what the bus takes.

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
use crate::stream::Stream;
use crate::task::{Place, Task};

/// Bytes from which on an upload is large.
const LARGE: usize = 64 << 20;
/// Bytes of a packet, and of what one thread copies of it.
const PACKET: usize = 16 << 20;
const PIECE: usize = 1 << 20;
/// Packets under way.
const PACKETS: usize = 4;
/// How long one may be. A stream may wait for what only the caller will do: then the rest is left
/// to the stream, which need not be waited for.
const PATIENCE: Duration = Duration::from_millis(100);

impl Stream {
    pub(crate) fn upload_place<T: Pod + Send + Sync>(
        &self,
        data: HostData<T>,
        to: Place,
    ) -> Result<()> {
        let is_large = self.device().is_gpu() && size_of_val(data.items()) >= LARGE;
        let done = if is_large { self.upload_in_packets(data.items(), &to)? } else { 0 };
        if done > 0 && done == data.len() {
            return Ok(());
        }
        let data = data.slice(done..data.len())?;
        let to = to.part(done * size_of::<T>()..to.bytes());
        let mut accesses = Accesses::of([to.allocation().access(AccessKind::Write)]);
        self.submit("upload", &mut accesses, Task::Upload { from: Box::new(data), to })
    }

    /// How many items have been read. Fewer than all if there is no pinned memory, or the stream
    /// does not come on.
    fn upload_in_packets<T: Pod + Send + Sync>(&self, items: &[T], to: &Place) -> Result<usize> {
        let most = (PACKET / size_of::<T>()).max(1);
        let mut under_way = VecDeque::new();
        let mut done = 0;
        while done < items.len() && has_room(&mut under_way) {
            let packet: &[u8] = bytemuck::cast_slice(&items[done..items.len().min(done + most)]);
            let Ok(mut pinned) = DeviceBuffer::new_in_host_memory(self.device(), packet.len())
            else {
                break;
            };
            copy_by_all_threads(packet, pinned.host_view_mut()?);
            let from = Place::new::<u8>(pinned.allocation(), &(0..packet.len()));
            let first = done * size_of::<T>();
            let to = to.part(first..first + packet.len());
            let mut accesses = Accesses::of([
                from.allocation().access(AccessKind::Read),
                to.allocation().access(AccessKind::Write),
            ]);
            self.submit("upload", &mut accesses, Task::Copy { from, to })?;
            under_way.push_back(self.record()?);
            done += packet.len() / size_of::<T>();
        }
        Ok(done)
    }
}

/// Copies as many bytes: pages that nobody has touched cost one thread more than the copy.
pub(crate) fn copy_by_all_threads(from: &[u8], to: &mut [u8]) {
    let pieces = to.par_chunks_mut(PIECE).zip(from.par_chunks(PIECE));
    pieces.for_each(|(to, from)| to.copy_from_slice(from));
}

/// Waits until fewer packets are under way than may be; false if that takes too long.
fn has_room(under_way: &mut VecDeque<Event>) -> bool {
    let start = Instant::now();
    while under_way.len() == PACKETS {
        if under_way[0].status() != EventStatus::Pending {
            under_way.pop_front();
        } else if start.elapsed() > PATIENCE {
            return false;
        } else {
            // A packet takes several times as long.
            std::thread::sleep(Duration::from_micros(20));
        }
    }
    true
}
