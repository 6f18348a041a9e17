//! Words of pinned memory, which streams write.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use super::pinned::{Pinned, PinnedPool};
use crate::Result;
use crate::block::Contents;

/// Bytes from one word to the next: each has its own cache line.
const STRIDE: usize = 64;
/// Words of a page: one for each stream of a few GPUs.
const WORDS: usize = 64;

/// Words that are free for use.
#[derive(Debug)]
pub(crate) struct Words {
    pool: Arc<PinnedPool>,
    free: Mutex<Vec<(Arc<Pinned>, usize)>>,
}

impl Words {
    pub(super) fn new(pool: &Arc<PinnedPool>) -> Arc<Words> {
        Arc::new(Words { pool: Arc::clone(pool), free: Mutex::new(Vec::new()) })
    }

    /// A word that shows 0; `None` if there is no memory.
    ///
    /// # Errors
    /// The failure that poisoned the process.
    pub(super) fn take(self: &Arc<Self>) -> Result<Option<Word>> {
        let mut free = self.free.lock();
        if free.is_empty() {
            let Some(page) = self.pool.allocate(WORDS * STRIDE, Contents::Zeros)? else {
                return Ok(None);
            };
            let page = Arc::new(page);
            free.extend((0..WORDS).map(|place| (Arc::clone(&page), place * STRIDE)));
        }
        let Some((page, offset)) = free.pop() else { return Ok(None) };
        drop(free);
        let word = Word { page, offset, words: Arc::clone(self) };
        // Release: comes before the stream's first write, because its submission comes later.
        word.atomic().store(0, Ordering::Release);
        Ok(Some(word))
    }
}

/// A word of pinned memory.
#[derive(Debug)]
pub(crate) struct Word {
    page: Arc<Pinned>,
    offset: usize,
    words: Arc<Words>,
}

impl Word {
    fn atomic(&self) -> &AtomicU32 {
        // SAFETY: in the page, aligned, and touched by atomic stores of devices
        // and through this reference only.
        unsafe { &*self.page.address().wrapping_add(self.offset).cast() }
    }

    /// The word's address on devices.
    pub(super) fn address(&self) -> u64 {
        self.page.address() as u64 + self.offset as u64
    }

    pub(super) fn load(&self) -> u32 {
        // Acquire: pairs with the device's write of the word, which comes after what its stream did before.
        self.atomic().load(Ordering::Acquire)
    }
}

impl Drop for Word {
    fn drop(&mut self) {
        self.words.free.lock().push((Arc::clone(&self.page), self.offset));
    }
}
