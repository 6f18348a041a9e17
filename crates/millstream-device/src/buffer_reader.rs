//! Reading a buffer that remains its owner's.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytemuck::Pod;

use crate::Result;
use crate::memory::{Allocation, DeviceBuffer, check_range};
use crate::part::Part;

/// A handle that lets operations read a buffer that stays its owner's; see
/// [`DeviceBuffer::reader`].
pub struct BufferReader<T: Pod> {
    allocation: Arc<Allocation>,
    len: usize,
    items: PhantomData<T>,
}

impl<T: Pod> fmt::Debug for BufferReader<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "BufferReader({})", self.allocation)
    }
}

impl<T: Pod> BufferReader<T> {
    pub(crate) fn new(buffer: &DeviceBuffer<T>) -> BufferReader<T> {
        let allocation = Arc::clone(buffer.allocation());
        // Relaxed: the owner that looks holds the buffer exclusively.
        allocation.readers.fetch_add(1, Ordering::Relaxed);
        BufferReader { allocation, len: buffer.len(), items: PhantomData }
    }

    /// A part of the buffer.
    ///
    /// # Errors
    /// A range that does not lie in the buffer.
    pub fn part(&self, range: Range<usize>) -> Result<Part<'_, T>> {
        check_range(&self.allocation, &range, self.len)?;
        Ok(Part { allocation: &self.allocation, range, items: PhantomData })
    }
}

impl<T: Pod> Drop for BufferReader<T> {
    fn drop(&mut self) {
        // Release: pairs with the owner's look.
        self.allocation.readers.fetch_sub(1, Ordering::Release);
    }
}
