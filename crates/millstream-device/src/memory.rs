//! Memory of a device: allocations, and the buffers that own them.

use std::alloc::Layout;
use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytemuck::Pod;
use parking_lot::Mutex;

use crate::block::{ALIGNMENT, Block, Contents};
use crate::bound_uses::BoundUses;
use crate::buffer_reader::BufferReader;
use crate::device::{Device, DeviceCore, DevicePlace};
use crate::event::Event;
use crate::ledger::{Access, AccessKind, InFlight};
use crate::part::{Part, PartMut};
use crate::stream::Stream;
use crate::turns::Turns;
use crate::{Error, Result};

/// Memory of a device, freed when neither a buffer nor an operation
/// holds it any more.
pub(crate) struct Allocation {
    id: u64,
    label: Mutex<Option<Arc<str>>>,
    pub(crate) device: Arc<DeviceCore>,
    block: Block,
    /// Bytes counted against the device's budget.
    counted: u64,
    /// Whether host code may look at it even if the device is not the host.
    is_staging: bool,
    /// Accesses that may be under way; changed by the ledger only.
    pub(crate) record: Mutex<Vec<Access>>,
    /// Live [`BufferReader`]s, by which operations may still be submitted.
    pub(crate) readers: AtomicUsize,
    pub(crate) bound: BoundUses,
    /// For memory guarded by words.
    turns: Option<Turns>,
    /// Whether it must not be written: see [`Stream::lent`].
    pub(crate) is_lent: AtomicBool,
}

// SAFETY: the memory is plain bytes; the ledger decides when operations may touch it, and borrows
// of the owning buffer decide when host code may.
unsafe impl Send for Allocation {}
// SAFETY: as above.
unsafe impl Sync for Allocation {}

impl fmt::Debug for Allocation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Allocation({self})")
    }
}

impl fmt::Display for Allocation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "buffer {}", self.id)?;
        if let Some(label) = self.label.lock().as_ref() {
            write!(formatter, " ({label})")?;
        }
        Ok(())
    }
}

impl Allocation {
    fn new(device: &Device, items: Layout, contents: Contents) -> Result<Allocation> {
        let core = &device.core;
        core.faults.check("allocate", core.name())?;
        let is_aligned = match &core.place {
            DevicePlace::Host => core.host_memory.aligns(items),
            #[cfg(feature = "cuda")]
            DevicePlace::Gpu(_) => items.align() <= ALIGNMENT,
        };
        check_alignment(core, items, is_aligned)?;
        let bytes = items.size() as u64;
        let counted = core.reserve(bytes)?;
        let block = match &core.place {
            DevicePlace::Host => core.host_memory.allocate(items, contents),
            #[cfg(feature = "cuda")]
            DevicePlace::Gpu(gpu) => {
                gpu.allocate(items.size(), contents).map(|memory| memory.map(Block::Gpu))
            }
        };
        match block {
            Ok(Some(block)) => Ok(Allocation::of(core, block, counted)),
            refused => {
                core.give_back(counted);
                refused.and(Err(core.out_of_memory(bytes)))
            }
        }
    }

    /// Memory of the host in addition to a device's own; it does not count against the budget, and
    /// injected failures do not apply to it.
    fn staging(device: &Device, items: Layout) -> Result<Allocation> {
        let core = &device.core;
        check_alignment(core, items, core.host_memory.aligns(items))?;
        let block = core.host_memory.allocate(items, Contents::Any)?;
        let block = block.ok_or_else(|| core.out_of_host_memory(items.size() as u64))?;
        let mut allocation = Allocation::of(core, block, 0);
        allocation.is_staging = true;
        Ok(allocation)
    }

    pub(crate) fn of(core: &Arc<DeviceCore>, block: Block, counted: u64) -> Allocation {
        Allocation {
            id: core.number_buffer(),
            label: Mutex::new(None),
            device: Arc::clone(core),
            block,
            counted,
            is_staging: false,
            record: Mutex::new(Vec::new()),
            readers: AtomicUsize::new(0),
            bound: BoundUses::default(),
            turns: None,
            is_lent: AtomicBool::new(false),
        }
    }

    pub(crate) fn address(&self) -> *mut u8 {
        self.block.address()
    }

    /// The turns, for memory guarded by words.
    pub(crate) fn turns(&self) -> Option<&Turns> {
        self.turns.as_ref()
    }

    /// How the ledger sees a copy's access: as shared if words guard the memory, since they order the uses.
    pub(crate) fn access(self: &Arc<Self>, kind: AccessKind) -> (Arc<Allocation>, AccessKind) {
        let kind = if self.turns.is_some() { AccessKind::Shared } else { kind };
        (Arc::clone(self), kind)
    }

    /// Refuses guarded memory: kernels take it only as guarded.
    pub(crate) fn refuse_guarded(&self) -> Result<()> {
        match self.turns {
            Some(_) => Err(Error::Guarded { buffer: self.to_string() }),
            None => Ok(()),
        }
    }

    /// Whether threads of the host may touch the bytes.
    pub(crate) fn is_host_memory(&self) -> bool {
        match &self.block {
            Block::Heap { .. } => true,
            #[cfg(feature = "cuda")]
            Block::Pinned(_) => true,
            #[cfg(feature = "cuda")]
            Block::Gpu(_) => false,
            Block::Adopted { .. } => matches!(self.device.place, DevicePlace::Host),
        }
    }

    /// The GPU whose memory it is; `None` for the host's.
    #[cfg(feature = "cuda")]
    pub(crate) fn gpu(&self) -> Option<&Arc<crate::cuda::GpuContext>> {
        match &self.block {
            Block::Gpu(memory) => Some(memory.context()),
            Block::Heap { .. } | Block::Pinned(_) => None,
            Block::Adopted { .. } => match &self.device.place {
                DevicePlace::Gpu(gpu) => Some(gpu.context()),
                DevicePlace::Host => None,
            },
        }
    }

    /// Whether it is the program's own memory, which GPUs need not reach.
    #[cfg(feature = "cuda")]
    pub(crate) fn is_of_the_program(&self) -> bool {
        matches!(self.block, Block::Adopted { .. }) && self.is_host_memory()
    }

    pub(crate) fn set_label(&self, label: Arc<str>) {
        *self.label.lock() = Some(label);
    }

    /// The items of `range`, not yet tied to any lifetime.
    pub(crate) fn items<T: Pod>(&self, range: &Range<usize>) -> *mut T {
        aligned::<T>(self.address()).wrapping_add(range.start)
    }
}

/// Where items begin. Even an empty slice must be aligned, so if alignment ([`DeviceBuffer::cast`])
/// leaves no room for items, this is any aligned address.
pub(crate) fn aligned<T>(address: *mut u8) -> *mut T {
    let items = address.cast::<T>();
    if items.is_aligned() { items } else { std::ptr::dangling_mut() }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        self.device.give_back(self.counted);
    }
}

/// Items in the memory of a device, used by one writer or many readers at a
/// time, which the device's ledger checks.
///
/// Dropping a buffer in use is safe: the memory is freed when the operations on
/// it are over.
///
/// ```
/// use millstream_device::{DeviceList, DeviceSet};
///
/// let set = DeviceSet::builder().devices(DeviceList::host(1)).build()?;
/// let stream = set.devices()[0].stream()?;
/// let buffer = stream.uploaded(vec![1u32, 2, 3])?;
/// let copy = set.block_on(stream.download(&buffer)?)??;
/// assert_eq!(copy, [1, 2, 3]);
/// # Ok::<(), millstream_device::Error>(())
/// ```
///
/// What the host looks at cannot be given to a kernel that writes it:
///
/// ```compile_fail,E0502
/// # use millstream_device::{DeviceList, DeviceSet, Kernel, Write};
/// # static CLEAR: Kernel<(Write<u32>,)> = Kernel::new("clear", |_, _| Ok(()));
/// # let set = DeviceSet::builder().devices(DeviceList::host(1)).build()?;
/// # let stream = set.host().stream()?;
/// let mut buffer = set.host().buffer::<u32>(3)?;
/// let view = buffer.host_view()?;
/// CLEAR.launch(&stream, 3, (&mut buffer,))?;
/// assert_eq!(view[0], 0);
/// # Ok::<(), millstream_device::Error>(())
/// ```
///
/// When it has looked, it can:
///
/// ```
/// # use millstream_device::{DeviceList, DeviceSet, Kernel, Write};
/// # static CLEAR: Kernel<(Write<u32>,)> = Kernel::new("clear", |_, _| Ok(()));
/// # let set = DeviceSet::builder().devices(DeviceList::host(1)).build()?;
/// # let stream = set.host().stream()?;
/// let mut buffer = set.host().buffer::<u32>(3)?;
/// let view = buffer.host_view()?;
/// assert_eq!(view[0], 0);
/// CLEAR.launch(&stream, 3, (&mut buffer,))?;
/// # Ok::<(), millstream_device::Error>(())
/// ```
pub struct DeviceBuffer<T: Pod> {
    allocation: Arc<Allocation>,
    /// Bytes of the memory; the items may occupy slightly fewer.
    bytes: usize,
    len: usize,
    items: PhantomData<T>,
}

impl<T: Pod> fmt::Debug for DeviceBuffer<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "DeviceBuffer({self}, {} items)", self.len)
    }
}

/// `buffer 12 (its label)`.
impl<T: Pod> fmt::Display for DeviceBuffer<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.allocation, formatter)
    }
}

impl<T: Pod> DeviceBuffer<T> {
    pub(crate) fn new(device: &Device, len: usize, contents: Contents) -> Result<DeviceBuffer<T>> {
        let items = layout_of::<T>(device, len)?;
        let allocation = Arc::new(Allocation::new(device, items, contents)?);
        Ok(DeviceBuffer::of(allocation, len))
    }

    /// Memory that belongs to somebody else: see [`Device::adopt`].
    pub(crate) fn adopted(
        device: &Device,
        address: usize,
        len: usize,
        owner: Box<dyn Any + Send>,
    ) -> DeviceBuffer<T> {
        let block = Block::Adopted { address, owner: Some(owner) };
        DeviceBuffer::of(Arc::new(Allocation::of(&device.core, block, 0)), len)
    }

    /// The whole of an allocation that has room for this many items.
    pub(crate) fn of(allocation: Arc<Allocation>, len: usize) -> DeviceBuffer<T> {
        DeviceBuffer {
            allocation,
            bytes: len.saturating_mul(size_of::<T>()),
            len,
            items: PhantomData,
        }
    }

    /// Memory guarded by words.
    pub(crate) fn new_guarded(device: &Device, len: usize) -> Result<DeviceBuffer<T>> {
        let mut allocation =
            Allocation::new(device, layout_of::<T>(device, len)?, Contents::Zeros)?;
        allocation.turns = Some(Turns::default());
        Ok(DeviceBuffer::of(Arc::new(allocation), len))
    }

    /// Memory of the host, for copies from `device`.
    pub(crate) fn new_in_host_memory(device: &Device, len: usize) -> Result<DeviceBuffer<T>> {
        let allocation = Arc::new(Allocation::staging(device, layout_of::<T>(device, len)?)?);
        Ok(DeviceBuffer::of(allocation, len))
    }

    pub(crate) fn allocation(&self) -> &Arc<Allocation> {
        &self.allocation
    }

    /// Items in the buffer.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the buffer holds no item.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of the buffer, unique in its device set.
    pub fn id(&self) -> u64 {
        self.allocation.id
    }

    /// The device whose memory it is.
    pub fn device(&self) -> Device {
        Device { core: Arc::clone(&self.allocation.device) }
    }

    /// Names the buffer in errors.
    #[must_use]
    pub fn with_label(self, label: impl Into<Arc<str>>) -> DeviceBuffer<T> {
        self.allocation.set_label(label.into());
        self
    }

    /// The same memory for items of another type: as many as fit in all of it. There are none if
    /// the memory does not begin at an address where such an item may lie. This can happen if the
    /// memory was [adopted](Device::adopt) or [lent](Stream::lent), or if the items are aligned to
    /// more than 256 bytes.
    ///
    /// ```
    /// use millstream_device::{DeviceBuffer, DeviceList, DeviceSet};
    ///
    /// let set = DeviceSet::builder().devices(DeviceList::host(1)).build()?;
    /// let words = set.devices()[0].buffer::<u32>(7)?;
    /// let items: DeviceBuffer<[u32; 3]> = words.cast();
    /// assert_eq!(items.len(), 2);
    /// assert_eq!(items.cast::<u32>().len(), 7);
    /// # Ok::<(), millstream_device::Error>(())
    /// ```
    #[must_use]
    pub fn cast<U: Pod>(self) -> DeviceBuffer<U> {
        let DeviceBuffer { allocation, bytes, .. } = self;
        let is_aligned = allocation.address().addr().is_multiple_of(align_of::<U>());
        let len =
            if is_aligned { bytes.checked_div(size_of::<U>()).unwrap_or(usize::MAX) } else { 0 };
        DeviceBuffer { allocation, bytes, len, items: PhantomData }
    }

    /// A part of the buffer, for reading.
    ///
    /// # Errors
    /// A range that does not lie in the buffer.
    pub fn part(&self, range: Range<usize>) -> Result<Part<'_, T>> {
        check_range(&self.allocation, &range, self.len)?;
        Ok(Part { allocation: &self.allocation, range, items: PhantomData })
    }

    /// A part of the buffer, for writing.
    ///
    /// # Errors
    /// A range that does not lie in the buffer.
    pub fn part_mut(&mut self, range: Range<usize>) -> Result<PartMut<'_, T>> {
        check_range(&self.allocation, &range, self.len)?;
        Ok(PartMut { allocation: &self.allocation, range, items: PhantomData })
    }

    /// A handle through which operations may read the buffer later, while it stays the caller's. If
    /// a later read and a write by the owner are not ordered, the ledger refuses the one that comes
    /// second.
    pub fn reader(&self) -> BufferReader<T> {
        BufferReader::new(self)
    }

    /// The items, for host code; of the host endpoint's buffers only.
    ///
    /// # Errors
    /// A buffer that lies elsewhere; a write that the host has not waited for, or that a bound
    /// kernel ([`Kernel::bind`](crate::Kernel::bind)) will make; after a fault of a GPU, that
    /// fault, since other GPUs may still write whatever memory they reach.
    pub fn host_view(&self) -> Result<&[T]> {
        self.allocation.check_host(AccessKind::Read)?;
        let items = self.allocation.items::<T>(&(0..self.len));
        // SAFETY: in range; writes are over, none is bound, and a new one would need an exclusive
        // borrow of the buffer, which this shared borrow excludes.
        Ok(unsafe { std::slice::from_raw_parts(items, self.len) })
    }

    /// The items, to be written by host code; of the host endpoint's buffers only.
    ///
    /// # Errors
    /// A buffer elsewhere; one that is [lent](Stream::lent); an access that the host has not waited for, or
    /// that a bound kernel is about to do; a live [`BufferReader`]; a fault of a GPU, as in
    /// [`DeviceBuffer::host_view`].
    pub fn host_view_mut(&mut self) -> Result<&mut [T]> {
        self.allocation.check_host(AccessKind::Write)?;
        let items = self.allocation.items::<T>(&(0..self.len));
        // SAFETY: in range; nothing is in flight or bound, nothing can be submitted
        // while this exclusive borrow lives, and any bytes are a T.
        Ok(unsafe { std::slice::from_raw_parts_mut(items, self.len) })
    }

    /// An operation on the buffer that the host has not waited for.
    pub fn in_flight(&self) -> Option<InFlight> {
        self.allocation.device.ledger.in_flight(&self.allocation)
    }

    /// Checks that an event recorded on `stream` now comes after every
    /// operation on the buffer so far. An error names `operation`, for which it is recorded.
    ///
    /// # Errors
    /// [`Error::Hazard`] with the operation that does not.
    pub fn covered_by(&self, stream: &Stream, operation: &str) -> Result<()> {
        stream.check_set(operation, &self.allocation.device.ledger)?;
        let name = || format!("{operation} after {}", stream.place());
        self.allocation.device.ledger.check_covered(stream.index(), &self.allocation, name)
    }

    /// Forgets operations that come before `event`, which must be complete: the next user of the
    /// buffer need not wait for them. Does nothing if `event` is not complete, or belongs to
    /// another device set.
    pub fn retire(&self, event: &Event) {
        let ledger = &self.allocation.device.ledger;
        // Streams of other ledgers have the same numbers.
        if event.is_complete() && Arc::ptr_eq(event.ledger(), ledger) {
            ledger.retire(&self.allocation, event.clock());
        }
    }
}

impl Allocation {
    /// Whether host code may have a view with which it makes accesses of `kind`. The order of
    /// checks matters: a reader's copy is in the ledger, or bound, before the reader is dropped;
    /// and a bound kernel is in the ledger before it stops being counted as bound.
    fn check_host(&self, kind: AccessKind) -> Result<()> {
        if !self.device.is_host_endpoint() && !self.is_staging {
            return Err(Error::NotHostAccessible { buffer: self.to_string() });
        }
        self.check_lent("host code", kind)?;
        let hazard = |conflicting: &str, event: &str| {
            let (operation, buffer) = ("host code".to_string(), self.to_string());
            let (conflicting, event) = (conflicting.to_string(), event.to_string());
            Error::Hazard { operation, buffer, conflicting, event }
        };
        // Acquire: pairs with the reader's drop.
        if kind == AccessKind::Write && self.readers.load(Ordering::Acquire) > 0 {
            return Err(hazard("a reader that may still copy it", "the end of that reader"));
        }
        // After a fault of one GPU, everything that all GPUs have been given fails, while other
        // GPUs run on. So a failed event does not mean that nobody uses the memory; nor does the
        // ledger know all memory that GPUs reach.
        self.device.ledger.check_gpus()?;
        let is_bound = || hazard("a bound kernel", "an event recorded after it is submitted");
        self.bound.check(kind, is_bound, || self.device.ledger.check_host(self, kind))
    }
}

fn layout_of<T>(device: &Device, len: usize) -> Result<Layout> {
    Layout::array::<T>(len).map_err(|_| device.core.out_of_memory(u64::MAX))
}

fn check_alignment(core: &DeviceCore, items: Layout, is_aligned: bool) -> Result<()> {
    let (device, alignment) = (core.name().to_string(), items.align());
    match is_aligned {
        true => Ok(()),
        false => Err(Error::Alignment { device, alignment, most: ALIGNMENT }),
    }
}

pub(crate) fn check_range(allocation: &Allocation, range: &Range<usize>, len: usize) -> Result<()> {
    if range.start <= range.end && range.end <= len {
        return Ok(());
    }
    let buffer = allocation.to_string();
    Err(Error::OutOfRange { buffer, start: range.start, end: range.end, len })
}
