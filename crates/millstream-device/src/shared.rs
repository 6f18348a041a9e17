//! Buffers whose items are only touched atomically, by many kernels at once.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use bytemuck::Pod;

use crate::ledger::AccessKind;
use crate::memory::{Allocation, DeviceBuffer};
use crate::{Error, Result};

mod sealed {
    pub trait Sealed {}
}

/// A number that devices and the host can change atomically.
pub trait AtomicPod: Pod + Send + Sync + sealed::Sealed {
    /// The atomic type of the same size.
    type Atomic: Send + Sync + 'static;

    #[doc(hidden)]
    fn load(atomic: &Self::Atomic) -> Self;
    #[doc(hidden)]
    fn store(atomic: &Self::Atomic, value: Self);
    #[doc(hidden)]
    fn swap(atomic: &Self::Atomic, value: Self) -> Self;
}

macro_rules! atomic_pod {
    ($number:ty, $atomic:ty) => {
        impl sealed::Sealed for $number {}

        impl AtomicPod for $number {
            type Atomic = $atomic;

            fn load(atomic: &$atomic) -> $number {
                // Acquire: pairs with whatever release made the value visible.
                atomic.load(Ordering::Acquire)
            }

            fn store(atomic: &$atomic, value: $number) {
                // Release: pairs with a kernel's acquire.
                atomic.store(value, Ordering::Release);
            }

            fn swap(atomic: &$atomic, value: $number) -> $number {
                // AcqRel: both of the above.
                atomic.swap(value, Ordering::AcqRel)
            }
        }
    };
}

atomic_pod!(u32, AtomicU32);
atomic_pod!(i32, AtomicI32);
atomic_pod!(u64, AtomicU64);

/// Items in the memory of a device that any number of kernels may use at once,
/// through atomics. Cheap to clone: all clones are the same items.
///
/// Copies of it count as plain accesses and must be ordered after the kernels.
///
/// ```
/// use millstream_device::{DeviceList, DeviceSet};
///
/// let set = DeviceSet::builder().devices(DeviceList::host(1)).build()?;
/// let words = set.host().shared::<u32>(2)?;
/// words.store(1, 7)?;
/// assert_eq!([words.load(0)?, words.load(1)?], [0, 7]);
/// # Ok::<(), millstream_device::Error>(())
/// ```
pub struct SharedBuffer<T: AtomicPod> {
    buffer: Arc<DeviceBuffer<T>>,
}

impl<T: AtomicPod> Clone for SharedBuffer<T> {
    fn clone(&self) -> SharedBuffer<T> {
        SharedBuffer { buffer: Arc::clone(&self.buffer) }
    }
}

impl<T: AtomicPod> fmt::Debug for SharedBuffer<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SharedBuffer({}, {} items)", self.buffer, self.len())
    }
}

impl<T: AtomicPod> SharedBuffer<T> {
    pub(crate) fn new(buffer: DeviceBuffer<T>) -> SharedBuffer<T> {
        SharedBuffer { buffer: Arc::new(buffer) }
    }

    /// Items in the buffer.
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Whether the buffer holds no item.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Names the buffer in errors.
    #[must_use]
    pub fn with_label(self, label: impl Into<Arc<str>>) -> SharedBuffer<T> {
        self.allocation().set_label(label.into());
        self
    }

    /// The item at `index`, for host code; of the host endpoint's buffers only.
    /// An acquire load: what a kernel wrote before its release is visible.
    ///
    /// # Errors
    /// A buffer elsewhere; an index out of range; a copy or a fill that may still write the buffer.
    pub fn load(&self, index: usize) -> Result<T> {
        self.on_host(index, AccessKind::Read, T::load)
    }

    /// Stores the item at `index`, for host code; of the host endpoint's buffers
    /// only. A release store.
    ///
    /// # Errors
    /// As [`SharedBuffer::load`]; a copy that may still read the buffer.
    pub fn store(&self, index: usize, value: T) -> Result<()> {
        self.on_host(index, AccessKind::Shared, |item| T::store(item, value))?;
        self.allocation().device.runner.bell().ring();
        Ok(())
    }

    /// Stores the item at `index` and returns the one before, in one step, for
    /// host code; of the host endpoint's buffers only.
    ///
    /// # Errors
    /// As [`SharedBuffer::store`].
    pub fn swap(&self, index: usize, value: T) -> Result<T> {
        let before = self.on_host(index, AccessKind::Shared, |item| T::swap(item, value))?;
        self.allocation().device.runner.bell().ring();
        Ok(before)
    }

    /// An operation on the buffer that the host has not waited for.
    pub fn in_flight(&self) -> Option<crate::InFlight> {
        self.buffer.in_flight()
    }

    /// Does something to an item while kernels may use it, but while nothing else uses it non-atomically.
    fn on_host<R>(
        &self,
        index: usize,
        kind: AccessKind,
        work: impl FnOnce(&T::Atomic) -> R,
    ) -> Result<R> {
        let item = self.host_item(index)?;
        let allocation = self.allocation();
        allocation.device.ledger.on_host(allocation, kind, || work(item))
    }

    fn host_item(&self, index: usize) -> Result<&T::Atomic> {
        let allocation = self.allocation();
        if !allocation.device.is_host_endpoint() {
            return Err(Error::NotHostAccessible { buffer: allocation.to_string() });
        }
        let (len, end) = (self.len(), index.saturating_add(1));
        if index >= len {
            let buffer = allocation.to_string();
            return Err(Error::OutOfRange { buffer, start: index, end, len });
        }
        let item = allocation.items::<T>(&(index..end)).cast::<T::Atomic>();
        // SAFETY: in range and aligned; the atomic has the number's size, and kernels touch the
        // item through the same atomic type only; copies do not while it is used: see `on_host`.
        Ok(unsafe { &*item })
    }

    pub(crate) fn allocation(&self) -> &Arc<Allocation> {
        self.buffer.allocation()
    }

    /// Checks the range of items for a copy, which the ledger orders after kernels.
    pub(crate) fn check(&self, range: &Range<usize>) -> Result<()> {
        self.buffer.part(range.clone()).map(drop)
    }
}
