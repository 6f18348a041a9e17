//! What streams do, in terms that every driver understands.

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
    /// Copies between allocations.
    Copy { from: Place, to: Place },
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
    /// Whoever submits it.
    Caller,
    /// A thread, soon.
    Thread,
    /// Whoever submits it, or a thread, when that is asked for.
    Later,
}

/// Who may come after a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Followers {
    /// The host, and streams.
    Streams,
    /// The host alone: it needs no event of the driver.
    Host,
}

impl Followers {
    /// By whom the kernel is submitted: streams may be told to wait at once.
    pub(crate) fn submitting(self) -> Submitting {
        match self {
            Followers::Streams => Submitting::Caller,
            Followers::Host => Submitting::Thread,
        }
    }
}

/// A kernel with its arguments.
pub(crate) trait Launch: Send {
    /// Runs the host twin as far as it comes without waiting, on the device of this name. The
    /// ledger has ordered the accesses of the arguments.
    fn step_twin(&self, device: &str) -> Result<Step>;

    /// Whether the kernel is ready for the GPU of this number.
    #[cfg(feature = "cuda")]
    fn is_loaded(&self, gpu: u64) -> bool;

    /// Gets it ready, in the GPU's context, which is the calling thread's.
    #[cfg(feature = "cuda")]
    fn load(&self, context: &crate::cuda::GpuContext) -> Result<()>;

    /// Does beforehand what [`Launch::submit`] does before it calls the driver, of a loaded kernel.
    #[cfg(feature = "cuda")]
    fn make_ready(&mut self, context: &crate::cuda::GpuContext) -> Result<()>;

    /// Whether the kernel [says itself](crate::Tell) that it is over.
    #[cfg(feature = "cuda")]
    fn tells(&self) -> bool;

    /// Submits the kernel to a GPU.
    #[cfg(feature = "cuda")]
    fn submit(&mut self, lane: &crate::cuda::LaneStream<'_>) -> Result<()>;

    /// Takes over another launch, which comes right after this one; or gives it back.
    #[cfg(feature = "cuda")]
    fn join(&mut self, next: Box<dyn Launch>) -> Option<Box<dyn Launch>>;

    /// Whether it had better wait for others to join: see [`Parameter::gathers`](crate::Parameter::gathers).
    #[cfg(feature = "cuda")]
    fn gathers(&self) -> bool;

    /// To find out what it is.
    #[cfg(feature = "cuda")]
    fn as_any(&self) -> &dyn std::any::Any;

    /// As what it is.
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

    /// Some of its bytes, which must lie in it.
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
    /// Storing values in words, and what that uses.
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

    /// Runs the operation on this thread, as far as it comes without waiting, for the device of
    /// this name.
    ///
    /// # Safety
    /// The ledger has ordered it: nothing that conflicts runs beside it.
    pub(crate) unsafe fn run(&self, device: &str) -> Result<Step> {
        match self {
            Task::Copy { from, to } => in_turn(Some(&from.allocation), &to.allocation, || {
                if !(from.allocation.is_host_memory() && to.allocation.is_host_memory()) {
                    return copy_through_driver(from, to);
                }
                // SAFETY: ordered after all writes of the source and alone on the
                // destination, by the ledger or by the turns; lengths are equal.
                unsafe { std::ptr::copy(from.address(), to.address(), from.bytes()) };
                Ok(())
            }),
            Task::Upload { from, to } => in_turn(None, &to.allocation, || {
                let (from, is_guarded) = (from.bytes(), to.allocation.turns().is_some());
                // SAFETY: ordered alone on the destination, which is as long.
                let to = unsafe { std::slice::from_raw_parts_mut(to.address(), from.len()) };
                match is_guarded {
                    // Who waits for others may be lent to one that waits for this turn.
                    true => to.copy_from_slice(from),
                    false => copy_by_all_threads(from, to),
                }
                Ok(())
            }),
            Task::Fill { to, pattern } => in_turn(None, &to.allocation, || {
                // SAFETY: ordered alone on the destination, in range.
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

/// Does something that reads one allocation and writes another, if it is its turn there, where words
/// guard them; else it waits. It does not wait here: this thread may have been lent by who has the
/// turn, whose twin's blocks it helps with.
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
        // Release: what the stream did before comes before the value.
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
