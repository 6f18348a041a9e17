//! What a run counted.

use millstream_device::SharedBuffer;
use millstream_flow::LinkStatistics;

use crate::termination::WorkCounters;

/// Counters of a device that only grow, by their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counter {
    Produced,
    Consumed,
    DeferredIn,
    DeferredOut,
    WorkItems,
    Sent,
    Received,
    Kept,
    Passed,
    Dropped,
    Filtered,
}

/// How many there are.
pub(crate) const COUNTERS: usize = Counter::Filtered as usize + 1;

/// What one device did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceStatistics {
    /// Items processed.
    pub work_items: u64,
    /// Items put into packets, own and passed on.
    pub sent: u64,
    /// Items received in packets: kept, passed on (both counts in each) or dropped.
    pub received: u64,
    /// Items received that stayed.
    pub kept: u64,
    /// Items received that went on.
    pub passed: u64,
    /// Items received and dropped.
    pub dropped: u64,
    /// Changes not sent because a halo copy showed that they are not needed.
    pub filtered: u64,
    /// Items put off because of their priority.
    pub deferred: u64,
}

/// What a run of a distributed worklist did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorklistStatistics {
    /// Device by device.
    pub devices: Vec<DeviceStatistics>,
    /// Link by link.
    pub links: Vec<LinkStatistics>,
}

impl WorklistStatistics {
    /// Items processed by all devices.
    pub fn work_items(&self) -> u64 {
        self.devices.iter().map(|device| device.work_items).sum()
    }
}

/// The counters of one device, in memory that the host reads too.
#[derive(Clone, Debug)]
pub(crate) struct Counters(pub(crate) SharedBuffer<u64>);

impl Counters {
    pub(crate) fn get(&self, counter: Counter) -> u64 {
        // An acquire load; the buffer is the host endpoint's, so it cannot fail.
        self.0.load(counter as usize).unwrap_or(u64::MAX)
    }

    pub(crate) fn statistics(&self) -> DeviceStatistics {
        DeviceStatistics {
            work_items: self.get(Counter::WorkItems),
            sent: self.get(Counter::Sent),
            received: self.get(Counter::Received),
            kept: self.get(Counter::Kept),
            passed: self.get(Counter::Passed),
            dropped: self.get(Counter::Dropped),
            filtered: self.get(Counter::Filtered),
            deferred: self.get(Counter::DeferredIn),
        }
    }
}

impl WorkCounters for Counters {
    fn consumed(&self) -> u64 {
        self.get(Counter::Consumed) + self.get(Counter::DeferredIn)
    }

    fn produced(&self) -> u64 {
        self.get(Counter::Produced) + self.get(Counter::DeferredOut)
    }
}
