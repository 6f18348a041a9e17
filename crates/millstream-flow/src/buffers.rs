//! How a link is buffered \[G Table 1: packet_size, num_buffers\].

use crate::{Error, Result};

/// Size and number of a receiver's packet buffers.
///
/// ```
/// use millstream_flow::Buffers;
///
/// let triple = Buffers::bytes(4 << 20).count(3);
/// # let _ = triple;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    size: Size,
    count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Bytes(usize),
    Items(usize),
}

impl Buffers {
    /// Two buffers (one fills while the other is used) of `bytes` each.
    pub const fn bytes(bytes: usize) -> Buffers {
        Buffers { size: Size::Bytes(bytes), count: 2 }
    }

    /// Two buffers of `items` items each.
    pub const fn items(items: usize) -> Buffers {
        Buffers { size: Size::Items(items), count: 2 }
    }

    /// Sets how many buffers there are.
    #[must_use]
    pub const fn count(self, count: usize) -> Buffers {
        Buffers { count, ..self }
    }

    /// Sets the bytes of each.
    #[must_use]
    pub const fn with_bytes(self, bytes: usize) -> Buffers {
        Buffers { size: Size::Bytes(bytes), ..self }
    }

    /// Items in a packet, and number of buffers.
    pub(crate) fn resolve<T>(self) -> Result<(usize, usize)> {
        let item_bytes = size_of::<T>();
        let items = match self.size {
            Size::Bytes(bytes) => bytes.checked_div(item_bytes).unwrap_or(0),
            Size::Items(items) => items,
        };
        if items == 0 || item_bytes == 0 {
            let bytes = match self.size {
                Size::Bytes(bytes) => bytes,
                Size::Items(items) => items * item_bytes,
            };
            return Err(Error::PacketTooSmall { bytes, item_bytes });
        }
        if self.count == 0 {
            return Err(Error::NoBuffers);
        }
        Ok((items, self.count))
    }
}
