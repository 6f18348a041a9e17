//! Arrays that are owned, or lie in a mapped file.

use std::ops::{Deref, Range};
use std::sync::Arc;

use bytemuck::{AnyBitPattern, PodCastError};
use memmap2::Mmap;

/// An array behind a slice; clones share it.
#[derive(Clone, Debug)]
pub(crate) enum Storage<T> {
    Owned(Arc<Vec<T>>),
    /// Bytes of the file that hold the array; only [`Storage::mapped`] makes it.
    Mapped(Arc<Mmap>, Range<usize>),
}

impl<T: AnyBitPattern> Storage<T> {
    /// The array in these bytes of the file.
    ///
    /// # Errors
    /// Bytes that are not aligned, or are no whole number of elements.
    ///
    /// # Panics
    /// If the bytes are not in the file.
    pub(crate) fn mapped(map: &Arc<Mmap>, bytes: Range<usize>) -> Result<Self, PodCastError> {
        bytemuck::try_cast_slice::<u8, T>(&map[bytes.clone()])?;
        Ok(Storage::Mapped(Arc::clone(map), bytes))
    }
}

impl<T> From<Vec<T>> for Storage<T> {
    fn from(array: Vec<T>) -> Storage<T> {
        Storage::Owned(Arc::new(array))
    }
}

impl<T: AnyBitPattern> AsRef<[T]> for Storage<T> {
    fn as_ref(&self) -> &[T] {
        self
    }
}

impl<T: AnyBitPattern> Deref for Storage<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Storage::Owned(array) => array,
            Storage::Mapped(map, bytes) => bytemuck::cast_slice(&map[bytes.clone()]),
        }
    }
}

impl<T: AnyBitPattern + PartialEq> PartialEq for Storage<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}
