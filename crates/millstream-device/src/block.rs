//! Where allocations' bytes are: memory of the program, pinned memory, a GPU's, or somebody else's.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::any::Any;
use std::ptr::NonNull;
#[cfg(feature = "cuda")]
use std::sync::Arc;

use crate::Result;
use crate::contain::contain;

/// The least alignment of all memory: what the driver promises for a GPU's memory, and more than a
/// cache line, so that no two buffers share one.
pub(crate) const ALIGNMENT: usize = 256;

/// What new memory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    Zeros,
    /// Whatever was there before, for those who write before they read.
    Any,
}

/// Where an allocation's bytes are.
pub(crate) enum Block {
    /// Memory of the program: the whole allocation, and the block's offset in it.
    Heap { memory: NonNull<u8>, layout: Layout, offset: usize },
    /// Pinned memory of the host, which GPUs reach.
    #[cfg(feature = "cuda")]
    Pinned(crate::cuda::Pinned),
    /// Memory of a GPU.
    #[cfg(feature = "cuda")]
    Gpu(crate::cuda::GpuMemory),
    /// Memory of the device that somebody else frees, when its owner is dropped.
    Adopted { address: usize, owner: Option<Box<dyn Any + Send>> },
}

impl Block {
    fn heap(items: Layout) -> Option<Block> {
        let alignment = items.align().max(ALIGNMENT);
        // Aligned by hand: where pages are zeroed only when touched, the allocator would write to
        // the whole of a block that must be aligned more than usual.
        let layout = Layout::array::<u8>(items.size().checked_add(alignment)?).ok()?;
        // SAFETY: the layout is not empty.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let offset = memory.align_offset(alignment);
        Some(Block::Heap { memory, layout, offset })
    }

    pub(crate) fn address(&self) -> *mut u8 {
        match self {
            Block::Heap { memory, offset, .. } => memory.as_ptr().wrapping_add(*offset),
            #[cfg(feature = "cuda")]
            Block::Pinned(memory) => memory.address(),
            #[cfg(feature = "cuda")]
            Block::Gpu(memory) => memory.address(),
            Block::Adopted { address, .. } => std::ptr::with_exposed_provenance_mut(*address),
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        match self {
            // SAFETY: allocated with this layout, and nobody holds it any more.
            Block::Heap { memory, layout, .. } => unsafe { dealloc(memory.as_ptr(), *layout) },
            #[cfg(feature = "cuda")]
            Block::Pinned(_) | Block::Gpu(_) => {}
            // Whichever thread this is, a panic of the owner's drop must not end it.
            Block::Adopted { owner, .. } => contain(|| drop(owner.take())),
        }
    }
}

/// Where host memory comes from.
#[derive(Debug)]
pub(crate) enum HostMemory {
    /// The program's allocator.
    Heap,
    /// Pinned, so that GPUs reach it.
    #[cfg(feature = "cuda")]
    Pinned(Arc<crate::cuda::PinnedPool>),
}

impl HostMemory {
    /// Whether this is ordinary memory of the program.
    pub(crate) fn is_heap(&self) -> bool {
        matches!(self, HostMemory::Heap)
    }

    /// Whether blocks are aligned well enough for such items.
    #[cfg_attr(not(feature = "cuda"), expect(unused_variables))]
    pub(crate) fn aligns(&self, items: Layout) -> bool {
        match self {
            HostMemory::Heap => true,
            #[cfg(feature = "cuda")]
            HostMemory::Pinned(_) => items.align() <= ALIGNMENT,
        }
    }

    /// Allocates memory for items that it [aligns](Self::aligns); `None` if there is not enough.
    #[cfg_attr(not(feature = "cuda"), expect(unused_variables))]
    pub(crate) fn allocate(&self, items: Layout, contents: Contents) -> Result<Option<Block>> {
        match self {
            // Always zeroed: zeros cost nothing until they are touched.
            HostMemory::Heap => Ok(Block::heap(items)),
            // Somebody has written to this memory before: host code may look at it.
            #[cfg(feature = "cuda")]
            HostMemory::Pinned(pool) => {
                let memory = pool.allocate(items.size(), contents)?;
                Ok(memory.map(Block::Pinned))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_and_zeroed() {
        for bytes in [0, 1, 63, 64, 4097, 1 << 20] {
            for alignment in [1, 64, ALIGNMENT, 1 << 16] {
                let block =
                    Block::heap(Layout::from_size_align(bytes, alignment).unwrap()).unwrap();
                assert_eq!(block.address().addr() % alignment.max(ALIGNMENT), 0);
                // SAFETY: the block has this many bytes, and nobody else has it.
                let items = unsafe { std::slice::from_raw_parts(block.address(), bytes) };
                assert!(items.iter().all(|byte| *byte == 0));
            }
        }
        let most = Layout::array::<u8>(isize::MAX as usize).unwrap();
        assert!(Block::heap(most).is_none());
    }
}
