//! Memory of GPUs, kept for the next user: it is slow to get, and freeing it waits for the whole device.
//!
//! It is plain (`cuMemAlloc`), so that peers reach it. It is zeroed before it is given out again,
//! unless the next user writes it first. All blocks that wait to be zeroed are zeroed together,
//! since waiting for the GPU takes longer than zeroing most of them; but blocks whose last user was
//! to write them first are kept for another such user. Blocks are not zeroed when they are dropped:
//! that may happen on the reactor's thread, which must never wait for a device that waits for the
//! reactor. When no memory is left, all contexts of the process give their free blocks back to the
//! driver. `MILLSTREAM_EXACT_ALLOCATIONS=1`, for memory checkers, allocates exactly what is asked
//! for and reuses nothing; blocks are then freed before the next allocation.

use std::sync::{Arc, Weak};

use cudarc::driver::sys::{self, CUresult, CUstream};
use parking_lot::{Mutex, MutexGuard};

use super::context::GpuContext;
use super::free_blocks::{FreeBlocks, is_exact, rounded};
use crate::Result;
use crate::block::Contents;
use crate::launching::while_nobody_launches;

/// The pools of all contexts of the process, with the numbers of their GPUs.
static GPU_POOLS: Mutex<Vec<(usize, Weak<GpuPool>)>> = Mutex::new(Vec::new());

/// Larger blocks are zeroed alone, when somebody wants them.
const ZEROED_TOGETHER: usize = 64 << 20;

/// Memory of one GPU.
pub(crate) struct GpuPool {
    context: Arc<GpuContext>,
    exact: bool,
    /// Blocks as their last users left them. They have a lock of their own, which is never held
    /// while waiting for a GPU.
    dropped: Mutex<Vec<DroppedBlock>>,
    state: Mutex<GpuPoolState>,
}

/// A block that has been dropped, and what its last user wanted it to contain.
struct DroppedBlock {
    bytes: usize,
    address: u64,
    contents: Contents,
}

struct GpuPoolState {
    zeroed: FreeBlocks,
    /// Not zeroed yet.
    used: FreeBlocks,
    /// Not zeroed, and kept as their last users left them for users that write first.
    overwritten: FreeBlocks,
    /// The stream on which blocks are zeroed.
    stream: sys::CUstream,
}

// SAFETY: driver handles may be used from any thread; here, they are behind the lock.
unsafe impl Send for GpuPoolState {}

impl GpuPoolState {
    fn put(&mut self, DroppedBlock { bytes, address, contents }: DroppedBlock) {
        match contents {
            Contents::Zeros => self.used.put(bytes, address),
            Contents::Any => self.overwritten.put(bytes, address),
        }
    }

    fn take_all(&mut self) -> Vec<u64> {
        let GpuPoolState { zeroed, used, overwritten, .. } = self;
        [zeroed, used, overwritten].into_iter().flat_map(FreeBlocks::take_all).collect()
    }
}

impl GpuPool {
    pub(super) fn new(context: &Arc<GpuContext>) -> Result<Arc<GpuPool>> {
        context.bind()?;
        let mut stream = std::ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the context is current; destroyed with the pool.
        context.check(unsafe { sys::cuStreamCreate(&mut stream, flags) }, "cuStreamCreate")?;
        let free = FreeBlocks::default;
        let (zeroed, used, overwritten) = (free(), free(), free());
        let state = Mutex::new(GpuPoolState { zeroed, used, overwritten, stream });
        let (context, exact, dropped) = (Arc::clone(context), is_exact(), Mutex::default());
        let pool = Arc::new(GpuPool { context, exact, dropped, state });
        let mut all = GPU_POOLS.lock();
        all.retain(|(_, known)| known.strong_count() > 0);
        all.push((pool.context.ordinal, Arc::downgrade(&pool)));
        Ok(pool)
    }

    /// Memory with these contents; `None` if there is not enough.
    pub(super) fn allocate(
        self: &Arc<Self>,
        bytes: usize,
        contents: Contents,
    ) -> Result<Option<GpuMemory>> {
        // Waits at the gate before it takes the lock.
        while_nobody_launches(|| self.allocate_now(bytes, contents))
    }

    fn allocate_now(
        self: &Arc<Self>,
        bytes: usize,
        contents: Contents,
    ) -> Result<Option<GpuMemory>> {
        let bytes = rounded(bytes, self.exact);
        self.context.bind()?;
        if self.exact {
            self.give_back_unused();
        }
        let address = match self.take(bytes, contents)? {
            Some(address) => Some(address),
            None => {
                self.context.give_back_unused()?;
                self.take(bytes, contents)?
            }
        };
        let memory = |address| GpuMemory { pool: Arc::clone(self), address, bytes, contents };
        Ok(address.map(memory))
    }

    /// A block with these contents, unless there is not enough memory.
    fn take(&self, bytes: usize, contents: Contents) -> Result<Option<u64>> {
        let mut state = self.gathered();
        let known = match contents {
            Contents::Zeros => state.zeroed.take(bytes),
            Contents::Any => state.overwritten.take(bytes),
        };
        if known.is_some() {
            return Ok(known);
        }
        match (self.take_unzeroed(&mut state, bytes)?, contents) {
            (Some(address), Contents::Zeros) => self.zero(&mut state, bytes, address).map(Some),
            (address, _) => Ok(address),
        }
    }

    /// The state, to which the blocks dropped so far have been added.
    fn gathered(&self) -> MutexGuard<'_, GpuPoolState> {
        let mut state = self.state.lock();
        let dropped = std::mem::take(&mut *self.dropped.lock());
        dropped.into_iter().for_each(|block| state.put(block));
        state
    }

    /// Gives free blocks back to the driver. The GPU's context must be current on this thread.
    fn give_back_unused(&self) {
        let unused = self.gathered().take_all();
        unused.into_iter().for_each(|address| self.give_to_driver(address));
    }

    /// A used or new block, whatever it contains.
    fn take_unzeroed(&self, state: &mut GpuPoolState, bytes: usize) -> Result<Option<u64>> {
        let GpuPoolState { zeroed, used, overwritten, .. } = state;
        let known = used.take(bytes).or_else(|| overwritten.take(bytes));
        if let Some(address) = known.or_else(|| zeroed.take(bytes)) {
            return Ok(Some(address));
        }
        self.take_from_driver(bytes)
    }

    /// Zeroes a block, together with others that wait for that.
    fn zero(&self, state: &mut GpuPoolState, bytes: usize, address: u64) -> Result<u64> {
        let mut blocks = state.used.take_up_to(ZEROED_TOGETHER);
        blocks.push((bytes, address));
        let zeroed = self.zero_all(state.stream, &blocks);
        if zeroed.is_ok() {
            blocks.pop();
        }
        let to = if zeroed.is_ok() { &mut state.zeroed } else { &mut state.used };
        blocks.into_iter().for_each(|(bytes, address)| to.put(bytes, address));
        zeroed.map(|()| address)
    }

    fn zero_all(&self, stream: CUstream, blocks: &[(usize, u64)]) -> Result<()> {
        for &(bytes, address) in blocks {
            // SAFETY: the block is this long, and nothing uses it.
            let answer = unsafe { sys::cuMemsetD8Async(address, 0, bytes, stream) };
            self.context.check(answer, "cuMemsetD8Async")?;
        }
        // SAFETY: a stream of this context.
        let answer = unsafe { sys::cuStreamSynchronize(stream) };
        self.context.check(answer, "cuStreamSynchronize")
    }

    fn take_from_driver(&self, bytes: usize) -> Result<Option<u64>> {
        let mut address = 0;
        // SAFETY: the context is current.
        match unsafe { sys::cuMemAlloc_v2(&mut address, bytes) } {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => Ok(None),
            answer => self.context.check(answer, "cuMemAlloc").map(|()| Some(address)),
        }
    }

    fn give_to_driver(&self, address: u64) {
        // SAFETY: allocated by this context and unused. There is nothing to do about a failure.
        let _ = unsafe { sys::cuMemFree_v2(address) };
    }
}

impl GpuContext {
    /// Gives free memory of this GPU back to the driver, from all contexts of the process: they
    /// share the driver's primary context. It must be current on this thread, and is so afterwards;
    /// nobody may launch meanwhile.
    pub(super) fn give_back_unused(&self) -> Result<()> {
        let all = GPU_POOLS.lock();
        let of_this_gpu = all.iter().filter(|(ordinal, _)| *ordinal == self.ordinal);
        let pools: Vec<_> = of_this_gpu.filter_map(|(_, pool)| pool.upgrade()).collect();
        drop(all);
        pools.iter().for_each(|pool| pool.give_back_unused());
        // This may drop the last reference to a pool, and with it a context.
        drop(pools);
        self.bind()
    }

    /// The answer of a call that takes memory of this GPU. If there is none left, free memory is
    /// given back, and the call is made again. Otherwise as [`GpuContext::give_back_unused`].
    pub(super) fn with_memory(&self, mut call: impl FnMut() -> CUresult) -> Result<CUresult> {
        match call() {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                self.give_back_unused()?;
                Ok(call())
            }
            answer => Ok(answer),
        }
    }
}

impl Drop for GpuPool {
    fn drop(&mut self) {
        while_nobody_launches(|| {
            if self.context.bind().is_ok() {
                self.give_up();
            }
        });
    }
}

impl GpuPool {
    fn give_up(&mut self) {
        let state = self.state.get_mut();
        std::mem::take(self.dropped.get_mut()).into_iter().for_each(|block| state.put(block));
        let (stream, blocks) = (state.stream, state.take_all());
        blocks.into_iter().for_each(|address| self.give_to_driver(address));
        // SAFETY: a stream of this context, which nothing uses any more.
        let _ = unsafe { sys::cuStreamDestroy_v2(stream) };
    }
}

/// A block of a GPU's memory, back in its pool when dropped.
pub(crate) struct GpuMemory {
    pool: Arc<GpuPool>,
    address: u64,
    bytes: usize,
    contents: Contents,
}

impl GpuMemory {
    pub(crate) fn address(&self) -> *mut u8 {
        std::ptr::without_provenance_mut(self.address as usize)
    }

    pub(crate) fn context(&self) -> &Arc<GpuContext> {
        &self.pool.context
    }
}

impl Drop for GpuMemory {
    fn drop(&mut self) {
        let (bytes, address, contents) = (self.bytes, self.address, self.contents);
        self.pool.dropped.lock().push(DroppedBlock { bytes, address, contents });
    }
}
