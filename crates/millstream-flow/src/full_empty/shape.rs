//! How a segment is cut into packets.

use std::ops::Range;

use millstream_device::Device;

/// How many items a segment has, how many of them are a packet, and who writes it.
///
/// ```
/// use millstream_flow::PacketShape;
///
/// let shape = PacketShape::new(1000, 300);
/// assert_eq!(shape.packets(), 4);
/// assert_eq!(shape.range(3), 900..1000);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketShape {
    len: usize,
    packet_items: usize,
    writers: usize,
    written_by: Option<Device>,
}

impl PacketShape {
    /// `len` items in packets of `packet_items`, of which the last may be shorter. At
    /// least one packet, and one item in each.
    pub fn new(len: usize, packet_items: usize) -> PacketShape {
        let packet_items = packet_items.max(1);
        PacketShape { len, packet_items, writers: 1, written_by: None }
    }

    /// `writers` blocks of a kernel on `device` write each packet together; the last
    /// one to arrive publishes it.
    #[must_use]
    pub fn written_by(mut self, device: &Device, writers: usize) -> PacketShape {
        self.writers = writers.max(1);
        self.written_by = Some(device.clone());
        self
    }

    /// Items.
    pub fn items(&self) -> usize {
        self.len
    }

    /// Items of a packet.
    pub fn packet_items(&self) -> usize {
        self.packet_items
    }

    /// Packets.
    pub fn packets(&self) -> usize {
        self.len.div_ceil(self.packet_items).max(1)
    }

    /// Blocks that write a packet together.
    pub fn writers(&self) -> usize {
        self.writers
    }

    /// Where they run.
    pub(super) fn writing_device(&self) -> Option<&Device> {
        self.written_by.as_ref()
    }

    /// Items of packet `packet`; none beyond the last packet.
    pub fn range(&self, packet: usize) -> Range<usize> {
        let start = packet.saturating_mul(self.packet_items).min(self.len);
        start..start.saturating_add(self.packet_items).min(self.len)
    }
}
