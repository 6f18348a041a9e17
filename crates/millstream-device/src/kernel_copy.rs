//! Copies by kernels instead of copy engines \[G §2.1\]: a device pushes into memory that it
//! reaches, or pulls from it.

use std::marker::PhantomData;

use bytemuck::Pod;

use crate::cuda_source::CudaSource;
use crate::device::Device;
use crate::event::Event;
use crate::kernel::{Kernel, KernelResult};
use crate::launch::BoundKernel;
use crate::parameter::{Read, Write};
use crate::part::same_length;
use crate::part::{Part, PartMut};
use crate::stream::Stream;
use crate::tell::Tell;
use crate::trusted::Trusted;
use crate::{Error, Result};

const THREADS: u32 = 256;
/// Enough blocks to use all of a connection, but few enough to leave most of the multiprocessors to
/// others: see `docs/measurements/links.md`.
const MOST_BLOCKS: usize = 64;
/// Bytes that a thread copies: four words of 16 bytes.
const BYTES_OF_A_THREAD: usize = 64;

const SOURCE: &str = r#"
#include "copy_bytes.cuh"
extern "C" __global__ void copy_bytes(millstream::Span<const unsigned char> from,
                                      millstream::Span<unsigned char> to) {
    millstream::copy_bytes(from, to);
}
extern "C" __global__ void copy_few_bytes(millstream::Span<const unsigned char> from,
                                          millstream::Span<unsigned char> to,
                                          millstream::Tell tell) {
    millstream::copy_bytes_and_tell(from, to, tell);
}
"#;

const fn source(entry: &'static str) -> CudaSource {
    CudaSource::new("copy_bytes.cu", entry, SOURCE).threads(THREADS)
}

static COPY_BYTES: Kernel<(Read<u8>, Write<u8>)> = Kernel::with_source(
    "copy by kernel",
    // SAFETY: like its twin, the kernel uses its arguments only as the signature says.
    unsafe { Trusted::new(source("copy_bytes")) },
    |_, (from, to)| copied(from, to),
);

/// Copies as much as one block can, which knows when all of it is done.
static COPY_FEW_BYTES: Kernel<(Read<u8>, Write<u8>, Tell)> = Kernel::with_source(
    "copy by kernel",
    // SAFETY: as above; it tells when its only block is done.
    unsafe { Trusted::new(source("copy_few_bytes")) },
    |_, (from, to, ())| copied(from, to),
);

fn copied(from: &[u8], to: &mut [u8]) -> KernelResult {
    to.copy_from_slice(from);
    Ok(())
}

/// Work elements of a launch that copies this many bytes: one thread each.
fn size(bytes: usize) -> usize {
    bytes.div_ceil(BYTES_OF_A_THREAD).clamp(1, MOST_BLOCKS * THREADS as usize)
}

impl Stream {
    /// As [`Stream::copy`], by a kernel of this stream's device instead of a copy
    /// engine: a *push* if the destination is another's, a *pull* if the source is.
    /// Both must be memory that the device reaches ([`Device::reaches`]). On a host
    /// device its twin copies.
    ///
    /// ```
    /// use millstream_device::{DeviceList, DeviceSet};
    ///
    /// let set = DeviceSet::builder().devices(DeviceList::host(2)).build()?;
    /// let stream = set.devices()[0].stream()?;
    /// let here = stream.uploaded(vec![1_u32, 2, 3])?;
    /// let mut there = set.devices()[1].buffer(3)?;
    /// stream.copy_by_kernel(&here, &mut there)?;
    /// assert_eq!(set.block_on(stream.download(&there)?)??, [1, 2, 3]);
    /// # Ok::<(), millstream_device::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfReach`]; different lengths; a hazard; the first cause on a failed
    /// stream.
    pub fn copy_by_kernel<'a, 'b, T: Pod>(
        &self,
        source: impl Into<Part<'a, T>>,
        destination: impl Into<PartMut<'b, T>>,
    ) -> Result<()> {
        self.bind_copy(source.into(), destination.into())?.submit()
    }

    /// As [`Stream::copy_by_kernel`] and then [`Stream::record`], which cost less together.
    ///
    /// # Errors
    /// As [`Stream::copy_by_kernel`].
    pub fn copy_by_kernel_and_record<'a, 'b, T: Pod>(
        &self,
        source: impl Into<Part<'a, T>>,
        destination: impl Into<PartMut<'b, T>>,
    ) -> Result<Event> {
        self.bind_copy(source.into(), destination.into())?.submit_and_record()
    }

    fn bind_copy<T: Pod>(
        &self,
        source: Part<'_, T>,
        destination: PartMut<'_, T>,
    ) -> Result<BoundKernel> {
        same_length(source.len(), destination.len())?;
        let (source, destination) = (bytes_of(source), bytes_of_mut(destination));
        let size = size(destination.len());
        match size <= THREADS as usize {
            true => COPY_FEW_BYTES.bind_at_once(self, size, (source, destination, Tell)),
            false => COPY_BYTES.bind_at_once(self, size, (source, destination)),
        }
    }
}

impl Device {
    /// Whether kernels of this device touch memory of `owner`: its own, the host's,
    /// and that of peers \[G §2.1\].
    pub fn reaches(&self, owner: &Device) -> bool {
        match (self.is_gpu(), owner.is_gpu()) {
            (true, false) => true,
            (false, true) => false,
            _ => self == owner || self.core.is_connected(&owner.core),
        }
    }

    /// Loads the kernels of [`Stream::copy_by_kernel`], as their first launches here would:
    /// see [`Kernel::prepare`].
    ///
    /// # Errors
    /// As [`Kernel::prepare`]: no compiler and no code compiled earlier.
    pub fn prepare_copies_by_kernel(&self) -> Result<(), Error> {
        COPY_FEW_BYTES.prepare(self, 1)?;
        COPY_BYTES.prepare(self, 1).map(drop)
    }
}

fn bytes_of<T: Pod>(part: Part<'_, T>) -> Part<'_, u8> {
    let Part { allocation, range, .. } = part;
    let range = range.start * size_of::<T>()..range.end * size_of::<T>();
    Part { allocation, range, items: PhantomData }
}

fn bytes_of_mut<T: Pod>(part: PartMut<'_, T>) -> PartMut<'_, u8> {
    let PartMut { allocation, range, .. } = part;
    let range = range.start * size_of::<T>()..range.end * size_of::<T>();
    PartMut { allocation, range, items: PhantomData }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DeviceList, DeviceSet, Topology};

    #[test]
    fn parts_of_any_items_are_copied_by_kernels() {
        let set = DeviceSet::builder().devices(DeviceList::host(2)).build().unwrap();
        let stream = set.devices()[0].stream().unwrap();
        let items: Vec<[u16; 3]> = (0..100).map(|at| [at, at + 1, at + 2]).collect();
        let here = stream.uploaded(items.clone()).unwrap();
        let mut there = set.devices()[1].buffer::<[u16; 3]>(10).unwrap();
        let to = there.part_mut(2..9).unwrap();
        stream.copy_by_kernel(here.part(33..40).unwrap(), to).unwrap();
        let copied = set.block_on(stream.download(&there).unwrap()).unwrap().unwrap();
        assert_eq!(copied[2..9], items[33..40]);
        assert_eq!((copied[1], copied[9]), ([0; 3], [0; 3]));
        let lengths = stream.copy_by_kernel(here.part(0..3).unwrap(), &mut there);
        assert!(matches!(lengths, Err(Error::LengthMismatch { from: 3, to: 10 })));
    }

    #[test]
    fn kernels_copy_where_their_device_reaches() {
        let apart = r#"{ "links": [["memory", "host"], ["host", "memory"]] }"#;
        let topology: Topology = apart.parse().unwrap();
        let builder = DeviceSet::builder().devices(DeviceList::host(2)).topology(topology);
        let set = builder.build().unwrap();
        let [one, other] = set.devices() else { panic!() };
        assert!(one.reaches(one) && one.reaches(set.host()) && !one.reaches(other));
        let stream = one.stream().unwrap();
        let here = stream.uploaded(vec![7_u8; 5]).unwrap();
        let mut there = other.buffer(5).unwrap();
        let refused = stream.copy_by_kernel(&here, &mut there);
        assert!(matches!(refused, Err(Error::OutOfReach { .. })), "{refused:?}");
        let mut between = set.host().buffer(5).unwrap();
        stream.copy_by_kernel(&here, &mut between).unwrap();
        let pull = other.stream().unwrap();
        pull.wait(&stream.record().unwrap()).unwrap();
        pull.copy_by_kernel(&between, &mut there).unwrap();
        assert_eq!(set.block_on(pull.download(&there).unwrap()).unwrap().unwrap(), [7; 5]);
    }

    #[cfg(feature = "cuda")]
    #[test]
    fn the_kernel_compiles_without_spills() {
        for (architecture, entry) in [80, 90, 100]
            .into_iter()
            .flat_map(|one| ["copy_bytes", "copy_few_bytes"].map(|entry| (one, entry)))
        {
            match source(entry).compile(architecture) {
                Ok((_, log)) => {
                    assert!(log.contains("bytes spill stores"), "{log}");
                    assert_eq!(crate::spills(&log), [""; 0]);
                }
                Err(Error::DriverUnavailable { reason, .. })
                    if std::env::var_os("MILLSTREAM_REQUIRE_NVRTC").is_none() =>
                {
                    return println!("not compiled: {reason}");
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}
