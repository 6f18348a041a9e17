//! Device code that somebody answers for.

use std::ops::Deref;

/// CUDA C++ whose author answers for what it does on a GPU, where nobody checks a pointer. What
/// takes code that runs takes it so: a kernel its [`CudaSource`](crate::CudaSource), a distributed
/// worklist its callbacks, a collective its operator. All that uses these is safe then, launches
/// too.
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
    /// Answers for code.
    ///
    /// # Safety
    /// What it is given to runs it with arguments of that one's signature, on any device and beside
    /// any other work. The code touches nothing but these, as the signature says: it stays
    /// within each span, only reads what is [`Read`](crate::Read), uses atomics on what is
    /// [`Shared`](crate::Shared) while others use it, and has no data races among its own threads;
    /// what it leaves in a buffer is what the host may read there. It need not end, but where the
    /// signature has words that ask it to, or a patience, it heeds them.
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
