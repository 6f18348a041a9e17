//! The values of the vertices that devices own, on the host.

use millstream_device::{DeviceBuffer, Download, Pod};
use millstream_graph::Partition;

use crate::Result;

/// A value of each vertex, from the device that owns it, in the host's memory. The values stay where the
/// downloads have left them, so that one pass both orders them and copies them to the program's memory.
///
/// ```
/// use millstream_flow::{Context, Devices};
/// use millstream_graph::Partition;
/// use millstream_traversal::internals::OwnedValues;
///
/// let context = Context::builder().devices(Devices::host(2)).build()?;
/// let odd_and_even = Partition::from_parts(2, &[1, 0, 1, 0])?;
/// // By new id: vertices 1, 3, 0 and 2.
/// let mut downloads = Vec::new();
/// for (device, values) in context.devices().iter().zip([vec![10, 30], vec![0, 20]]) {
///     let stream = device.stream()?;
///     downloads.push(stream.download(&stream.uploaded(values)?)?);
/// }
/// let restored = context.block_on(async {
///     let values = OwnedValues::arrived(&odd_and_even, downloads).await?;
///     values.restored(|new, value: u32| value + new)
/// })??;
/// assert_eq!(restored, [2, 10, 23, 31]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct OwnedValues<'a, T: Pod> {
    partition: &'a Partition,
    parts: Vec<DeviceBuffer<T>>,
}

impl<'a, T: Pod + Send + Sync> OwnedValues<'a, T> {
    /// Waits for the values of each part, in the order of their new ids.
    ///
    /// # Errors
    /// A device failed.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    ///
    /// # Device ordering
    /// When it resolves, host code comes after the copies.
    pub async fn arrived(
        partition: &'a Partition,
        downloads: Vec<Download<T>>,
    ) -> Result<OwnedValues<'a, T>> {
        let mut parts = Vec::with_capacity(downloads.len());
        for its in downloads {
            parts.push(its.arrived().await?);
        }
        Ok(OwnedValues { partition, parts })
    }

    /// What `map` makes of each vertex's new id and value, by original id.
    ///
    /// # Errors
    /// A device failed since.
    ///
    /// # Panics
    /// If a part has fewer values than vertices.
    pub fn restored<R: Send>(&self, map: impl Fn(u32, T) -> R + Send + Sync) -> Result<Vec<R>> {
        let views = self.parts.iter().map(DeviceBuffer::host_view);
        let views = views.collect::<Result<Vec<_>, _>>()?;
        let boundaries = self.partition.boundaries();
        let later = &boundaries[1..views.len()];
        Ok(self.partition.restore_with(|new| {
            // A count, not a binary search: there are few parts, and this is the whole cost of the loop.
            let owner = later.iter().map(|&boundary| usize::from(boundary <= new)).sum::<usize>();
            map(new, views[owner][(new - boundaries[owner]) as usize])
        }))
    }
}
