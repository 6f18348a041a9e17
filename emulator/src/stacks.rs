//! Coroutines' stacks, many in a mapping: a process may have 65,530 mappings, and stacks with
//! guard pages take two each.

use std::num::NonZero;
use std::sync::Arc;

use corosensei::stack::{Stack, StackPointer};
use memmap2::{MmapOptions, MmapRaw};
use parking_lot::Mutex;

use crate::execute::Fault;

/// Bytes of a stack. Were it a power of two, what blocks' threads use would be in the same few
/// sets of the processor's caches.
const BYTES: usize = (256 << 10) + 13 * 64;
/// Stacks of a mapping.
const TOGETHER: usize = 256;
/// At the end of each: what has been written over shows that it was too small.
const MARK: u64 = 0x5AFE_5AFE_5AFE_5AFE;

/// A stack, and the mapping that it is in.
pub(crate) struct SmallStack {
    memory: Arc<MmapRaw>,
    number: usize,
}

/// Those that nobody uses.
static FREE: Mutex<Vec<SmallStack>> = Mutex::new(Vec::new());

/// A stack for a coroutine.
///
/// # Errors
/// No memory.
pub(crate) fn take() -> Result<SmallStack, Fault> {
    let mut free = FREE.lock();
    if free.is_empty() {
        let memory = MmapOptions::new().len(BYTES * TOGETHER).no_reserve_swap().map_anon();
        let memory = memory.map_err(|error| Fault(format!("no memory for stacks: {error}")))?;
        let memory = Arc::new(MmapRaw::from(memory));
        free.extend((0..TOGETHER).map(|number| SmallStack { memory: Arc::clone(&memory), number }));
    }
    let stack = free.pop().ok_or_else(|| Fault("no stack".to_string()))?;
    // SAFETY: the stack's last word, and nobody uses it.
    unsafe { stack.end().cast::<u64>().write(MARK) };
    Ok(stack)
}

/// Takes a stack back that no coroutine uses any more. False if it was too small.
pub(crate) fn give_back(stack: SmallStack) -> bool {
    // SAFETY: as above.
    let is_whole = unsafe { stack.end().cast::<u64>().read() } == MARK;
    FREE.lock().push(stack);
    is_whole
}

impl SmallStack {
    /// Where it ends: stacks grow downwards.
    fn end(&self) -> *mut u8 {
        self.memory.as_mut_ptr().wrapping_add(self.number * BYTES)
    }
}

/// A place in a mapping, which is never 0.
fn pointer(address: usize) -> StackPointer {
    NonZero::new(address).unwrap_or(NonZero::<usize>::MIN)
}

// SAFETY: memory of its own, aligned to pages, that stays where it is while this lives. There is
// no guard page: the mark at the end is looked at instead.
unsafe impl Stack for SmallStack {
    fn base(&self) -> StackPointer {
        pointer(self.end().addr() + BYTES)
    }

    fn limit(&self) -> StackPointer {
        pointer(self.end().addr())
    }
}
