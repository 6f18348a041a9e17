//! Measures how long transfers take through the streams and events that links use.

use std::time::Instant;

use crate::device::Device;
use crate::device_set::DeviceSet;
use crate::event::{Completion, Event};
use crate::memory::DeviceBuffer;
use crate::part::{Part, PartMut};
use crate::stream::Stream;
use crate::stream_kind::StreamKind;
use crate::transfer_table::{Transfer, TransferTable, memory_of};
use crate::transfer_way::TransferWay;
use crate::{Error, Result, cache, transfer_cache};

/// Bytes of the copies.
const SIZES: [usize; 8] =
    [4 << 10, 64 << 10, 256 << 10, 1 << 20, 2 << 20, 4 << 20, 16 << 20, 64 << 20];
/// Bytes of the copies submitted together.
const BATCH: usize = 64 << 20;
/// The most copies submitted together: with more, small ones take no longer.
const MOST_COPIES: usize = 64;
/// Number of measurements, of which the median is taken.
const BATCHES: usize = 5;
const SINGLES: usize = 15;

/// A memory, with a buffer to copy from and one to copy into.
struct Endpoint {
    name: String,
    device: Device,
    source: DeviceBuffer<u8>,
    destination: DeviceBuffer<u8>,
}

impl DeviceSet {
    /// Measures transfers of 4 KiB to 64 MiB within each memory of the set and between any two, on
    /// every [way](TransferWay) that exists there, one pair after the other. Results are medians,
    /// after a first round that does not count. It takes 128 MiB in each memory and twice as much
    /// in the host's; other work on the devices falsifies it.
    ///
    /// ```
    /// use millstream_device::{DeviceList, DeviceSet, TransferWay};
    ///
    /// let set = DeviceSet::builder().devices(DeviceList::host(2)).build()?;
    /// let table = set.block_on(set.calibrate())??;
    /// let rate = table.bandwidth(TransferWay::Copy, "host:0", "host:1", 1 << 20);
    /// assert!(rate.is_some_and(|rate| rate > 0.0));
    /// # Ok::<(), millstream_device::Error>(())
    /// ```
    ///
    /// # Errors
    /// No memory; a device that fails.
    ///
    /// # Cancel safety
    /// Dropping the future ends the measurement; transfers under way are finished.
    pub async fn calibrate(&self) -> Result<TransferTable> {
        let mut endpoints = self.memories()?;
        let mut transfers = Vec::new();
        for from in 0..endpoints.len() {
            for to in 0..endpoints.len() {
                let [one, other] = [from, to].map(|place| endpoints[place].device.clone());
                let names = [from, to].map(|place| endpoints[place].name.clone());
                for way in TransferWay::ALL {
                    let Some(mut route) = self.route(way, &one, &other)? else { continue };
                    for bytes in SIZES {
                        let (source, destination) = match endpoints.get_disjoint_mut([from, to]) {
                            Ok([from, to]) => (&from.source, &mut to.destination),
                            Err(_) => {
                                let Endpoint { source, destination, .. } = &mut endpoints[from];
                                (&*source, destination)
                            }
                        };
                        let times = measure(&mut route, source, destination, bytes).await?;
                        let ([time_us, latency_us], [from, to]) = (times, names.clone());
                        transfers.push(Transfer { from, to, way, bytes, time_us, latency_us });
                    }
                }
            }
        }
        Ok(TransferTable::new(transfers))
    }

    /// A way from one memory to another; `None` if these two do not have it.
    fn route(&self, way: TransferWay, from: &Device, to: &Device) -> Result<Option<Route>> {
        let launches = |device: &Device| device.prepare_copies_by_kernel().is_ok();
        let is_there = match way {
            TransferWay::Copy => true,
            TransferWay::Push => from.reaches(to) && launches(from),
            // Only between GPUs: otherwise, the host's memory is an end of the transfer.
            TransferWay::Host => {
                from != to && from.is_gpu() && to.is_gpu() && launches(from) && launches(to)
            }
        };
        if !is_there {
            return Ok(None);
        }
        // If either is a GPU, its copy engine copies, as in links.
        let copies = way == TransferWay::Copy && !from.is_gpu();
        let first = if copies { to } else { from }.stream_of(StreamKind::Copy)?;
        // If the other's memory is out of reach, links copy through the host's.
        if way != TransferWay::Host && !from.copies_through_host(to) {
            return Ok(Some(Route { way, first, second: None }));
        }
        let between = || Ok(Between { buffer: self.host().buffer(BATCH)?, free_after: None });
        let second = (to.stream_of(StreamKind::Copy)?, [between()?, between()?]);
        Ok(Some(Route { way, first, second: Some(second) }))
    }

    /// Keeps a table on disk, in the folder of `MILLSTREAM_CACHE` or the user's cache folder, for
    /// sets that are opened later with these GPUs and this driver, or with host devices alone.
    /// Returns the file's path, or `None` if there is no such folder.
    ///
    /// # Errors
    /// [`Error::Cache`] if the file cannot be written; nothing is left
    /// half-written.
    pub fn keep_transfer_table(&self, table: &TransferTable) -> Result<Option<std::path::PathBuf>> {
        let Some(folder) = cache::folder() else {
            return Ok(None);
        };
        let machine = self.machine()?;
        transfer_cache::store(&folder, &machine, table).map(Some).map_err(|error| Error::Cache {
            folder: folder.display().to_string(),
            reason: error.to_string(),
        })
    }

    /// The host's memory and that of each GPU, once.
    fn memories(&self) -> Result<Vec<Endpoint>> {
        let mut endpoints: Vec<Endpoint> = Vec::new();
        for device in [self.host()].into_iter().chain(self.devices()) {
            let name = memory_of(&device.name()).to_string();
            if !endpoints.iter().any(|endpoint| endpoint.name == name) {
                let device = device.clone();
                let [source, destination] = [device.buffer(BATCH)?, device.buffer(BATCH)?];
                endpoints.push(Endpoint { name, device, source, destination });
            }
        }
        Ok(endpoints)
    }
}

/// One way from one memory to another.
struct Route {
    way: TransferWay,
    first: Stream,
    /// The stream and buffers for the way out of the host's memory, if that lies in between.
    second: Option<(Stream, [Between; 2])>,
}

/// A buffer in the host's memory on the way.
struct Between {
    buffer: DeviceBuffer<u8>,
    free_after: Option<Event>,
}

impl Route {
    /// Submits one transfer.
    fn submit(
        &mut self,
        source: &DeviceBuffer<u8>,
        destination: &mut DeviceBuffer<u8>,
        bytes: usize,
    ) -> Result<()> {
        let (source, destination) = (source.part(0..bytes)?, destination.part_mut(0..bytes)?);
        let Some((second, buffers)) = &mut self.second else {
            return copy(self.way, &self.first, source, destination);
        };
        let [Between { buffer, free_after }, _] = buffers;
        if let Some(event) = free_after {
            self.first.wait(event)?;
        }
        copy(self.way, &self.first, source, buffer.part_mut(0..bytes)?)?;
        second.wait(&self.first.record()?)?;
        copy(self.way, second, buffer.part(0..bytes)?, destination)?;
        *free_after = Some(second.record()?);
        buffers.swap(0, 1);
        Ok(())
    }

    /// Completes after all transfers submitted so far.
    fn completed(&self) -> Result<Completion> {
        self.second.as_ref().map_or(&self.first, |(second, _)| second).completed()
    }
}

fn copy(way: TransferWay, stream: &Stream, from: Part<'_, u8>, to: PartMut<'_, u8>) -> Result<()> {
    match way {
        TransferWay::Copy => stream.copy(from, to),
        _ => stream.copy_by_kernel(from, to),
    }
}

/// Microseconds of a transfer among many, and of a single one until it has been awaited.
async fn measure(
    route: &mut Route,
    source: &DeviceBuffer<u8>,
    destination: &mut DeviceBuffer<u8>,
    bytes: usize,
) -> Result<[f64; 2]> {
    let transfers = (BATCH / bytes).clamp(1, MOST_COPIES);
    let mut medians = [0.0; 2];
    for (median, (transfers, rounds)) in
        medians.iter_mut().zip([(transfers, BATCHES), (1, SINGLES)])
    {
        let mut times = Vec::with_capacity(rounds);
        // The first one warms up.
        for _ in 0..rounds + 1 {
            let start = Instant::now();
            for _ in 0..transfers {
                route.submit(source, destination, bytes)?;
            }
            route.completed()?.await?;
            times.push(start.elapsed().as_secs_f64() * 1e6 / transfers as f64);
        }
        times.remove(0);
        times.sort_by(f64::total_cmp);
        *median = times[times.len() / 2];
    }
    Ok(medians)
}
