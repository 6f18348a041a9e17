//! How a link is buffered \[G Table 1: packet_size, num_buffers\].

use millstream_device::{Device, TransferTable, TransferWay};

use crate::joining::Joining;
use crate::ways::Ways;
use crate::{Context, Error, Result};

/// One buffer fills while the other is used.
const DOUBLE: usize = 2;
/// Two packets are under way while two more wait for their turn together.
const FOR_PAIRS: usize = 4;
/// Buffers are not doubled for larger packets: the pause between these is less than 2 % of their time.
const LARGEST_JOINED: usize = 32 << 20;
/// More buffers than this only take memory, even where credits take much longer than copies.
const MOST: usize = 16;
/// The most that a program may set.
const MOST_SET: usize = 1 << 16;

/// Size and number of a receiver's packet buffers.
///
/// Unless it is set, the number is such that a copy can begin as soon as the one before it ends:
/// `1 + ceil(credit latency / time of a copy)` by the measured transfer table, but at most 16; two
/// if nothing was measured. It is at least four for buffers of 8 to 32 MiB where packets can be copied together.
///
/// With four or more, enough for two packets beside 16 MiB that are under way, several packets of a message are copied
/// together, half as many as there are buffers and four at most: an engine pauses between copies, but not between those
/// that it gets at once. That is where a GPU's engine copies them and the driver is for CUDA 13.0 or later.
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
    /// `None`: the link chooses.
    count: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Bytes(usize),
    Items(usize),
}

impl Buffers {
    /// Buffers of `bytes` each.
    pub const fn bytes(bytes: usize) -> Buffers {
        Buffers { size: Size::Bytes(bytes), count: None }
    }

    /// Buffers of `items` items each.
    pub const fn items(items: usize) -> Buffers {
        Buffers { size: Size::Items(items), count: None }
    }

    /// Sets how many buffers there are. More than 65,536 make no link faster, and count as that.
    #[must_use]
    pub const fn count(self, count: usize) -> Buffers {
        Buffers { count: Some(count), ..self }
    }

    /// Items of a packet, and the number of buffers if it is set.
    pub(crate) fn resolve<T>(self) -> Result<(usize, Option<usize>)> {
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
        if self.count == Some(0) {
            return Err(Error::NoBuffers);
        }
        Ok((items, self.count.map(|count| count.min(MOST_SET))))
    }
}

/// How many buffers of `bytes` bytes the links from `sources` had better have.
pub(crate) fn default_count<'a>(
    context: &Context,
    sources: impl IntoIterator<Item = &'a Device> + Clone,
    destination: &Device,
    bytes: usize,
) -> usize {
    let (transfer, table) = (context.transfer(), context.topology().transfer_table());
    let busy = busy_count(table, sources.clone(), destination, bytes);
    if !destination.is_gpu() || !had_better_join(bytes) {
        return busy;
    }
    let join = |source: &Device| {
        source.is_gpu() && Ways::new(transfer, table, source, destination).join(bytes)
    };
    if sources.into_iter().any(join) { busy.max(FOR_PAIRS) } else { busy }
}

/// Whether [`FOR_PAIRS`] buffers of so many bytes are enough for packets to join, and worth their memory.
fn had_better_join(bytes: usize) -> bool {
    bytes <= LARGEST_JOINED && Joining::of(FOR_PAIRS, bytes).joins()
}

/// How many buffers of `bytes` bytes keep the links from all of `sources` busy.
fn busy_count<'a>(
    table: Option<&TransferTable>,
    sources: impl IntoIterator<Item = &'a Device>,
    destination: &Device,
    bytes: usize,
) -> usize {
    let to = destination.name();
    let count = |source: &Device| {
        let (table, from) = (table?, source.name());
        let copy = table.time_us(TransferWay::Copy, &from, &to, bytes)?;
        let others = (table.credit_latency_us(&from, &to)? / copy).ceil() as usize;
        Some(others.saturating_add(1))
    };
    sources.into_iter().filter_map(count).max().map_or(DOUBLE, |count| count.clamp(DOUBLE, MOST))
}

#[cfg(test)]
mod tests {
    use millstream_device::{DeviceList, DeviceSet, Transfer};

    use super::*;

    #[test]
    fn pairs_need_large_buffers_and_larger_ones_no_pairs() {
        let sizes = [0, 1, (8 << 20) - 1, 8 << 20, 32 << 20, (32 << 20) + 1, usize::MAX];
        assert_eq!(sizes.map(had_better_join), [false, false, false, true, true, false, false]);
        for (buffers, bytes, joins) in [
            (3, 64 << 20, false),
            (4, 64 << 20, true),
            (9, 2 << 20, false),
            (10, 2 << 20, true),
            (usize::MAX, 0, true),
        ] {
            assert_eq!(Joining::of(buffers, bytes).joins(), joins, "{buffers} of {bytes}");
        }
    }

    #[test]
    fn buffers_cover_the_way_of_a_credit() {
        let set = DeviceSet::builder().devices(DeviceList::host(2)).build().unwrap();
        let transfer = |bytes, time_us| {
            let (from, to) = ("host".to_string(), "host".to_string());
            let way = TransferWay::Copy;
            Transfer { from, to, way, bytes, time_us, latency_us: time_us + 9.0 }
        };
        // A packet of 4 KiB takes 1 us, and its credit 10 us.
        let sizes = [(4 << 10, 1.0), (64 << 10, 4.0), (1 << 20, 10.0), (4 << 20, 40.0)];
        let table = TransferTable::new(sizes.map(|(bytes, time)| transfer(bytes, time)));
        let count = |table, bytes| busy_count(table, set.devices(), set.host(), bytes);
        for (bytes, expected) in [(1, 11), (4 << 10, 11), (64 << 10, 4), (1 << 20, 2), (9 << 20, 2)]
        {
            assert_eq!(count(Some(&table), bytes), expected, "{bytes} bytes");
        }
        assert_eq!(count(None, 4 << 10), DOUBLE);
        let instant = TransferTable::new([transfer(4 << 10, 0.001)]);
        assert_eq!(count(Some(&instant), 4 << 10), MOST);
        let elsewhere = TransferTable::new([]);
        assert_eq!(count(Some(&elsewhere), 4 << 10), DOUBLE);
    }
}
