//! The work elements of a launch, as a host twin sees them.

use std::ops::Range;

use rayon::prelude::*;

use crate::kernel::KernelResult;

/// The work elements of one launch, in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    size: usize,
    block_size: usize,
}

/// Some consecutive work elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Number of the block.
    pub index: usize,
    /// Its work elements.
    pub range: Range<usize>,
}

/// Work elements of a block on a host device: enough to be worth a task.
const BLOCK_SIZE: usize = 2048;

/// Blocks for each of several threads: more than one, since blocks take different times.
const BLOCKS_OF_A_THREAD: usize = 8;

impl Grid {
    pub(crate) fn new(size: usize) -> Grid {
        Grid { size, block_size: BLOCK_SIZE }
    }

    /// A grid of its own for `size` elements in blocks of `block_size`, for a
    /// twin whose work is not known at the launch.
    pub fn of_blocks(size: usize, block_size: usize) -> Grid {
        Grid { size, block_size: block_size.max(1) }
    }

    /// As [`of_blocks`](Grid::of_blocks), with blocks of at least `least` elements and no
    /// more of them than balance the device's threads: for blocks that cost something
    /// each.
    ///
    /// ```
    /// use millstream_device::Grid;
    ///
    /// let grid = Grid::of_shares(100, 64);
    /// assert_eq!((grid.size(), grid.blocks()), (100, 1)); // outside of a device's threads
    /// ```
    pub fn of_shares(size: usize, least: usize) -> Grid {
        let blocks = match rayon::current_thread_index() {
            // On a simulated device, or outside of a device's thread pool.
            None => 1,
            Some(_) if rayon::current_num_threads() == 1 => 1,
            Some(_) => BLOCKS_OF_A_THREAD * rayon::current_num_threads(),
        };
        Grid::of_blocks(size, size.div_ceil(blocks).max(least))
    }

    /// Work elements.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Blocks.
    pub fn blocks(&self) -> usize {
        self.size.div_ceil(self.block_size)
    }

    /// Runs `work` for every block, side by side; returning is a barrier. A
    /// block must not wait for another.
    ///
    /// # Errors
    /// A fault of some block.
    pub fn for_each_block(
        &self,
        work: impl Fn(Block) -> KernelResult + Send + Sync,
    ) -> KernelResult {
        let block = |index: usize| {
            let start = index * self.block_size;
            Block { index, range: start..(start + self.block_size).min(self.size) }
        };
        match self.blocks() {
            0 => Ok(()),
            1 => work(block(0)),
            blocks => for_each_index(blocks, &|index| work(block(index))),
        }
    }
}

/// Not generic, so that it is compiled only once instead of once for each kernel.
fn for_each_index(
    blocks: usize,
    work: &(dyn Fn(usize) -> KernelResult + Send + Sync),
) -> KernelResult {
    match rayon::current_thread_index() {
        // On a simulated device, or outside of a device's thread pool, one by one.
        None => (0..blocks).try_for_each(work),
        Some(_) => (0..blocks).into_par_iter().try_for_each(work),
    }
}
