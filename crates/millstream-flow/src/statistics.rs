//! What went over the links.

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
    /// Packets that went through memory of the host, since the devices do not
    /// reach each other's \[G §2.1\].
    pub packets_through_host: u64,
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
        }
    }
}
