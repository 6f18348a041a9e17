//! Device code of kernels.

use std::iter::once;
use std::sync::Arc;

use crate::struct_layout::StructLayout;

/// CUDA C++ with a kernel in it, compiled for a GPU when it first runs there.
///
/// The text may include Millstream's headers by name (`#include "span.cuh"`) and
/// nothing else. The kernel is `extern "C" __global__`, and takes one parameter
/// for each part of the signature: see
/// [`ArgumentWriter`](crate::ArgumentWriter). It is launched with one thread for
/// each work element, or fewer if that is more than fill the GPU, so it goes
/// through its elements in steps of `millstream::threads_in_grid()`.
///
/// ```
/// use millstream_device::CudaSource;
///
/// const SCALE: CudaSource = CudaSource::new(
///     "scale.cu",
///     "scale",
///     r#"
///     #include "span.cuh"
///     using namespace millstream;
///     extern "C" __global__ void scale(Span<const u32> input, Span<u32> output, u32 factor) {
///         for (u64 at = thread_in_grid(); at < input.len; at += threads_in_grid())
///             output[at] = input[at] * factor;
///     }
///     "#,
/// );
/// assert_eq!(SCALE.entry(), "scale");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaSource {
    file: Text,
    entry: Text,
    text: Text,
    threads: u32,
    blocks: Blocks,
    has_shared_memory: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blocks {
    /// As many as the work elements need, or as fill the GPU.
    AsNeeded,
    These(u32),
    Uncapped,
    Resident,
    Each,
}

/// The most blocks of one launch, by CUDA's rules.
const MOST_BLOCKS: u32 = i32::MAX as u32;

/// The blocks that fill a GPU, and how many of them two multiprocessors run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capacity {
    pub(crate) full: u32,
    pub(crate) spare: u32,
}

/// Text that is cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Text {
    Static(&'static str),
    Shared(Arc<str>),
}

impl std::ops::Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Static(text) => text,
            Text::Shared(text) => text,
        }
    }
}

impl CudaSource {
    /// Kernel `entry` of `text`, which the compiler's messages call `file`.
    pub const fn new(file: &'static str, entry: &'static str, text: &'static str) -> CudaSource {
        CudaSource {
            file: Text::Static(file),
            entry: Text::Static(entry),
            text: Text::Static(text),
            threads: 256,
            blocks: Blocks::AsNeeded,
            has_shared_memory: false,
        }
    }

    /// The same with text made at run time.
    pub fn generated(
        file: impl Into<Arc<str>>,
        entry: impl Into<Arc<str>>,
        text: impl Into<Arc<str>>,
    ) -> CudaSource {
        let (file, entry) = (Text::Shared(file.into()), Text::Shared(entry.into()));
        let text = Text::Shared(text.into());
        let blocks = Blocks::AsNeeded;
        CudaSource { file, entry, text, threads: 256, blocks, has_shared_memory: false }
    }

    /// Compiles only if the text defines these structures as Rust does: see
    /// [`cuda_struct!`](crate::cuda_struct!).
    #[must_use]
    pub fn structs(mut self, layouts: &[StructLayout<'_>]) -> CudaSource {
        let checks = layouts.iter().map(StructLayout::checks);
        self.text =
            Text::Shared(once(self.text.to_string()).chain(checks).collect::<String>().into());
        self
    }

    /// Threads of a block; 256 unless set.
    #[must_use]
    pub const fn threads(mut self, threads: u32) -> CudaSource {
        self.threads = if threads == 0 { 1 } else { threads };
        self
    }

    /// Launches this many blocks whatever the number of work elements.
    #[must_use]
    pub const fn blocks(mut self, blocks: u32) -> CudaSource {
        self.blocks = Blocks::These(blocks);
        self
    }

    /// Launches enough blocks for one thread per work element, even if these are more blocks than
    /// run at once. A block that ends makes room for the next one, which evens out elements that
    /// differ much in work. Without this, no more blocks are launched than run at once, and the
    /// kernel must loop over its elements.
    #[must_use]
    pub const fn uncapped(mut self) -> CudaSource {
        self.blocks = Blocks::Uncapped;
        self
    }

    /// Launches as many blocks as run at once, so that they may wait for each other,
    /// and leaves two multiprocessors free. The launch's size is then the number of
    /// such kernels that share the GPU.
    #[must_use]
    pub const fn resident(mut self) -> CudaSource {
        self.blocks = Blocks::Resident;
        self
    }

    /// Launches a block for each work element, but no more than run at once while two
    /// multiprocessors stay free, so that a kernel that waits leaves room for others.
    #[must_use]
    pub const fn block_each(mut self) -> CudaSource {
        self.blocks = Blocks::Each;
        self
    }

    /// Gives each block as much shared memory as a block may have, beyond what the kernel declares,
    /// so that a multiprocessor runs one block at a time. The kernel declares an
    /// `extern __shared__` array; `millstream::dynamic_shared_bytes()` is its size.
    #[must_use]
    pub const fn shared_memory(mut self) -> CudaSource {
        self.has_shared_memory = true;
        self
    }

    /// Name of the source in messages.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Name of the kernel.
    pub fn entry(&self) -> &str {
        &self.entry
    }

    /// The CUDA C++.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Compiles the text for an architecture, such as 90 for `sm_90`; no GPU is needed. Returns the
    /// device code, and what the compiler says about registers, in which [`spills`](crate::spills)
    /// finds out whether they suffice. Afterwards, GPUs of that architecture find the code in the
    /// cache on disk.
    ///
    /// # Errors
    /// No compiler (NVRTC); text that does not compile, with the log.
    #[cfg(feature = "cuda")]
    pub fn compile(&self, architecture: u32) -> crate::Result<(Vec<u8>, String)> {
        crate::cuda::compile_with_log(self, architecture)
    }

    /// Whether each block gets all the shared memory that it may have.
    #[cfg(feature = "cuda")]
    pub(crate) fn has_shared_memory(&self) -> bool {
        self.has_shared_memory
    }

    /// Blocks and threads for `size` work elements on a GPU of this capacity.
    #[cfg_attr(not(any(feature = "cuda", test)), expect(dead_code))]
    pub(crate) fn dimensions(&self, size: usize, capacity: Capacity) -> (u32, u32) {
        let full = capacity.full.max(1);
        let blocks = match self.blocks {
            Blocks::These(blocks) => blocks,
            Blocks::AsNeeded => size.div_ceil(self.threads as usize).clamp(1, full as usize) as u32,
            Blocks::Uncapped => {
                size.div_ceil(self.threads as usize).min(MOST_BLOCKS as usize) as u32
            }
            Blocks::Each => size.min(full.saturating_sub(capacity.spare) as usize) as u32,
            Blocks::Resident => u32::try_from(size.max(1))
                .map_or(0, |size| full.saturating_sub(capacity.spare) / size),
        };
        (blocks.max(1), self.threads)
    }
}

/// The text of a [`CudaSource`] in several files: each goes on where the one before ends, and the
/// compiler's messages say which file a line is from. Files are named as for [`include_str!`],
/// and each ends with the end of a line.
///
/// ```
/// use millstream_device::cuda_text;
///
/// const TEXT: &str = cuda_text!("../../../kernels/src/span.cuh", "../../../kernels/src/grid.cuh");
/// assert!(TEXT.starts_with("#line 1 \"../../../kernels/src/span.cuh\"\n"));
/// assert!(TEXT.contains("\n#line 1 \"../../../kernels/src/grid.cuh\"\n"));
/// ```
#[macro_export]
macro_rules! cuda_text {
    ($($file:literal),+ $(,)?) => {
        concat!($("#line 1 \"", $file, "\"\n", include_str!($file)),+)
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_fill_the_gpu_and_no_more() {
        let source = CudaSource::new("file", "entry", "text").threads(128);
        let capacity = Capacity { full: 100, spare: 4 };
        assert_eq!(source.dimensions(0, capacity), (1, 128));
        assert_eq!(source.dimensions(129, capacity), (2, 128));
        assert_eq!(source.dimensions(1 << 40, capacity), (100, 128));
        assert_eq!(source.clone().uncapped().dimensions(0, capacity), (1, 128));
        assert_eq!(source.clone().uncapped().dimensions(128 * 999 + 1, capacity), (1000, 128));
        assert_eq!(source.clone().uncapped().dimensions(1 << 60, capacity), (MOST_BLOCKS, 128));
        assert_eq!(source.clone().resident().dimensions(1, capacity), (96, 128));
        assert_eq!(source.clone().resident().dimensions(5, capacity), (19, 128));
        assert_eq!(source.clone().resident().dimensions(1 << 32, capacity), (1, 128));
        assert_eq!(source.clone().block_each().dimensions(3, capacity), (3, 128));
        assert_eq!(source.clone().block_each().dimensions(1000, capacity), (96, 128));
        assert_eq!(source.blocks(7).dimensions(1, capacity), (7, 128));
    }
}
