//! Items on the host, on their way to a device.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::{Error, Result};

/// Items on the host for an upload: owned or shared, never borrowed, because
/// the copy happens later. Making one moves the items, whatever holds them.
pub struct HostData<T> {
    items: Arc<dyn AsRef<[T]> + Send + Sync>,
    range: Range<usize>,
}

impl<T> fmt::Debug for HostData<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "HostData({} items)", self.range.len())
    }
}

impl<T> HostData<T> {
    /// Items that others may hold, too; no copy is made. They are to be the same each time that they are
    /// asked for.
    pub fn shared(items: Arc<dyn AsRef<[T]> + Send + Sync>) -> HostData<T> {
        let range = 0..(*items).as_ref().len();
        HostData { items, range }
    }

    /// Items to upload.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    pub(crate) fn items(&self) -> &[T] {
        &(*self.items).as_ref()[self.range.clone()]
    }

    /// Some of the items; no copy is made.
    ///
    /// # Errors
    /// A range that does not lie in the data.
    pub fn slice(&self, range: Range<usize>) -> Result<HostData<T>> {
        let len = self.len();
        if range.start > range.end || range.end > len {
            let buffer = "host data".to_string();
            return Err(Error::OutOfRange { buffer, start: range.start, end: range.end, len });
        }
        let start = self.range.start;
        let range = start + range.start..start + range.end;
        Ok(HostData { items: Arc::clone(&self.items), range })
    }
}

impl<T> Clone for HostData<T> {
    fn clone(&self) -> HostData<T> {
        HostData { items: Arc::clone(&self.items), range: self.range.clone() }
    }
}

impl<T: Send + Sync + 'static> From<Vec<T>> for HostData<T> {
    fn from(items: Vec<T>) -> HostData<T> {
        let range = 0..items.len();
        HostData { items: Arc::new(items), range }
    }
}

impl<T: Send + Sync + 'static> From<Arc<[T]>> for HostData<T> {
    fn from(items: Arc<[T]>) -> HostData<T> {
        let range = 0..items.len();
        HostData { items: Arc::new(items), range }
    }
}
