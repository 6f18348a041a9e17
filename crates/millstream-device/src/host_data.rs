//! Items on the host, on their way to a device.

use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::{Error, Result};

/// Items on the host for an upload: owned or shared, never borrowed, because
/// the copy happens later. Making one moves the items, whatever holds them.
pub struct HostData<T> {
    /// Lies in what the owner holds.
    items: NonNull<[T]>,
    owner: Arc<dyn AsRef<[T]> + Send + Sync>,
}

// SAFETY: any thread may have references to the items, and may drop the owner.
unsafe impl<T: Sync> Send for HostData<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for HostData<T> {}

impl<T> fmt::Debug for HostData<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "HostData({} items)", self.len())
    }
}

impl<T> HostData<T> {
    /// Items that others may hold, too; they are not copied. `owner` is asked for them only once,
    /// in this call, since threads that others rely on run no code of the program.
    pub fn shared(owner: Arc<dyn AsRef<[T]> + Send + Sync>) -> HostData<T> {
        HostData { items: NonNull::from((*owner).as_ref()), owner }
    }

    /// Items to upload.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn items(&self) -> &[T] {
        // SAFETY: the owner lent them for as long as it is borrowed; while this holds it, nobody
        // can change it or take it apart.
        unsafe { self.items.as_ref() }
    }

    /// Some of the items; no copy is made.
    ///
    /// # Errors
    /// A range that does not lie in the data.
    pub fn slice(&self, range: Range<usize>) -> Result<HostData<T>> {
        let (start, end, len) = (range.start, range.end, self.len());
        let Some(items) = self.items().get(range) else {
            return Err(Error::OutOfRange { buffer: "host data".to_string(), start, end, len });
        };
        Ok(HostData { items: NonNull::from(items), owner: Arc::clone(&self.owner) })
    }
}

impl<T> Clone for HostData<T> {
    fn clone(&self) -> HostData<T> {
        HostData { items: self.items, owner: Arc::clone(&self.owner) }
    }
}

impl<T: Send + Sync + 'static> From<Vec<T>> for HostData<T> {
    fn from(items: Vec<T>) -> HostData<T> {
        HostData::shared(Arc::new(items))
    }
}

impl<T: Send + Sync + 'static> From<Arc<[T]>> for HostData<T> {
    fn from(items: Arc<[T]>) -> HostData<T> {
        HostData::shared(Arc::new(items))
    }
}
