//! A range of addresses that is nobody else's, and the allocations in it.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use cudarc::driver::sys::CUresult;
use memmap2::{MmapOptions, MmapRaw, UncheckedAdvice};
use parking_lot::Mutex;

use super::status::Answer;
use crate::addresses::{GRANULE, mark};

/// Between two allocations: whoever runs over the end of one is not in the next.
const GAP: usize = GRANULE;
/// What pages are given back in.
const PAGE: usize = 4096;
/// More than this is not worth filling.
const MOST_FILLED: usize = 1 << 20;
/// What memory holds that nobody has written.
const FRESH: u8 = 0xA5;
/// What memory holds that is not allocated any more.
const STALE: u8 = 0xDE;

/// Addresses, more than memory, so that holes cost nothing.
pub(super) struct Window {
    memory: OnceLock<MmapRaw>,
    blocks: Mutex<Blocks>,
}

impl Window {
    /// Of this much memory.
    pub(super) const fn new(bytes: usize) -> Window {
        Window { memory: OnceLock::new(), blocks: Mutex::new(Blocks::new(bytes)) }
    }

    /// The address of uninitialized memory.
    pub(super) fn allocate(&self, bytes: usize, owner: usize) -> Answer<*mut u8> {
        let mut blocks = self.blocks.lock();
        let memory = match self.memory.get() {
            Some(memory) => memory,
            None => {
                let mut options = MmapOptions::new();
                let mapped = options.len(blocks.addresses()).no_reserve_swap().map_anon();
                let mapped = mapped.map_err(|_| CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
                self.memory.get_or_init(|| MmapRaw::from(mapped))
            }
        };
        let start = blocks.allocate(bytes, owner).ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
        let address = memory.as_mut_ptr().wrapping_add(start);
        if bytes <= MOST_FILLED {
            // SAFETY: in the mapping, and nobody else's.
            unsafe { address.write_bytes(FRESH, bytes) };
        }
        mark(address, bytes, true);
        // Comes back as a number.
        address.expose_provenance();
        Ok(address)
    }

    /// Bytes that are left, and how many there are.
    pub(super) fn left(&self) -> (usize, usize) {
        let blocks = self.blocks.lock();
        (blocks.left, blocks.total)
    }

    /// Frees an allocation, which starts here.
    pub(super) fn free(&self, address: u64) -> Answer<()> {
        let mut blocks = self.blocks.lock();
        let start = self.offset(address).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let block = blocks.blocks.get(&start).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        self.lay_waste(start, block.bytes);
        blocks.free(start);
        Ok(())
    }

    /// Frees what an owner has left.
    pub(super) fn free_all(&self, owner: usize) {
        let mut blocks = self.blocks.lock();
        let is_left = |block: &Block| block.owner == owner;
        let left = blocks.blocks.iter().filter(|(_, block)| is_left(block));
        let left: Vec<_> = left.map(|(start, block)| (*start, block.bytes)).collect();
        for (start, bytes) in left {
            self.lay_waste(start, bytes);
            blocks.free(start);
        }
        if let (Some(memory), true) = (self.memory.get(), blocks.blocks.is_empty()) {
            // SAFETY: anonymous memory, of which nothing is allocated.
            let _ = unsafe { memory.unchecked_advise(UncheckedAdvice::DontNeed) };
        }
    }

    fn lay_waste(&self, start: usize, bytes: usize) {
        let Some(memory) = self.memory.get() else { return };
        mark(memory.as_ptr().wrapping_add(start), bytes, false);
        match bytes {
            // SAFETY: in the mapping, and not used any more.
            ..=MOST_FILLED => unsafe {
                memory.as_mut_ptr().wrapping_add(start).write_bytes(STALE, bytes);
            },
            _ => self.clear(memory, start, bytes),
        }
    }

    /// Zeroes memory without touching whole pages.
    fn clear(&self, memory: &MmapRaw, start: usize, bytes: usize) {
        let end = start + bytes;
        let first = start.next_multiple_of(PAGE).min(end);
        let last = (end / PAGE * PAGE).max(first);
        let base = memory.as_mut_ptr();
        let zero = |from: usize, to: usize| {
            // SAFETY: in the mapping; whoever clears it may write there.
            unsafe { base.wrapping_add(from).write_bytes(0, to - from) };
        };
        zero(start, first);
        // SAFETY: anonymous memory, which then reads as zeros.
        let given = unsafe {
            memory.unchecked_advise_range(UncheckedAdvice::DontNeed, first, last - first)
        };
        if given.is_err() {
            zero(first, last);
        }
        zero(last, end);
    }

    /// Zeroes what is in an allocation.
    ///
    /// # Safety
    /// The range is, and may be written.
    pub(super) unsafe fn zero(&self, address: u64, bytes: usize) {
        if let (Some(memory), Some(start)) = (self.memory.get(), self.offset(address)) {
            self.clear(memory, start, bytes);
        }
    }

    /// Where an address is in the window.
    fn offset(&self, address: u64) -> Option<usize> {
        let memory = self.memory.get()?;
        let offset = usize::try_from(address).ok()?.checked_sub(memory.as_ptr().addr())?;
        (offset < memory.len()).then_some(offset)
    }

    pub(super) fn contains(&self, address: u64) -> bool {
        self.offset(address).is_some()
    }

    /// Whether a range is in an allocation.
    pub(super) fn holds(&self, address: u64, bytes: usize) -> bool {
        self.offset(address).is_some_and(|start| self.blocks.lock().holds(start, bytes))
    }
}

/// Allocations, by where they start.
struct Blocks {
    blocks: BTreeMap<usize, Block>,
    /// Bytes that are left.
    left: usize,
    total: usize,
}

struct Block {
    bytes: usize,
    owner: usize,
}

/// What an allocation counts as.
fn rounded(bytes: usize) -> Option<usize> {
    bytes.max(1).checked_next_multiple_of(GRANULE)
}

impl Blocks {
    const fn new(total: usize) -> Blocks {
        Blocks { blocks: BTreeMap::new(), left: total, total }
    }

    fn addresses(&self) -> usize {
        self.total * 4
    }

    /// The first hole that is large enough.
    fn allocate(&mut self, bytes: usize, owner: usize) -> Option<usize> {
        let rounded = rounded(bytes).filter(|rounded| *rounded <= self.left)?;
        let mut start = 0;
        for (next, block) in &self.blocks {
            if next - start >= rounded + GAP {
                break;
            }
            start = (next + block.bytes).next_multiple_of(GRANULE) + GAP;
        }
        if start + rounded > self.addresses() {
            return None;
        }
        self.left -= rounded;
        self.blocks.insert(start, Block { bytes, owner });
        Some(start)
    }

    fn free(&mut self, start: usize) {
        if let Some(block) = self.blocks.remove(&start) {
            self.left += rounded(block.bytes).unwrap_or(0);
        }
    }

    fn holds(&self, start: usize, bytes: usize) -> bool {
        let before = self.blocks.range(..=start).next_back();
        before.is_some_and(|(first, block)| {
            start.checked_add(bytes).is_some_and(|end| end <= first + block.bytes)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_used_again_and_bytes_are_counted() {
        let mut blocks = Blocks::new(4096);
        let starts = [700, 512, 1].map(|bytes| blocks.allocate(bytes, 0));
        assert_eq!(starts, [Some(0), Some(1536), Some(2560)]);
        blocks.free(1536);
        assert_eq!(blocks.allocate(513, 0), Some(3584), "the hole has 512 bytes");
        assert_eq!(blocks.allocate(512, 0), Some(1536));
        assert_eq!(blocks.left, 4096 - 1024 - 512 - 512 - 1024);
        assert_eq!(blocks.allocate(1025, 0), None);
        assert_eq!(blocks.allocate(usize::MAX, 0), None);
        assert!(blocks.allocate(1024, 0).is_some());
        assert_eq!((blocks.left, blocks.allocate(1, 0)), (0, None));
    }

    #[test]
    fn a_range_is_in_one_allocation() {
        let mut blocks = Blocks::new(4096);
        blocks.allocate(700, 0);
        blocks.allocate(10, 0);
        assert!(blocks.holds(0, 700) && blocks.holds(699, 1) && blocks.holds(1536, 10));
        for (start, bytes) in [(0, 701), (700, 1), (1535, 1), (1536, 11), (1, usize::MAX)] {
            assert!(!blocks.holds(start, bytes), "{start} {bytes}");
        }
    }
}
