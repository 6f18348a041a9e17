//! Device code for which somebody vouches.

use std::ops::Deref;

/// CUDA C++ whose author vouches for what it does on a GPU, where nobody checks a pointer.
/// Everything that runs such code takes it in this form: a kernel takes its
/// [`CudaSource`](crate::CudaSource), a distributed worklist its callbacks, and a collective its
/// operator. All their uses, including launches, are safe then.
///
/// ```
/// use millstream_device::{CudaSource, Kernel, Read, Trusted, Write};
///
/// static COPY: Kernel<(Read<u32>, Write<u32>)> = Kernel::with_source(
///     "copy",
///     // SAFETY: it reads and writes items of its spans, each of which one thread writes.
///     unsafe { Trusted::new(CudaSource::new("copy.cu", "copy", SOURCE)) },
///     |_, (from, to)| Ok(to.copy_from_slice(from)),
/// );
///
/// const SOURCE: &str = r#"
///     #include "span.cuh"
///     using namespace millstream;
///     extern "C" __global__ void copy(Span<const u32> from, Span<u32> to) {
///         for (u64 at = thread_in_grid(); at < to.len && at < from.len; at += threads_in_grid())
///             to[at] = from[at];
///     }
/// "#;
/// # assert_eq!(COPY.name(), "copy");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trusted<T>(T);

impl<T> Trusted<T> {
    /// Vouches for code.
    ///
    /// # Safety
    /// The code will be run with arguments of the signature of whatever it is given to, on any
    /// device and beside any other work. It must touch nothing but these arguments, and only as the
    /// signature says: it stays within each span, only reads what is [`Read`](crate::Read), uses
    /// atomics on what is [`Shared`](crate::Shared) while others use it, and has no data races
    /// among its own threads. Whatever it leaves in a buffer must be something that the host may
    /// read there. It need not end, unless the signature has words that ask it to or a patience: it
    /// must obey those.
    pub const unsafe fn new(code: T) -> Trusted<T> {
        Trusted(code)
    }

    /// The code, to be made a part of other code.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for Trusted<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
