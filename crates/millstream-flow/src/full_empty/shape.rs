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
    read_by: Option<Device>,
    is_seen_by_host: bool,
}

impl PacketShape {
    /// `len` items in packets of `packet_items` (at least one); the last packet may be shorter. If
    /// `len` is 0, there is one packet without items.
    pub fn new(len: usize, packet_items: usize) -> PacketShape {
        let packet_items = packet_items.max(1);
        PacketShape {
            len,
            packet_items,
            writers: 1,
            written_by: None,
            read_by: None,
            is_seen_by_host: true,
        }
    }

    /// `writers` blocks of a kernel on `device` write each packet together; the last
    /// one to arrive publishes it.
    #[must_use]
    pub fn written_by(mut self, device: &Device, writers: usize) -> PacketShape {
        self.writers = writers.max(1);
        self.written_by = Some(device.clone());
        self
    }

    /// For a segment of the host: kernels of `device` wait for its packets. They look at words on
    /// their own device, which one block copies from the host's words. Kernels of other devices may publish
    /// packets, but must not wait for them.
    #[must_use]
    pub fn read_by(mut self, device: &Device) -> PacketShape {
        self.read_by = Some(device.clone());
        self
    }

    /// For a segment of a device: neither host code nor copies with triggers look at its packets.
    /// This saves a write for each packet that is filled.
    #[must_use]
    pub fn unseen_by_host(mut self) -> PacketShape {
        self.is_seen_by_host = false;
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

    /// The device whose kernels write packets, if any.
    pub(super) fn writing_device(&self) -> Option<&Device> {
        self.written_by.as_ref()
    }

    /// The device whose kernels wait for packets, if any.
    pub(super) fn reading_device(&self) -> Option<&Device> {
        self.read_by.as_ref()
    }

    /// Whether host code looks at packets.
    pub(super) fn is_seen_by_host(&self) -> bool {
        self.is_seen_by_host
    }

    /// Items of packet `packet`; none beyond the last packet.
    pub fn range(&self, packet: usize) -> Range<usize> {
        let start = packet.saturating_mul(self.packet_items).min(self.len);
        start..start.saturating_add(self.packet_items).min(self.len)
    }
}
