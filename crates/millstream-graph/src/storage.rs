//! Arrays that are owned, or lie in a mapped file.

use std::any::Any;
use std::fmt;
use std::ops::{Deref, Range};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;
use std::sync::Arc;

use bytemuck::{AnyBitPattern, PodCastError};
use memmap2::Mmap;

/// An array behind a slice; clones share it.
pub(crate) struct Storage<T> {
    /// The owner's items. The pointer is kept, since loops ask for the items with each row.
    items: NonNull<[T]>,
    /// A vector or the mapped file, which nobody changes.
    owner: Arc<dyn Any + Send + Sync + UnwindSafe + RefUnwindSafe>,
    is_mapped: bool,
}

// SAFETY: this is a shared slice, and any thread may drop its owner.
unsafe impl<T: Sync> Send for Storage<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Storage<T> {}

impl<T: AnyBitPattern> Storage<T> {
    /// The array in these bytes of a mapped file.
    ///
    /// # Errors
    /// Bytes that are not aligned, or not a whole number of elements.
    ///
    /// # Panics
    /// If the bytes are outside of the file.
    pub(crate) fn mapped(map: &Arc<Mmap>, bytes: Range<usize>) -> Result<Self, PodCastError> {
        let items = bytemuck::try_cast_slice::<u8, T>(&map[bytes])?;
        let owner = Arc::<Mmap>::clone(map);
        Ok(Storage { items: NonNull::from(items), owner, is_mapped: true })
    }
}

impl<T> Storage<T> {
    /// Whether the array lies in a mapped file.
    pub(crate) fn is_mapped(&self) -> bool {
        self.is_mapped
    }
}

impl<T: AnyBitPattern + Send + Sync + UnwindSafe + RefUnwindSafe> From<Vec<T>> for Storage<T> {
    fn from(array: Vec<T>) -> Storage<T> {
        let owner = Arc::new(array);
        Storage { items: NonNull::from(&owner[..]), owner, is_mapped: false }
    }
}

impl<T> Clone for Storage<T> {
    fn clone(&self) -> Storage<T> {
        Storage { items: self.items, owner: Arc::clone(&self.owner), is_mapped: self.is_mapped }
    }
}

impl<T> AsRef<[T]> for Storage<T> {
    fn as_ref(&self) -> &[T] {
        self
    }
}

impl<T> Deref for Storage<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the owner is kept alive, and its items neither move nor change: it is a vector
        // behind a shared pointer, or the mapping of a file that is only read.
        unsafe { self.items.as_ref() }
    }
}

impl<T: fmt::Debug> fmt::Debug for Storage<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, formatter)
    }
}

impl<T: PartialEq> PartialEq for Storage<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_outlive_each_other() {
        let storage = Storage::from(vec![1, 2, 3]);
        let other = storage.clone();
        assert_eq!(storage, other);
        drop(storage);
        let read = std::thread::spawn(move || other.to_vec());
        assert_eq!(read.join().unwrap(), [1, 2, 3]);
    }
}
