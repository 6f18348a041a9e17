//! What streams do, in terms that every driver understands.

use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;

use crate::Result;
use crate::host_data::HostData;
use crate::memory::Allocation;

/// An operation on memory, held until it is over.
pub(crate) enum Task {
    /// Copies between allocations.
    Copy { from: Place, to: Place },
    /// Copies from the program's memory.
    Upload { from: Box<dyn HostBytes>, to: Place },
    /// Repeats a pattern.
    Fill { to: Place, pattern: Vec<u8> },
    /// Runs a kernel.
    Launch(Box<dyn Launch>),
}

/// A kernel with its arguments.
pub(crate) trait Launch: Send {
    /// Runs the host twin. The ledger has ordered the accesses of the arguments.
    fn run_twin(&self) -> Result<()>;

    /// Gets the kernel ready for a GPU; submitting does it too.
    #[cfg(feature = "cuda")]
    fn load(&self, lane: &crate::cuda::LaneStream<'_>) -> Result<()>;

    /// Submits the kernel to a GPU.
    #[cfg(feature = "cuda")]
    fn submit(&self, lane: &crate::cuda::LaneStream<'_>) -> Result<()>;
}

/// Bytes of the program that stay where they are.
pub(crate) trait HostBytes: Send + Sync {
    fn bytes(&self) -> &[u8];
}

impl<T: Pod + Send + Sync> HostBytes for HostData<T> {
    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self.items())
    }
}

/// Items of an allocation, held by an operation.
#[derive(Debug)]
pub(crate) struct Place {
    allocation: Arc<Allocation>,
    /// In bytes.
    range: Range<usize>,
}

impl Place {
    /// The items of `range`, which must lie in the allocation.
    pub(crate) fn new<T: Pod>(allocation: &Arc<Allocation>, range: &Range<usize>) -> Place {
        let range = range.start * size_of::<T>()..range.end * size_of::<T>();
        Place { allocation: Arc::clone(allocation), range }
    }

    pub(crate) fn allocation(&self) -> &Arc<Allocation> {
        &self.allocation
    }

    pub(crate) fn address(&self) -> *mut u8 {
        self.allocation.address().wrapping_add(self.range.start)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.range.len()
    }

    pub(crate) fn items<T: Pod>(&self) -> *mut T {
        self.address().cast()
    }

    pub(crate) fn len<T: Pod>(&self) -> usize {
        self.range.len().checked_div(size_of::<T>()).unwrap_or(0)
    }
}

impl Task {
    /// Runs the operation on this thread.
    ///
    /// # Safety
    /// The ledger has ordered it: nothing that conflicts runs beside it.
    pub(crate) unsafe fn run(&self) -> Result<()> {
        match self {
            Task::Copy { from, to } => {
                if !(from.allocation.is_host_memory() && to.allocation.is_host_memory()) {
                    return copy_through_driver(from, to);
                }
                // SAFETY: ordered alone on the destination and after all writes of
                // the source; lengths are equal and the allocations differ (one
                // write conflicts with any other use).
                unsafe {
                    std::ptr::copy_nonoverlapping(from.address(), to.address(), from.bytes());
                }
                Ok(())
            }
            Task::Upload { from, to } => {
                let from = from.bytes();
                // SAFETY: ordered alone on the destination, which is as long.
                unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.address(), from.len()) };
                Ok(())
            }
            Task::Fill { to, pattern } => {
                // SAFETY: ordered alone on the destination, in range.
                let bytes = unsafe { std::slice::from_raw_parts_mut(to.address(), to.bytes()) };
                if !pattern.is_empty() {
                    bytes
                        .chunks_exact_mut(pattern.len())
                        .for_each(|to| to.copy_from_slice(pattern));
                }
                Ok(())
            }
            Task::Launch(launch) => launch.run_twin(),
        }
    }
}

#[cfg(feature = "cuda")]
fn copy_through_driver(from: &Place, to: &Place) -> Result<()> {
    crate::cuda::copy_now(from, to)
}

#[cfg(not(feature = "cuda"))]
fn copy_through_driver(from: &Place, _: &Place) -> Result<()> {
    Err(crate::Error::NotHostAccessible { buffer: from.allocation.to_string() })
}
