//! When a program has done something else for a while, the driver's launch path has left the
//! caches, and a launch takes several times as long as one right after another
//! (`docs/decisions/0024-launches-are-left-to-threads.md`): about as long as a short search. So
//! before the caller binds the gang's kernels, a kernel that does nothing is launched, on the same
//! stream and by the thread that will launch there next
//! (`docs/decisions/0033-a-launch-goes-before.md`). If another gang runs, this gains nothing.

use millstream_device::{CudaSource, Kernel, Stream, Trusted, Value};

use crate::Result;

type Nothing = (Value<u32>,);

static NOTHING: Kernel<Nothing> = Kernel::with_source(
    "nothing",
    // SAFETY: the kernel uses nothing.
    unsafe { Trusted::new(cuda_source()) },
    |_, _| Ok(()),
);

pub(crate) const fn cuda_source() -> CudaSource {
    const TEXT: &str = "extern \"C\" __global__ void nothing(unsigned) {}\n";
    CudaSource::new("nothing.cu", "nothing", TEXT)
}

/// Launches the empty kernel on streams of GPUs; as a rule the driver has all launches when this
/// returns. This thread launches on the last stream; launches on the others are
/// [left](millstream_device::BoundKernel::submit_soon) to the threads of their GPUs, unless devices
/// share a GPU.
pub(crate) fn warm_up(streams: &[Stream]) -> Result<()> {
    let Some((last, others)) = streams.split_last() else { return Ok(()) };
    for stream in streams {
        NOTHING.prepare(stream.device(), 1)?;
    }
    for stream in others {
        NOTHING.bind(stream, 1, (0,))?.submit_soon()?;
    }
    // Submitted after the launches that are left to threads.
    Ok(NOTHING.bind(last, 1, (0,))?.submit()?)
}
