//! Buffers whose users take turns by means of words, and those words.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use bytemuck::Pod;

use crate::bell::Bell;
use crate::device::Device;
use crate::kernel::KernelFault;
use crate::layout::ArgumentWriter;
use crate::ledger::AccessKind;
use crate::memory::{Allocation, DeviceBuffer};
use crate::parameter::{Accesses, Argument, Bound, Parameter};
use crate::part::{Part, PartMut};
use crate::shared::SharedBuffer;
use crate::task::Place;
use crate::turns::{Turn, Turns};
use crate::{Error, Result};

/// Items that copies, kernels and host code use side by side, because words say whose turn it is.
/// The ledger does not order these uses.
///
/// Host code and host devices use the items one writer or many readers at a time, whatever the
/// words say: a program that gets its words wrong reads old items, and nothing worse happens. GPUs
/// do what their kernels say, and what the caller of [`part_mut`](GuardedBuffer::part_mut) has
/// promised for copies.
///
/// Kernels take it as [`Guarded`], never as [`Read`](crate::Read) or
/// [`Write`](crate::Write); streams copy [parts](GuardedBuffer::part) of it.
///
/// ```
/// use millstream_device::{DeviceList, DeviceSet};
///
/// let set = DeviceSet::builder().devices(DeviceList::host(1)).build()?;
/// let items = set.host().guarded::<u32>(4)?;
/// items.write(2..4, |items| items.fill(7))?;
/// assert_eq!(items.read(1..3, |items| items.to_vec())?, [0, 7]);
/// # Ok::<(), millstream_device::Error>(())
/// ```
pub struct GuardedBuffer<T: Pod> {
    buffer: Arc<DeviceBuffer<T>>,
}

impl<T: Pod> Clone for GuardedBuffer<T> {
    fn clone(&self) -> GuardedBuffer<T> {
        GuardedBuffer { buffer: Arc::clone(&self.buffer) }
    }
}

impl<T: Pod> fmt::Debug for GuardedBuffer<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "GuardedBuffer({}, {} items)", self.buffer, self.len())
    }
}

impl<T: Pod> GuardedBuffer<T> {
    pub(crate) fn new(device: &Device, len: usize) -> Result<GuardedBuffer<T>> {
        Ok(GuardedBuffer { buffer: Arc::new(DeviceBuffer::new_guarded(device, len)?) })
    }

    /// Items in the buffer.
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Whether the buffer holds no item.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The device whose memory it is.
    pub fn device(&self) -> Device {
        self.buffer.device()
    }

    /// Names the buffer in errors.
    #[must_use]
    pub fn with_label(self, label: impl Into<Arc<str>>) -> GuardedBuffer<T> {
        self.buffer.allocation().set_label(label.into());
        self
    }

    /// Some of the items, as the source of a copy.
    ///
    /// # Errors
    /// A range that does not lie in the buffer.
    pub fn part(&self, range: Range<usize>) -> Result<Part<'_, T>> {
        self.buffer.part(range)
    }

    /// Some of the items, as the destination of a copy.
    ///
    /// # Safety
    /// If the buffer is in the host's memory: until a copy into it by a GPU or from a GPU's memory
    /// is over, neither host code nor a twin may read or write these items. (Calls that are refused
    /// after a fault of a GPU do neither.) Other copies wait for their turn by themselves.
    ///
    /// # Errors
    /// A range that does not lie in the buffer.
    pub unsafe fn part_mut(&self, range: Range<usize>) -> Result<PartMut<'_, T>> {
        let Part { allocation, range, .. } = self.buffer.part(range)?;
        Ok(PartMut { allocation, range, items: std::marker::PhantomData })
    }

    /// Whether an operation on the buffer may be under way that the host has not
    /// waited for, and which.
    pub fn in_flight(&self) -> Option<crate::InFlight> {
        self.buffer.in_flight()
    }

    /// Lets host code read items, of the host endpoint's buffers only. `read` must be short and
    /// wait for nothing, since writers wait for it.
    ///
    /// # Errors
    /// A buffer that lies elsewhere; a range out of bounds; a call from within such a closure of
    /// the same buffer ([`Error::Nested`]); after a fault of a GPU, that fault, since other GPUs
    /// may still copy into whatever memory they reach.
    pub fn read<R>(&self, range: Range<usize>, read: impl FnOnce(&[T]) -> R) -> Result<R> {
        let (turns, items) = self.host_items(&range)?;
        let _one = self.alone_on_thread()?;
        let _turn = Turn::new(turns.lock.read(), turns, self.bell());
        // SAFETY: in range; whoever writes into the host's memory takes the lock, or has vouched
        // for it: see `part_mut`.
        Ok(read(unsafe { std::slice::from_raw_parts(items, range.len()) }))
    }

    /// Lets host code write items; of the host endpoint's buffers only. `write` must be
    /// short and wait for nothing.
    ///
    /// # Errors
    /// As [`GuardedBuffer::read`].
    pub fn write<R>(&self, range: Range<usize>, write: impl FnOnce(&mut [T]) -> R) -> Result<R> {
        let (turns, items) = self.host_items(&range)?;
        let _one = self.alone_on_thread()?;
        let _turn = Turn::new(turns.lock.write(), turns, self.bell());
        // SAFETY: in range, and the lock is held exclusively; for copies of GPUs, see `part_mut`.
        Ok(write(unsafe { std::slice::from_raw_parts_mut(items, range.len()) }))
    }

    fn host_items(&self, range: &Range<usize>) -> Result<(&Turns, *mut T)> {
        let allocation = self.buffer.allocation();
        self.part(range.clone())?;
        allocation.device.ledger.check_gpus()?;
        match (allocation.device.is_host_endpoint(), allocation.turns()) {
            (true, Some(turns)) => Ok((turns, allocation.items(range))),
            _ => Err(Error::NotHostAccessible { buffer: allocation.to_string() }),
        }
    }

    fn alone_on_thread(&self) -> Result<AtItems> {
        let allocation = self.buffer.allocation();
        AtItems::new(Arc::as_ptr(allocation)).ok_or_else(|| {
            let buffer = allocation.to_string();
            Error::Nested { buffer }
        })
    }

    fn bell(&self) -> &Bell {
        self.buffer.allocation().device.runner.bell()
    }
}

thread_local! {
    /// Buffers whose items host code of this thread is using.
    static AT_ITEMS_OF: RefCell<Vec<*const Allocation>> = const { RefCell::new(Vec::new()) };
}

/// Host code of this thread uses a buffer's items until this is dropped.
struct AtItems(*const Allocation);

impl AtItems {
    /// `None` if it uses them already.
    fn new(buffer: *const Allocation) -> Option<AtItems> {
        AT_ITEMS_OF.with_borrow_mut(|buffers| {
            (!buffers.contains(&buffer)).then(|| {
                buffers.push(buffer);
                AtItems(buffer)
            })
        })
    }
}

impl Drop for AtItems {
    fn drop(&mut self) {
        AT_ITEMS_OF.with_borrow_mut(|buffers| buffers.retain(|buffer| *buffer != self.0));
    }
}

/// Items that words guard; the twin sees [`GuardedItems`].
#[derive(Debug)]
pub struct Guarded<T>(std::marker::PhantomData<T>);

/// What a twin sees of a [`GuardedBuffer`]. Nothing here waits: `None` says that it is another's
/// turn, and that the twin will be stepped again when that turn is over. After a fault of a GPU
/// nobody gets a turn, since other GPUs may still copy into whatever memory they reach.
#[derive(Debug)]
pub struct GuardedItems<'a, T> {
    allocation: &'a Arc<Allocation>,
    items: *mut T,
    len: usize,
}

impl<T> Clone for GuardedItems<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for GuardedItems<'_, T> {}

// SAFETY: the pointer is dereferenced only while the lock is held.
unsafe impl<T: Send + Sync> Send for GuardedItems<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for GuardedItems<'_, T> {}

impl<T: Pod> GuardedItems<'_, T> {
    /// Items.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Lets the twin read items; `None` if anyone (even this twin) is writing, or the range is out of bounds.
    ///
    /// # Errors
    /// A fault of a GPU.
    pub fn try_read<R>(
        &self,
        range: Range<usize>,
        read: impl FnOnce(&[T]) -> R,
    ) -> Result<Option<R>, KernelFault> {
        self.allocation.device.ledger.check_gpus()?;
        Ok(self.read_in_turn(&range, read))
    }

    fn read_in_turn<R>(&self, range: &Range<usize>, read: impl FnOnce(&[T]) -> R) -> Option<R> {
        let (turns, items) = self.at(range)?;
        let _turn = Turn::new(turns.try_read()?, turns, self.allocation.device.runner.bell());
        // SAFETY: in range; whoever writes takes the lock, or has vouched for it: see `part_mut`.
        Some(read(unsafe { std::slice::from_raw_parts(items, range.len()) }))
    }

    /// Lets the twin write items; `None` if anyone (even this twin) is using them, or the range is out of
    /// bounds.
    ///
    /// # Errors
    /// A fault of a GPU.
    pub fn try_write<R>(
        &self,
        range: Range<usize>,
        write: impl FnOnce(&mut [T]) -> R,
    ) -> Result<Option<R>, KernelFault> {
        self.allocation.device.ledger.check_gpus()?;
        Ok(self.write_in_turn(&range, write))
    }

    fn write_in_turn<R>(
        &self,
        range: &Range<usize>,
        write: impl FnOnce(&mut [T]) -> R,
    ) -> Option<R> {
        let (turns, items) = self.at(range)?;
        let _turn = Turn::new(turns.try_write()?, turns, self.allocation.device.runner.bell());
        // SAFETY: in range, and the lock is held exclusively; for copies of GPUs, see `part_mut`.
        Some(write(unsafe { std::slice::from_raw_parts_mut(items, range.len()) }))
    }

    fn at(&self, range: &Range<usize>) -> Option<(&Turns, *mut T)> {
        let is_inside = range.start <= range.end && range.end <= self.len;
        let turns = self.allocation.turns().filter(|_| is_inside)?;
        Some((turns, self.items.wrapping_add(range.start)))
    }
}

// SAFETY: what is bound is given out in its place and in the way in which it was bound.
unsafe impl<T: Pod + Send + Sync> Parameter for Guarded<T> {
    type Bound = Bound;
    type View<'a> = GuardedItems<'a, T>;

    fn write(bound: &Bound, to: &mut ArgumentWriter) {
        to.span(bound.0.address(), bound.0.len::<T>());
    }

    unsafe fn view(bound: &Bound) -> GuardedItems<'_, T> {
        let Bound(place) = bound;
        GuardedItems { allocation: place.allocation(), items: place.items(), len: place.len::<T>() }
    }
}

// SAFETY: a shared use of what is returned is declared; taking turns does the rest.
unsafe impl<T: Pod + Send + Sync> Argument<Guarded<T>> for &GuardedBuffer<T> {
    fn bind(self, accesses: &mut Accesses) -> Result<Bound> {
        let allocation = self.buffer.allocation();
        accesses.add(allocation, AccessKind::Shared);
        Ok(Bound(Place::new::<T>(allocation, &(0..self.len()))))
    }
}

/// Words that say whose turn it is: a [`SharedBuffer`] which, when it changes, has waiting twins
/// look again. The twin sees [`WordsView`].
#[derive(Debug)]
pub struct Words;

/// What a twin sees of [`Words`].
#[derive(Clone, Copy, Debug)]
pub struct WordsView<'a> {
    words: &'a [AtomicU32],
    bell: &'a Bell,
}

impl<'a> WordsView<'a> {
    /// The words. Whoever changes one that others wait for [rings](WordsView::ring).
    pub fn words(&self) -> &'a [AtomicU32] {
        self.words
    }

    /// Tells those who wait that a word has changed.
    pub fn ring(&self) {
        self.bell.ring();
    }
}

// SAFETY: what is bound is given out in its place and in the way in which it was bound.
unsafe impl Parameter for Words {
    type Bound = Bound;
    type View<'a> = WordsView<'a>;

    fn write(bound: &Bound, to: &mut ArgumentWriter) {
        to.span(bound.0.address(), bound.0.len::<u32>());
    }

    unsafe fn view(bound: &Bound) -> WordsView<'_> {
        let words = bound.0.items::<u32>().cast::<AtomicU32>();
        // SAFETY: in range and aligned, of the same size; whatever runs beside this operation uses
        // the same atomics.
        let words = unsafe { std::slice::from_raw_parts(words, bound.0.len::<u32>()) };
        WordsView { words, bell: bound.0.allocation().device.runner.bell() }
    }
}

// SAFETY: a shared use of what is returned is declared.
unsafe impl Argument<Words> for &SharedBuffer<u32> {
    fn bind(self, accesses: &mut Accesses) -> Result<Bound> {
        accesses.add(self.allocation(), AccessKind::Shared);
        Ok(Bound(Place::new::<u32>(self.allocation(), &(0..self.len()))))
    }
}
