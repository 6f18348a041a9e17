//! What a launch goes through in the driver has left the caches when a program has done something
//! else for a while: a launch then takes several times as long as one right after another
//! (`docs/decisions/0024-launches-are-left-to-threads.md`), about as long as a short
//! search is at work. So a kernel that does nothing goes before, on the same stream and by the thread
//! that will launch there next, before the caller binds the gang's kernels
//! (`docs/decisions/0033-a-launch-goes-before.md`). If another gang runs, that is for nothing.

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

/// Launches it on streams of GPUs: as a rule the driver has all of them when this returns. The last
/// stream's launches are this thread's, the others' are
/// [left](millstream_device::BoundKernel::submit_soon) to the threads of their GPUs, where devices
/// share none.
pub(crate) fn warm_up(streams: &[Stream]) -> Result<()> {
    let Some((last, others)) = streams.split_last() else { return Ok(()) };
    for stream in streams {
        NOTHING.prepare(stream.device(), 1)?;
    }
    for stream in others {
        NOTHING.bind(stream, 1, (0,))?.submit_soon()?;
    }
    // It goes after what is left to threads.
    Ok(NOTHING.bind(last, 1, (0,))?.submit()?)
}
