//! Kernels that tell their end themselves.

use crate::Result;
use crate::layout::ArgumentWriter;
use crate::parameter::{Accesses, Argument, Parameter, Value, Write};

/// A parameter for kernels that *tell*: the last thing that the last block of such a kernel does is
/// to say that the kernel is over. The host and the next kernel of the stream hear of that about a
/// microsecond sooner than of a word that the stream writes behind a kernel. `Tell` is passed as
/// itself, in the kernel's signature or in a tuple there; on a host device nothing is passed.
///
/// In CUDA C++ it is a `millstream::Tell`. One thread calls its `say`, after all threads of all
/// blocks have done their work and this thread has acquired that work: from then on, what the
/// kernel uses may be given back. In a kernel of several blocks, `say_last(tell, left)` finds this
/// thread: every block calls it as the last thing that it does. `left` is a 64-bit word in the
/// device's memory that is 0 before the kernel, and again after it; kernels that may run beside
/// each other need a word each. A kernel must say it however it ends, or nobody hears of its end.
///
/// A GPU's stream then writes no word for a [`Stream::completed`](crate::Stream::completed) or
/// [`Stream::record`](crate::Stream::record) that comes right behind the kernel. Kernels that are
/// [traced](crate::DeviceSetBuilder::trace) are asked to say nothing.
///
/// ```
/// use millstream_device::{CudaSource, DeviceList, DeviceSet, Kernel, Tell, Trusted, Write};
///
/// const SOURCE: &str = r#"
/// #include "span.cuh"
/// #include "tell.cuh"
/// extern "C" __global__ void set_all(millstream::Span<unsigned> items, millstream::Tell tell) {
///     for (unsigned at = threadIdx.x; at < items.len; at += blockDim.x) items[at] = 7;
///     __syncthreads(); // There is one block.
///     if (threadIdx.x == 0) tell.say();
/// }
/// "#;
///
/// static SET_ALL: Kernel<(Write<u32>, Tell)> = Kernel::with_source(
///     "set all",
///     // SAFETY: it keeps to its arguments, and tells when its only block is done.
///     unsafe { Trusted::new(CudaSource::new("set.cu", "set_all", SOURCE).block_each()) },
///     |_, (items, ())| {
///         items.fill(7);
///         Ok(())
///     },
/// );
///
/// let set = DeviceSet::builder().devices(DeviceList::host(1)).build()?;
/// let device = &set.devices()[0];
/// let (stream, mut items) = (device.stream()?, device.buffer(1000)?);
/// SET_ALL.prepare(device, 1)?;
/// let kernel = SET_ALL.bind(&stream, 1, (&mut items, Tell))?;
/// set.block_on(kernel.submit_soon_with_completion()?)??;
/// assert_eq!(set.block_on(stream.download(&items)?)??, [7; 1000]);
/// # Ok::<(), millstream_device::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Tell;

// SAFETY: nothing is bound.
unsafe impl Parameter for Tell {
    const TELLS: bool = true;

    type Bound = ();
    type View<'a> = ();

    fn write((): &(), to: &mut ArgumentWriter) {
        to.tell();
    }

    unsafe fn view((): &()) {}
}

// SAFETY: the kernel uses no memory.
unsafe impl Argument<Tell> for Tell {
    fn bind(self, _: &mut Accesses) -> Result<()> {
        Ok(())
    }
}

/// Kernels tell if they take a `Tell`, also within a tuple of the signature.
const _: () = {
    assert!(<(Write<u32>, Tell)>::TELLS && <(Write<u32>, (Value<u32>, Tell))>::TELLS);
    assert!(!<(Write<u32>, (Value<u32>,))>::TELLS);
};
