//! What a search has come to cost.

use millstream_flow::LinkStatistics;

/// What one device did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceStatistics {
    /// Arcs and edges hooked, or left out because others connect the same vertices; includes reverses that
    /// were made of a graph's arcs.
    pub hooked: u64,
    /// Pairs of other devices merged.
    pub merged: u64,
    /// Pairs given to other devices, once for each of them.
    pub sent: u64,
    /// Pairs from other devices, and edges from the host.
    pub received: u64,
}

/// What a search did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CcStatistics {
    /// Device by device.
    pub devices: Vec<DeviceStatistics>,
    /// What went from one device to another. Where devices reach each other's memory, a packet is
    /// a pair that one told the other: a vertex and its root.
    pub links: Vec<LinkStatistics>,
}

impl CcStatistics {
    /// Arcs and edges hooked by all devices.
    pub fn hooked(&self) -> u64 {
        self.devices.iter().map(|device| device.hooked).sum()
    }
}
