//! Pinned memory of the host, kept for the next user as memory of GPUs is.

use std::sync::Arc;

use cudarc::driver::sys::{self, CUresult};
use parking_lot::Mutex;

use super::context::GpuContext;
use super::free_blocks::{FreeBlocks, is_exact, rounded};
use crate::block::Contents;
use crate::launching::while_nobody_launches;
use crate::poison::Poison;
use crate::{Error, Result};

/// At least this many pinned bytes are kept, used or not; or, if that is more, twice as many as
/// have been in use at once. The system cannot swap them out, and may kill a process before the
/// driver refuses to pin more.
const PINNED: usize = 1 << 30;

/// Pinned memory of the host, which every GPU reaches.
#[derive(Debug)]
pub(crate) struct PinnedPool {
    /// To pin memory, a thread needs a current context.
    context: Arc<GpuContext>,
    poison: Poison,
    exact: bool,
    blocks: Mutex<PinnedBlocks>,
}

/// Blocks of pinned memory, and bytes of it.
#[derive(Debug, Default)]
struct PinnedBlocks {
    free: FreeBlocks,
    unused: usize,
    in_use: usize,
    /// The most bytes that have been in use at once.
    peak: usize,
}

impl PinnedBlocks {
    /// Takes a free block of this size, if there is one.
    fn take(&mut self, bytes: usize) -> Option<u64> {
        let address = self.free.take(bytes)?;
        self.unused -= bytes;
        self.begin_use(bytes);
        Some(address)
    }

    fn begin_use(&mut self, bytes: usize) {
        self.in_use += bytes;
        self.peak = self.peak.max(self.in_use);
    }

    fn put(&mut self, bytes: usize, address: u64) {
        self.in_use -= bytes;
        self.unused += bytes;
        self.free.put(bytes, address);
    }

    /// Takes free blocks as long as too many bytes are kept for `more` bytes to be pinned. The
    /// smallest large blocks go first, so that sizes that are used again and again stay.
    fn take_surplus(&mut self, more: usize) -> Vec<u64> {
        let most = PINNED.max(2 * self.peak.max(self.in_use + more));
        let mut surplus = Vec::new();
        while self.in_use + self.unused + more > most {
            let Some((bytes, address)) = self.free.take_smallest_large() else { break };
            self.unused -= bytes;
            surplus.push(address);
        }
        surplus
    }

    fn take_all(&mut self) -> Vec<u64> {
        self.unused = 0;
        self.free.take_all().collect()
    }
}

impl PinnedPool {
    pub(super) fn new(context: &Arc<GpuContext>) -> Arc<PinnedPool> {
        let poison = context.poison.clone();
        let (context, exact) = (Arc::clone(context), is_exact());
        Arc::new(PinnedPool { context, poison, exact, blocks: Mutex::default() })
    }

    /// Memory with these contents; `None` if there is not enough.
    ///
    /// # Errors
    /// The failure that poisoned the process: a GPU may still write to free blocks.
    pub(crate) fn allocate(
        self: &Arc<Self>,
        bytes: usize,
        contents: Contents,
    ) -> Result<Option<Pinned>> {
        let bytes = rounded(bytes, self.exact);
        self.context.bind()?;
        if self.exact {
            self.give_back_unused();
        }
        let known = self.blocks.lock().take(bytes);
        let address = match known {
            Some(address) => Some(address),
            None => self.take_new(bytes)?,
        };
        let memory = address.map(|address| Pinned { pool: Arc::clone(self), address, bytes });
        if let (Some(memory), Contents::Zeros) = (&memory, contents) {
            // SAFETY: the block is this long, and nothing uses it.
            unsafe { std::ptr::write_bytes(memory.address(), 0, memory.bytes) };
        }
        Ok(memory)
    }

    fn take_new(&self, bytes: usize) -> Result<Option<u64>> {
        let surplus = self.blocks.lock().take_surplus(bytes);
        surplus.into_iter().for_each(|address| self.give_to_driver(address));
        let address = match self.take_from_driver(bytes)? {
            Some(address) => Some(address),
            None => {
                self.give_back_unused();
                self.take_from_driver(bytes)?
            }
        };
        if address.is_some() {
            self.blocks.lock().begin_use(bytes);
        }
        Ok(address)
    }

    /// Gives free blocks back to the driver.
    pub(super) fn give_back_unused(&self) {
        let blocks = self.blocks.lock().take_all();
        blocks.into_iter().for_each(|address| self.give_to_driver(address));
    }

    fn take_from_driver(&self, bytes: usize) -> Result<Option<u64>> {
        let mut address = std::ptr::null_mut();
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        let answer = while_nobody_launches(|| {
            // Bound once more, since whatever happens while this thread waits may bind another context.
            self.context.bind()?;
            // SAFETY: a context is current.
            Ok(unsafe { sys::cuMemHostAlloc(&mut address, bytes, flags) })
        })?;
        match answer {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => Ok(None),
            answer => {
                self.context.check(answer, "cuMemHostAlloc")?;
                Ok(Some(address.expose_provenance() as u64))
            }
        }
    }

    fn give_to_driver(&self, address: u64) {
        // A failed GPU may still write there: leak it.
        if self.poison.get().is_some() {
            return;
        }
        let address = std::ptr::with_exposed_provenance_mut(address as usize);
        let _ = while_nobody_launches(|| {
            self.context.bind()?;
            // SAFETY: allocated by the driver; nobody uses it.
            let _ = unsafe { sys::cuMemFreeHost(address) };
            Ok::<(), Error>(())
        });
    }
}

impl Drop for PinnedPool {
    fn drop(&mut self) {
        self.give_back_unused();
    }
}

/// A block of pinned memory, back in its pool when dropped.
#[derive(Debug)]
pub(crate) struct Pinned {
    pool: Arc<PinnedPool>,
    address: u64,
    bytes: usize,
}

impl Pinned {
    pub(crate) fn address(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.address as usize)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.pool.blocks.lock().put(self.bytes, self.address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_pinned_than_twice_what_was_in_use() {
        let mut blocks = PinnedBlocks::default();
        // Sizes that grow, like answers for ever larger graphs: none of them can be used again.
        for gigabytes in 1..=8 {
            let bytes = gigabytes * PINNED;
            assert_eq!(blocks.take(bytes), None);
            blocks.take_surplus(bytes);
            blocks.begin_use(bytes);
            assert!(blocks.in_use + blocks.unused <= 2 * bytes, "{gigabytes} GiB: {blocks:?}");
            blocks.put(bytes, gigabytes as u64);
        }
        // Two sizes used in turn stay, even beside smaller ones.
        for gigabytes in [7, 8, 7, 8] {
            assert_eq!(blocks.take(gigabytes * PINNED), Some(gigabytes as u64));
            blocks.put(gigabytes * PINNED, gigabytes as u64);
        }
        assert_eq!(blocks.take_surplus(2 * PINNED), [7]);
        assert_eq!((blocks.unused, blocks.in_use, blocks.peak), (8 * PINNED, 0, 8 * PINNED));
        assert_eq!(blocks.take_all(), [8]);
    }
}
