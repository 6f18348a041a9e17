//! Measures how long copies take, through the streams and events that links use.

use std::time::Instant;

use crate::device::Device;
use crate::device_set::DeviceSet;
use crate::memory::DeviceBuffer;
use crate::stream::{Stream, StreamKind};
use crate::transfer_table::{Transfer, TransferTable, memory_of};
use crate::{Error, Result, cache, transfer_cache};

/// Bytes of the copies.
const SIZES: [usize; 8] =
    [4 << 10, 64 << 10, 256 << 10, 1 << 20, 2 << 20, 4 << 20, 16 << 20, 64 << 20];
/// Bytes of the copies submitted together.
const BATCH: usize = 64 << 20;
/// At most so many copies are submitted together: small ones take no longer when
/// there are more.
const MOST_COPIES: usize = 64;
/// Measurements, of which the median counts.
const BATCHES: usize = 5;
const SINGLES: usize = 15;

/// One memory, with a buffer to copy from and one to copy into.
struct Endpoint {
    name: String,
    device: Device,
    source: DeviceBuffer<u8>,
    destination: DeviceBuffer<u8>,
}

impl DeviceSet {
    /// Measures copies of 4 KiB to 64 MiB within each memory of the set and
    /// between any two, one pair after the other: medians, after a first round
    /// that does not count. Takes 128 MiB in each memory; other work on the
    /// devices falsifies it.
    ///
    /// ```
    /// use millstream_device::{DeviceList, DeviceSet};
    ///
    /// let set = DeviceSet::builder().devices(DeviceList::host(2)).open()?;
    /// let table = set.block_on(set.calibrate())??;
    /// assert!(table.bandwidth("host:0", "host:1", 1 << 20).is_some_and(|rate| rate > 0.0));
    /// # Ok::<(), millstream_device::Error>(())
    /// ```
    ///
    /// # Errors
    /// No memory; a device that fails.
    ///
    /// # Cancel safety
    /// Dropping the future ends the measurement; copies under way are finished.
    pub async fn calibrate(&self) -> Result<TransferTable> {
        let mut endpoints = self.memories()?;
        let mut transfers = Vec::new();
        for from in 0..endpoints.len() {
            for to in 0..endpoints.len() {
                let names = [from, to].map(|place| endpoints[place].name.clone());
                // The GPU's copy engine wherever there is a GPU, as links do.
                let runner = if endpoints[from].name == "host" { to } else { from };
                let stream = endpoints[runner].device.stream_of(StreamKind::Copy)?;
                for bytes in SIZES {
                    let [time_us, latency_us] = match endpoints.get_disjoint_mut([from, to]) {
                        Ok([from, to]) => {
                            measure(&stream, &from.source, &mut to.destination, bytes).await?
                        }
                        Err(_) => {
                            let Endpoint { source, destination, .. } = &mut endpoints[from];
                            measure(&stream, source, destination, bytes).await?
                        }
                    };
                    let [from, to] = names.clone();
                    transfers.push(Transfer { from, to, bytes, time_us, latency_us });
                }
                // Other streams use the buffers next.
                stream.record()?.completed().await?;
            }
        }
        Ok(TransferTable::new(transfers))
    }

    /// Keeps a table on disk, in the folder of `MILLSTREAM_CACHE` or the user's
    /// cache folder, for sets that are opened later with these GPUs and this
    /// driver, or with host devices alone. Says where, or `None` if there is no
    /// such folder.
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

/// Microseconds of a copy among many, and of one alone until it is awaited.
async fn measure(
    stream: &Stream,
    source: &DeviceBuffer<u8>,
    destination: &mut DeviceBuffer<u8>,
    bytes: usize,
) -> Result<[f64; 2]> {
    let copies = (BATCH / bytes).clamp(1, MOST_COPIES);
    let mut medians = [0.0; 2];
    for (median, (copies, rounds)) in medians.iter_mut().zip([(copies, BATCHES), (1, SINGLES)]) {
        let mut times = Vec::with_capacity(rounds);
        // The first one warms up.
        for _ in 0..rounds + 1 {
            let start = Instant::now();
            for _ in 0..copies {
                stream.copy(source.part(0..bytes)?, destination.part_mut(0..bytes)?)?;
            }
            stream.record()?.completed().await?;
            times.push(start.elapsed().as_secs_f64() * 1e6 / copies as f64);
        }
        times.remove(0);
        times.sort_by(f64::total_cmp);
        *median = times[times.len() / 2];
    }
    Ok(medians)
}
