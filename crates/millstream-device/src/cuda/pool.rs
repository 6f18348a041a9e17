//! Memory of GPUs and pinned memory of the host, kept for the next user: both
//! are slow to get, and freeing either waits for the whole device.
//!
//! Memory of a GPU is plain (`cuMemAlloc`), so that peers reach it. It is zeroed before it
//! is given away again, unless whoever wants it writes it first: all blocks that wait for that at
//! once, since waiting for the GPU takes longer than zeroing most of them; but those whose last user
//! wrote them first wait for another who does. Not when they are dropped: that may happen on
//! the reactor's thread, which must never wait for a device that waits for the reactor.
//! `MILLSTREAM_EXACT_ALLOCATIONS=1` asks for exactly what is wanted and uses
//! nothing again, for memory checkers. Blocks are then freed before the next
//! allocation.

use std::collections::BTreeMap;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUresult, CUstream};
use parking_lot::Mutex;

use super::context::GpuContext;
use crate::Result;
use crate::block::Contents;
use crate::launching::while_nobody_launches;
use crate::poison::Poison;

const SMALLEST: usize = 512;
const LARGE: usize = 1 << 20;
const PAGE: usize = 2 << 20;
/// Larger ones are zeroed alone, when somebody wants them.
const ZEROED_TOGETHER: usize = 64 << 20;

/// Blocks that nobody uses, by size.
#[derive(Debug, Default)]
struct FreeBlocks {
    blocks: BTreeMap<usize, Vec<u64>>,
}

impl FreeBlocks {
    fn take(&mut self, bytes: usize) -> Option<u64> {
        self.blocks.get_mut(&bytes)?.pop()
    }

    /// All blocks of up to so many bytes, and their sizes.
    fn take_up_to(&mut self, most: usize) -> Vec<(usize, u64)> {
        let up_to_most = self.blocks.range_mut(..=most);
        up_to_most
            .flat_map(|(&bytes, blocks)| blocks.drain(..).map(move |at| (bytes, at)))
            .collect()
    }

    fn put(&mut self, bytes: usize, address: u64) {
        self.blocks.entry(bytes).or_default().push(address);
    }

    fn take_all(&mut self) -> impl Iterator<Item = u64> + use<> {
        std::mem::take(&mut self.blocks).into_values().flatten()
    }
}

fn is_exact() -> bool {
    std::env::var_os("MILLSTREAM_EXACT_ALLOCATIONS").is_some_and(|value| value == "1")
}

/// Sizes that blocks come in.
fn rounded(bytes: usize, exact: bool) -> usize {
    match bytes.max(1) {
        bytes if exact => bytes,
        bytes if bytes <= LARGE => bytes.next_power_of_two().max(SMALLEST),
        bytes => bytes.next_multiple_of(PAGE),
    }
}

/// Memory of one GPU.
pub(crate) struct GpuPool {
    context: Arc<GpuContext>,
    exact: bool,
    /// Blocks as their last users left them. A lock of its own, which is never held while a GPU is
    /// waited for.
    dropped: Mutex<Vec<DroppedBlock>>,
    state: Mutex<GpuPoolState>,
}

/// A block that nobody uses any more, and what its last user had wanted to be in it.
struct DroppedBlock {
    bytes: usize,
    address: u64,
    contents: Contents,
}

struct GpuPoolState {
    zeroed: FreeBlocks,
    /// Not zeroed yet.
    used: FreeBlocks,
    /// Not zeroed, as their last users had them.
    overwritten: FreeBlocks,
    /// Where blocks are zeroed.
    stream: sys::CUstream,
}

// SAFETY: driver handles may be used from any thread, here behind the lock.
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
        Ok(Arc::new(GpuPool { context, exact, dropped, state }))
    }

    /// Memory with these contents; `None` if there is not enough.
    pub(super) fn allocate(
        self: &Arc<Self>,
        bytes: usize,
        contents: Contents,
    ) -> Result<Option<GpuMemory>> {
        // Before the lock.
        while_nobody_launches(|| self.allocate_now(bytes, contents))
    }

    fn allocate_now(
        self: &Arc<Self>,
        bytes: usize,
        contents: Contents,
    ) -> Result<Option<GpuMemory>> {
        let bytes = rounded(bytes, self.exact);
        self.context.bind()?;
        let mut state = self.state.lock();
        let dropped = std::mem::take(&mut *self.dropped.lock());
        dropped.into_iter().for_each(|block| state.put(block));
        if self.exact {
            state.take_all().into_iter().for_each(|address| self.give_to_driver(address));
        }
        let known = match contents {
            Contents::Zeros => state.zeroed.take(bytes),
            Contents::Any => state.overwritten.take(bytes),
        };
        let address = match known {
            Some(address) => address,
            None => match (self.take_unzeroed(&mut state, bytes)?, contents) {
                (Some(address), Contents::Zeros) => self.zero(&mut state, bytes, address)?,
                (Some(address), Contents::Any) => address,
                (None, _) => return Ok(None),
            },
        };
        Ok(Some(GpuMemory { pool: Arc::clone(self), address, bytes, contents }))
    }

    /// A block that has been used or is new.
    fn take_unzeroed(&self, state: &mut GpuPoolState, bytes: usize) -> Result<Option<u64>> {
        let GpuPoolState { zeroed, used, overwritten, .. } = state;
        let known = used.take(bytes).or_else(|| overwritten.take(bytes));
        if let Some(address) = known.or_else(|| zeroed.take(bytes)) {
            return Ok(Some(address));
        }
        if let Some(address) = self.take_from_driver(bytes)? {
            return Ok(Some(address));
        }
        state.take_all().into_iter().for_each(|address| self.give_to_driver(address));
        self.take_from_driver(bytes)
    }

    /// Zeroes a block, and others that wait for it.
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
        // SAFETY: allocated by this context; nobody uses it. A failure leaves
        // nothing to do.
        let _ = unsafe { sys::cuMemFree_v2(address) };
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

/// Pinned memory of the host, which every GPU reaches.
#[derive(Debug)]
pub(crate) struct PinnedPool {
    /// Whoever pins must have a context.
    context: Arc<GpuContext>,
    poison: Poison,
    exact: bool,
    free: Mutex<FreeBlocks>,
}

impl PinnedPool {
    pub(super) fn new(context: &Arc<GpuContext>) -> Arc<PinnedPool> {
        let poison = context.poison.clone();
        let free = Mutex::new(FreeBlocks::default());
        Arc::new(PinnedPool { context: Arc::clone(context), poison, exact: is_exact(), free })
    }

    /// Zeroed memory; `None` if there is not enough.
    ///
    /// # Errors
    /// The failure that poisoned the process: a GPU may still write to blocks that
    /// are free.
    pub(crate) fn allocate(self: &Arc<Self>, bytes: usize) -> Result<Option<Pinned>> {
        let memory = self.allocate_to_overwrite(bytes)?;
        if let Some(memory) = &memory {
            // SAFETY: the block is this long, and nothing uses it.
            unsafe { std::ptr::write_bytes(memory.address(), 0, memory.bytes) };
        }
        Ok(memory)
    }

    /// As [`PinnedPool::allocate`], with whatever was there before.
    pub(crate) fn allocate_to_overwrite(self: &Arc<Self>, bytes: usize) -> Result<Option<Pinned>> {
        let bytes = rounded(bytes, self.exact);
        self.context.bind()?;
        if self.exact {
            self.give_all_back();
        }
        let known = self.free.lock().take(bytes);
        let address = match known {
            Some(address) => Some(address),
            None => match self.take_from_driver(bytes)? {
                Some(address) => Some(address),
                None => {
                    self.give_all_back();
                    self.take_from_driver(bytes)?
                }
            },
        };
        Ok(address.map(|address| Pinned { pool: Arc::clone(self), address, bytes }))
    }

    /// Blocks that nobody uses go back to the driver.
    fn give_all_back(&self) {
        let blocks: Vec<u64> = self.free.lock().take_all().collect();
        blocks.into_iter().for_each(|address| self.give_to_driver(address));
    }

    fn take_from_driver(&self, bytes: usize) -> Result<Option<u64>> {
        let mut address = std::ptr::null_mut();
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: a context is current.
        let answer =
            while_nobody_launches(|| unsafe { sys::cuMemHostAlloc(&mut address, bytes, flags) });
        match answer {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => Ok(None),
            answer => {
                self.context.check(answer, "cuMemHostAlloc")?;
                Ok(Some(address.expose_provenance() as u64))
            }
        }
    }

    fn give_to_driver(&self, address: u64) {
        // A GPU that has failed may still write there: leaked.
        if self.poison.get().is_none() && self.context.bind().is_ok() {
            let address = std::ptr::with_exposed_provenance_mut(address as usize);
            // SAFETY: allocated by the driver; nobody uses it.
            let _ = while_nobody_launches(|| unsafe { sys::cuMemFreeHost(address) });
        }
    }
}

impl Drop for PinnedPool {
    fn drop(&mut self) {
        let blocks = self.free.get_mut().take_all();
        blocks.for_each(|address| self.give_to_driver(address));
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
        self.pool.free.lock().put(self.bytes, self.address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_in_few_sizes() {
        let sizes = [0, 1, 512, 513, LARGE, LARGE + 1, 5 << 20];
        let expected = [512, 512, 512, 1024, LARGE, PAGE, 6 << 20];
        assert_eq!(sizes.map(|bytes| rounded(bytes, false)), expected);
        assert_eq!([0, 3, LARGE + 1].map(|bytes| rounded(bytes, true)), [1, 3, LARGE + 1]);
    }

    #[test]
    fn free_blocks_are_used_again() {
        let mut free = FreeBlocks::default();
        free.put(512, 1);
        free.put(1024, 2);
        assert_eq!((free.take(2048), free.take(512), free.take(512)), (None, Some(1), None));
        free.put(4096, 3);
        assert_eq!(free.take_up_to(1024), [(1024, 2)]);
        assert_eq!(free.take_all().collect::<Vec<_>>(), [3]);
    }
}
