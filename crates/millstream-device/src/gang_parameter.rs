//! How a gang's kernels take the buffers of all its devices.

use std::marker::PhantomData;
use std::sync::Arc;

use bytemuck::Pod;

use crate::layout::ArgumentWriter;
use crate::ledger::AccessKind;
use crate::memory::DeviceBuffer;
use crate::parameter::{
    Accesses, Argument, Bound, Parameter, Read, Write, check_set_length, spans,
};
use crate::part::Part;
use crate::task::Place;
use crate::{Error, Result};

/// One buffer of each device, for the kernels of a gang, which only read them. The twin sees its
/// own device's buffer as `&[T]`. There are at most [`SharedSet::MOST`](crate::SharedSet::MOST)
/// buffers.
///
/// The ledger knows only of each kernel's use of its own device's buffer. What the other kernels do
/// with that buffer must happen within this use, between the kernel's begin and its end; the
/// kernels must see to that themselves.
///
/// ```
/// use millstream_device::{
///     DeviceList, DeviceSet, GangParts, GangPartsMut, GangRead, GangWrite, Kernel,
/// };
///
/// static COPY: Kernel<(GangRead<u32>, GangWrite<u32>)> =
///     Kernel::new("copy", |_, (own_input, own_output)| {
///         own_output.copy_from_slice(own_input);
///         Ok(())
///     });
///
/// let set = DeviceSet::builder().devices(DeviceList::host(2)).build()?;
/// let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
/// for (device, value) in set.devices().iter().zip(1..) {
///     let stream = device.stream()?;
///     inputs.push(stream.uploaded(vec![value; 3])?);
///     outputs.push(device.buffer(3)?);
///     stream.record()?.synchronize()?;
/// }
/// let stream = set.devices()[1].stream()?;
/// let (from, to) = (GangParts::from(&inputs[..]), GangPartsMut::from(&mut outputs[..]));
/// COPY.launch(&stream, 3, ((&from, 1), (&to, 1)))?;
/// assert_eq!(set.block_on(stream.download(&outputs[1])?)??, [2, 2, 2]);
/// # Ok::<(), millstream_device::Error>(())
/// ```
#[derive(Debug)]
pub struct GangRead<T>(PhantomData<T>);

/// As [`GangRead`], for buffers that the kernels of the gang write; the twin sees its own device's
/// buffer as `&mut [T]`.
#[derive(Debug)]
pub struct GangWrite<T>(PhantomData<T>);

// SAFETY: what is bound is given out in its place and in the way in which it was bound.
unsafe impl<T: Pod + Send + Sync> Parameter for GangRead<T> {
    type Bound = BoundGang;
    type View<'a> = &'a [T];

    fn write(bound: &BoundGang, to: &mut ArgumentWriter) {
        spans::<T>(&bound.buffers, to);
    }

    unsafe fn view(bound: &BoundGang) -> &[T] {
        match bound.own() {
            // SAFETY: the caller's promise.
            Some(own) => unsafe { Read::<T>::view(own) },
            None => &[],
        }
    }
}

// SAFETY: what is bound is given out in its place and in the way in which it was bound.
unsafe impl<T: Pod + Send + Sync> Parameter for GangWrite<T> {
    type Bound = BoundGang;
    type View<'a> = &'a mut [T];

    fn write(bound: &BoundGang, to: &mut ArgumentWriter) {
        spans::<T>(&bound.buffers, to);
    }

    unsafe fn view(bound: &BoundGang) -> &mut [T] {
        match bound.own() {
            // SAFETY: the caller's promise.
            Some(own) => unsafe { Write::<T>::view(own) },
            None => &mut [],
        }
    }
}

/// Buffers of a gang's devices, held by a queued launch of one of its kernels.
#[derive(Debug)]
pub struct BoundGang {
    buffers: Arc<[Bound]>,
    own: usize,
}

impl BoundGang {
    fn new(
        buffers: &Arc<[Bound]>,
        own: usize,
        kind: AccessKind,
        accesses: &mut Accesses,
    ) -> Result<BoundGang> {
        check_set_length(buffers.len())?;
        match buffers.get(own) {
            Some(Bound(place)) => accesses.add(place.allocation(), kind),
            None if buffers.is_empty() => {}
            None => {
                let (buffer, len) = ("the buffers of a gang".to_string(), buffers.len());
                return Err(Error::OutOfRange { buffer, start: own, end: own + 1, len });
            }
        }
        Ok(BoundGang { buffers: Arc::clone(buffers), own })
    }

    fn own(&self) -> Option<&Bound> {
        self.buffers.get(self.own)
    }
}

/// The buffers of all devices, or none, for [`GangRead`]: made once for all kernels of
/// the gang. A launch refuses more than [`SharedSet::MOST`](crate::SharedSet::MOST).
#[derive(Debug)]
pub struct GangParts<'a, T: Pod> {
    bound: Arc<[Bound]>,
    buffers: PhantomData<&'a [DeviceBuffer<T>]>,
}

/// As [`GangParts`], for [`GangWrite`].
#[derive(Debug)]
pub struct GangPartsMut<'a, T: Pod> {
    bound: Arc<[Bound]>,
    buffers: PhantomData<&'a mut [DeviceBuffer<T>]>,
}

fn bound<T: Pod + Send + Sync>(buffers: &[DeviceBuffer<T>]) -> Arc<[Bound]> {
    let bound = |buffer| {
        let part = Part::from(buffer);
        Bound(Place::new::<T>(part.allocation, &part.range))
    };
    buffers.iter().map(bound).collect()
}

impl<'a, T: Pod + Send + Sync> From<&'a [DeviceBuffer<T>]> for GangParts<'a, T> {
    fn from(buffers: &'a [DeviceBuffer<T>]) -> GangParts<'a, T> {
        GangParts { bound: bound(buffers), buffers: PhantomData }
    }
}

impl<'a, T: Pod + Send + Sync> From<&'a mut [DeviceBuffer<T>]> for GangPartsMut<'a, T> {
    fn from(buffers: &'a mut [DeviceBuffer<T>]) -> GangPartsMut<'a, T> {
        GangPartsMut { bound: bound(buffers), buffers: PhantomData }
    }
}

/// The buffers of all devices, and the number of the kernel's own one.
// SAFETY: a read of its own buffer is declared, which is all that a twin sees.
unsafe impl<T: Pod + Send + Sync> Argument<GangRead<T>> for (&GangParts<'_, T>, usize) {
    fn bind(self, accesses: &mut Accesses) -> Result<BoundGang> {
        let (parts, own) = self;
        BoundGang::new(&parts.bound, own, AccessKind::Read, accesses)
    }
}

/// The buffers of all devices, and the number of the kernel's own one.
// SAFETY: a write of its own buffer is declared, which is all that a twin sees.
unsafe impl<T: Pod + Send + Sync> Argument<GangWrite<T>> for (&GangPartsMut<'_, T>, usize) {
    fn bind(self, accesses: &mut Accesses) -> Result<BoundGang> {
        let (parts, own) = self;
        BoundGang::new(&parts.bound, own, AccessKind::Write, accesses)
    }
}
