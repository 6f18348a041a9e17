//! Copies from and to shared buffers.

use std::ops::Range;

use super::Stream;
use crate::Result;
use crate::download::Download;
use crate::host_data::HostData;
use crate::part::{Part, PartMut, same_length};
use crate::shared::{AtomicPod, SharedBuffer};
use crate::task::Place;

impl Stream {
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
        self.download_place(source.allocation(), &range)
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
        self.upload_place(data, Place::new::<T>(destination.allocation(), &range))
    }

    /// Copies items into a shared buffer.
    ///
    /// ```
    /// # use millstream_device::{DeviceList, DeviceSet};
    /// let set = DeviceSet::builder().devices(DeviceList::host(1)).build()?;
    /// let stream = set.devices()[0].stream()?;
    /// let (items, shared) = (stream.uploaded(vec![7_u32, 8])?, set.devices()[0].shared(3)?);
    /// stream.copy_to_shared(&items, &shared, 1..3)?;
    /// assert_eq!(set.block_on(stream.download_shared(&shared, 0..3)?)??, [0, 7, 8]);
    /// # Ok::<(), millstream_device::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Stream::download_shared`]; different lengths.
    pub fn copy_to_shared<'a, T: AtomicPod>(
        &self,
        source: impl Into<Part<'a, T>>,
        destination: &SharedBuffer<T>,
        range: Range<usize>,
    ) -> Result<()> {
        destination.check(&range)?;
        let source = source.into();
        same_length(source.len(), range.len())?;
        let from = Place::new::<T>(source.allocation, &source.range);
        self.copy_places(vec![(from, Place::new::<T>(destination.allocation(), &range))])
    }

    /// Copies items of a shared buffer. Kernels that change them are over before, by the order of
    /// streams; what this stream is given next has the copies.
    ///
    /// ```
    /// # use millstream_device::{DeviceList, DeviceSet};
    /// let set = DeviceSet::builder().devices(DeviceList::host(1)).build()?;
    /// let (device, stream) = (&set.devices()[0], set.devices()[0].stream()?);
    /// let (shared, mut items) = (device.shared(3)?, device.buffer(2)?);
    /// stream.upload_shared(vec![7_u32, 8, 9], &shared, 0..3)?;
    /// stream.copy_from_shared(&shared, 1..3, &mut items)?;
    /// assert_eq!(set.block_on(stream.download(&items)?)??, [8, 9]);
    /// # Ok::<(), millstream_device::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Stream::download_shared`]; different lengths.
    pub fn copy_from_shared<'a, T: AtomicPod>(
        &self,
        source: &SharedBuffer<T>,
        range: Range<usize>,
        destination: impl Into<PartMut<'a, T>>,
    ) -> Result<()> {
        source.check(&range)?;
        let destination = destination.into();
        same_length(range.len(), destination.len())?;
        let from = Place::new::<T>(source.allocation(), &range);
        self.copy_places(vec![(from, Place::new::<T>(destination.allocation, &destination.range))])
    }
}
