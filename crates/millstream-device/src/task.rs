//! The work of streams, in terms that every driver understands.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytemuck::Pod;

use crate::Result;
use crate::bell::Bell;
use crate::host_data::HostData;
use crate::kernel::Step;
use crate::large_upload::copy_by_all_threads;
use crate::ledger::AccessKind;
use crate::memory::{Allocation, aligned};
use crate::parameter::Accesses;
use crate::shared::SharedBuffer;
use crate::turns::Turn;

/// An operation on memory, held until it is over.
pub(crate) enum Task {
    /// Copies between allocations: from each first place to the second, in any order.
    Copy(Vec<(Place, Place)>),
    /// Copies from the program's memory.
    Upload { from: Box<dyn HostBytes>, to: Place },
    /// Repeats a pattern.
    Fill { to: Place, pattern: Vec<u8> },
    /// Stores values in words.
    Signal(Vec<(Place, u32)>),
    /// Runs a kernel.
    Launch(Box<dyn Launch>),
}

/// Who gives an operation to a GPU's driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Submitting {
    /// The thread that submits it.
    Caller,
    /// Another thread, soon.
    Thread,
    /// The submitter, or another thread, once that is asked for.
    Later,
}

/// What may come after a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Followers {
    /// The host and streams.
    Streams,
    /// Only the host: no event of the driver is needed.
    Host,
}

impl Followers {
    /// Who submits the kernel: if streams follow, they may be told to wait at once.
    pub(crate) fn submitting(self) -> Submitting {
        match self {
            Followers::Streams => Submitting::Caller,
            Followers::Host => Submitting::Thread,
        }
    }
}

/// A kernel with its arguments.
pub(crate) trait Launch: Send {
    /// Runs the host twin as far as possible without waiting, on the device of this name. The
    /// ledger has ordered the accesses of the arguments.
    fn step_twin(&self, device: &str) -> Result<Step>;

    /// Whether the kernel is ready in this context.
    #[cfg(feature = "cuda")]
    fn is_loaded(&self, context: crate::cuda::ContextId) -> bool;

    /// Loads the kernel in the GPU's context, which is the calling thread's current one.
    #[cfg(feature = "cuda")]
    fn load(&self, context: &crate::cuda::GpuContext) -> Result<()>;

    /// Does in advance what [`Launch::submit`] would do before it calls the driver. The kernel has
    /// been loaded.
    #[cfg(feature = "cuda")]
    fn make_ready(&mut self, context: &crate::cuda::GpuContext) -> Result<()>;

    /// Whether the kernel [tells](crate::Tell) its end itself.
    #[cfg(feature = "cuda")]
    fn tells(&self) -> bool;

    /// Submits the kernel to a GPU.
    #[cfg(feature = "cuda")]
    fn submit(&mut self, lane: &crate::cuda::LaneStream<'_>) -> Result<()>;

    /// Takes over another launch, which comes right after this one, or returns it.
    #[cfg(feature = "cuda")]
    fn join(&mut self, next: Box<dyn Launch>) -> Option<Box<dyn Launch>>;

    /// Whether the launch had better wait for others to join: see
    /// [`Parameter::gathers`](crate::Parameter::gathers).
    #[cfg(feature = "cuda")]
    fn gathers(&self) -> bool;

    /// For access to the concrete type.
    #[cfg(feature = "cuda")]
    fn as_any(&self) -> &dyn std::any::Any;

    /// For conversion to the concrete type.
    #[cfg(feature = "cuda")]
    fn into_any(self: Box<Self>) -> Box<dyn std::any::Any>;
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

    /// Some of the bytes, which must lie within this place.
    pub(crate) fn part(&self, bytes: Range<usize>) -> Place {
        let start = self.range.start;
        let range = start + bytes.start..start + bytes.end;
        Place { allocation: Arc::clone(&self.allocation), range }
    }

    pub(crate) fn items<T>(&self) -> *mut T {
        aligned(self.address())
    }

    pub(crate) fn len<T: Pod>(&self) -> usize {
        self.range.len().checked_div(size_of::<T>()).unwrap_or(0)
    }
}

impl Task {
    /// A task that stores values in words, and its accesses.
    ///
    /// # Errors
    /// An index out of range.
    pub(crate) fn signal(words: &[(&SharedBuffer<u32>, usize, u32)]) -> Result<(Accesses, Task)> {
        let (mut accesses, mut places) = (Accesses::default(), Vec::new());
        for (buffer, index, value) in words {
            let range = *index..index.saturating_add(1);
            buffer.check(&range)?;
            accesses.add(buffer.allocation(), AccessKind::Shared);
            places.push((Place::new::<u32>(buffer.allocation(), &range), *value));
        }
        Ok((accesses, Task::Signal(places)))
    }

    /// Runs the operation on this thread, for the device of this name, as far as possible without waiting.
    ///
    /// # Safety
    /// The ledger has ordered it: nothing that conflicts runs beside it.
    pub(crate) unsafe fn run(&mut self, device: &str) -> Result<Step> {
        match self {
            Task::Copy(copies) => {
                while let Some((from, to)) = copies.last() {
                    // SAFETY: the caller's promise.
                    match unsafe { copy(from, to) }? {
                        // Those that are done are not done again.
                        Step::Done => copies.pop(),
                        step => return Ok(step),
                    };
                }
                Ok(Step::Done)
            }
            Task::Upload { from, to } => in_turn(None, &to.allocation, || {
                let (from, is_guarded) = (from.bytes(), to.allocation.turns().is_some());
                // SAFETY: ordered such that nothing else uses the destination, which has the same length.
                let to = unsafe { std::slice::from_raw_parts_mut(to.address(), from.len()) };
                match is_guarded {
                    // No other threads here: while waiting for them, this one might be lent to work
                    // that waits for this very turn.
                    true => to.copy_from_slice(from),
                    false => copy_by_all_threads(from, to),
                }
                Ok(())
            }),
            Task::Fill { to, pattern } => in_turn(None, &to.allocation, || {
                // SAFETY: ordered such that nothing else uses the destination, and in range.
                let bytes = unsafe { std::slice::from_raw_parts_mut(to.address(), to.bytes()) };
                if !pattern.is_empty() {
                    bytes
                        .chunks_exact_mut(pattern.len())
                        .for_each(|to| to.copy_from_slice(pattern));
                }
                Ok(())
            }),
            Task::Signal(words) => {
                store(words);
                Ok(Step::Done)
            }
            Task::Launch(launch) => launch.step_twin(device),
        }
    }
}

/// Copies items, as far as possible without waiting.
///
/// # Safety
/// As [`Task::run`].
unsafe fn copy(from: &Place, to: &Place) -> Result<Step> {
    in_turn(Some(&from.allocation), &to.allocation, || {
        if !(from.allocation.is_host_memory() && to.allocation.is_host_memory()) {
            return copy_through_driver(from, to);
        }
        // SAFETY: the ledger, or the turns, order the copy after all writes of the source,
        // and nothing else uses the destination; the lengths are equal.
        unsafe { std::ptr::copy(from.address(), to.address(), from.bytes()) };
        Ok(())
    })
}

/// Does something that reads one allocation and writes another. Where words guard them, it is done
/// only if the turn is free; otherwise this returns [`Step::Waits`]. It never blocks here: this
/// thread may be lent by the holder of the turn, whose twin's blocks it is helping with.
fn in_turn(
    from: Option<&Arc<Allocation>>,
    to: &Arc<Allocation>,
    work: impl FnOnce() -> Result<()>,
) -> Result<Step> {
    let from = from.filter(|from| !Arc::ptr_eq(from, to));
    let bell: &Bell = to.device.runner.bell();
    let (reading, writing) = (from.and_then(|from| from.turns()), to.turns());
    let reads = reading.map(|turns| turns.try_read().map(|guard| Turn::new(guard, turns, bell)));
    let writes = writing.map(|turns| turns.try_write().map(|guard| Turn::new(guard, turns, bell)));
    match (&reads, &writes) {
        (Some(None), _) | (_, Some(None)) => Ok(Step::Waits),
        _ => work().map(|()| Step::Done),
    }
}

fn store(words: &[(Place, u32)]) {
    for (place, value) in words {
        // SAFETY: in range and aligned; everyone touches it through the same atomic.
        let word = unsafe { &*place.items::<AtomicU32>() };
        // Release: everything that the stream did before is ordered before the value.
        word.store(*value, Ordering::Release);
    }
    if let Some((place, _)) = words.first() {
        place.allocation.device.runner.bell().ring();
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
