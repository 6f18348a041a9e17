//! Parts of buffers, as operations take them.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;

use crate::memory::{Allocation, DeviceBuffer};
use crate::{Error, Result};

/// Whether a copy has as many items to read as to write.
pub(crate) fn same_length(from: usize, to: usize) -> Result<()> {
    if from == to { Ok(()) } else { Err(Error::LengthMismatch { from, to }) }
}

/// Some items of a buffer, for reading.
#[derive(Debug)]
pub struct Part<'a, T: Pod> {
    pub(crate) allocation: &'a Arc<Allocation>,
    pub(crate) range: Range<usize>,
    pub(crate) items: PhantomData<&'a [T]>,
}

impl<T: Pod> Part<'_, T> {
    /// Items in the part.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }
}

impl<'a, T: Pod> From<&'a DeviceBuffer<T>> for Part<'a, T> {
    fn from(buffer: &'a DeviceBuffer<T>) -> Part<'a, T> {
        Part { allocation: buffer.allocation(), range: 0..buffer.len(), items: PhantomData }
    }
}

/// Some items of a buffer, for writing.
#[derive(Debug)]
pub struct PartMut<'a, T: Pod> {
    pub(crate) allocation: &'a Arc<Allocation>,
    pub(crate) range: Range<usize>,
    pub(crate) items: PhantomData<&'a mut [T]>,
}

impl<T: Pod> PartMut<'_, T> {
    /// Items in the part.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }
}

impl<'a, T: Pod> From<&'a mut DeviceBuffer<T>> for PartMut<'a, T> {
    fn from(buffer: &'a mut DeviceBuffer<T>) -> PartMut<'a, T> {
        PartMut { allocation: buffer.allocation(), range: 0..buffer.len(), items: PhantomData }
    }
}
