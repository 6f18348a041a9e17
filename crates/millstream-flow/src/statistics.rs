//! What went over the links.

use millstream_device::TransferWay;

/// Traffic of one link.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkStatistics {
    /// Name of the source.
    pub from: String,
    /// Name of the destination.
    pub to: String,
    /// Packets assigned.
    pub packets: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Bytes of the largest packet.
    pub largest_packet_bytes: u64,
    /// Packets that went through pinned memory of the host: those between devices that do not reach
    /// each other's memory \[G §2.1\], and those from the program's own memory to a GPU.
    pub packets_through_host: u64,
    /// Packets that a kernel of the source wrote into the destination's memory, or that a kernel of
    /// the destination read from the source's memory.
    pub packets_pushed: u64,
    /// Packets that kernels wrote into memory of the host and read from there, the way
    /// [`Host`](TransferWay::Host). They also count among those that went through the host.
    pub packets_by_host: u64,
}

impl LinkStatistics {
    /// No traffic yet.
    pub fn new(from: String, to: String) -> LinkStatistics {
        LinkStatistics {
            from,
            to,
            packets: 0,
            bytes: 0,
            largest_packet_bytes: 0,
            packets_through_host: 0,
            packets_pushed: 0,
            packets_by_host: 0,
        }
    }

    /// These statistics with `packets` more packets of `packet_bytes` bytes each, moved by kernels.
    ///
    /// ```
    /// use millstream_flow::LinkStatistics;
    ///
    /// let link = LinkStatistics::new("cuda:0".to_string(), "cuda:1".to_string());
    /// let link = link.pushed(3, 8).pushed(2, 4).pushed(0, 16);
    /// assert_eq!((link.packets, link.packets_pushed, link.bytes), (5, 5, 32));
    /// assert_eq!(link.largest_packet_bytes, 8);
    /// ```
    #[must_use]
    pub fn pushed(mut self, packets: u64, packet_bytes: u64) -> LinkStatistics {
        self.packets += packets;
        self.packets_pushed += packets;
        self.bytes += packets * packet_bytes;
        if packets > 0 {
            self.largest_packet_bytes = self.largest_packet_bytes.max(packet_bytes);
        }
        self
    }

    /// Adds what went over the link at another time.
    ///
    /// ```
    /// use millstream_flow::LinkStatistics;
    ///
    /// let mut first = LinkStatistics::new("cuda:0".to_string(), "cuda:1".to_string());
    /// (first.packets, first.bytes, first.largest_packet_bytes) = (2, 300, 200);
    /// let mut second = first.clone();
    /// (second.packets_pushed, second.largest_packet_bytes) = (1, 250);
    /// first.add(&second);
    /// assert_eq!((first.packets, first.bytes, first.packets_pushed), (4, 600, 1));
    /// assert_eq!(first.largest_packet_bytes, 250);
    /// ```
    pub fn add(&mut self, other: &LinkStatistics) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.largest_packet_bytes = self.largest_packet_bytes.max(other.largest_packet_bytes);
        self.packets_through_host += other.packets_through_host;
        self.packets_pushed += other.packets_pushed;
        self.packets_by_host += other.packets_by_host;
    }

    /// Packets that went this way.
    ///
    /// ```
    /// use millstream_device::TransferWay;
    /// use millstream_flow::LinkStatistics;
    ///
    /// let mut link = LinkStatistics::new("cuda:0".to_string(), "cuda:1".to_string());
    /// (link.packets, link.packets_pushed) = (5, 2);
    /// assert_eq!(TransferWay::ALL.map(|way| link.packets_by(way)), [3, 2, 0]);
    /// ```
    pub fn packets_by(&self, way: TransferWay) -> u64 {
        match way {
            TransferWay::Copy => {
                self.packets.saturating_sub(self.packets_pushed + self.packets_by_host)
            }
            TransferWay::Push => self.packets_pushed,
            TransferWay::Host => self.packets_by_host,
        }
    }

    /// Counts one more packet.
    pub(crate) fn count(&mut self, bytes: u64, way: TransferWay, through_host: bool) {
        self.packets += 1;
        self.bytes += bytes;
        self.largest_packet_bytes = self.largest_packet_bytes.max(bytes);
        self.packets_through_host += u64::from(through_host);
        self.packets_pushed += u64::from(way == TransferWay::Push);
        self.packets_by_host += u64::from(way == TransferWay::Host);
    }
}
