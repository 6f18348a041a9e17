//! What a run counted.

use std::sync::atomic::{AtomicU64, Ordering};

use millstream_flow::LinkStatistics;

use crate::program::{Routing, Worker};
use crate::termination::WorkCounters;

/// The counters of a device, by place in its status; they only grow.
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
    /// Items put into packets, both the device's own and those passed on.
    pub sent: u64,
    /// Items received in packets: kept, passed on or dropped. An item that is both kept and passed
    /// on is in both counts.
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

impl DeviceStatistics {
    fn add(&mut self, other: &DeviceStatistics) {
        self.work_items += other.work_items;
        self.sent += other.sent;
        self.received += other.received;
        self.kept += other.kept;
        self.passed += other.passed;
        self.dropped += other.dropped;
        self.filtered += other.filtered;
        self.deferred += other.deferred;
    }
}

/// What a run did, on a distributed worklist or in another way that counts the same things.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorklistStatistics {
    /// Device by device.
    pub devices: Vec<DeviceStatistics>,
    /// Link by link.
    pub links: Vec<LinkStatistics>,
    /// Who drove the worklist; `None` where there was none.
    pub worker: Option<Worker>,
    /// How packets went; `None` where there was no worklist.
    pub routing: Option<Routing>,
}

impl WorklistStatistics {
    /// Items processed by all devices.
    pub fn work_items(&self) -> u64 {
        self.devices.iter().map(|device| device.work_items).sum()
    }

    /// Adds what another run on the same devices did. Worker and routing become those of that run,
    /// if it had a worklist.
    ///
    /// ```
    /// use millstream_flow::LinkStatistics;
    /// use millstream_worklist::{DeviceStatistics, WorklistStatistics};
    ///
    /// let link = |to: &str| LinkStatistics::new("host:0".to_string(), to.to_string());
    /// let mut run = WorklistStatistics::default();
    /// run.devices = vec![DeviceStatistics::default(); 2];
    /// run.devices[1].work_items = 3;
    /// run.links = vec![link("host:2").pushed(5, 4)];
    /// let mut runs = WorklistStatistics::default();
    /// runs.add(&run);
    /// run.links = vec![link("host:1").pushed(7, 4), link("host:2").pushed(1, 4)];
    /// runs.add(&run);
    /// assert_eq!(runs.work_items(), 6);
    /// assert_eq!(runs.links, [link("host:2").pushed(6, 4), link("host:1").pushed(7, 4)]);
    /// ```
    pub fn add(&mut self, run: &WorklistStatistics) {
        (self.worker, self.routing) = (run.worker.or(self.worker), run.routing.or(self.routing));
        // Links that had no packets are not listed.
        for link in &run.links {
            let is_same =
                |sum: &&mut LinkStatistics| (&sum.from, &sum.to) == (&link.from, &link.to);
            match self.links.iter_mut().find(is_same) {
                Some(sum) => sum.add(link),
                None => self.links.push(link.clone()),
            }
        }
        match self.devices.is_empty() {
            true => self.devices.clone_from(&run.devices),
            false => {
                self.devices.iter_mut().zip(&run.devices).for_each(|(sum, device)| sum.add(device));
            }
        }
    }
}

/// One device's counters as the host knows them: as they were after the last kernels
/// whose reports it has read.
#[derive(Debug, Default)]
pub(crate) struct Counters([AtomicU64; COUNTERS]);

impl Counters {
    pub(crate) fn get(&self, counter: Counter) -> u64 {
        // Acquire: pairs with the release in `update`.
        self.0[counter as usize].load(Ordering::Acquire)
    }

    /// Takes in a report. Reports of several kernels may come in any order:
    /// counters only grow.
    pub(crate) fn update(&self, report: impl Iterator<Item = u64>) {
        for (counter, value) in self.0.iter().zip(report) {
            // Release: pairs with `get`.
            counter.fetch_max(value, Ordering::AcqRel);
        }
    }

    /// The sum of all counters: grows whenever one of them does.
    pub(crate) fn total(&self) -> u64 {
        // Relaxed: only compared with itself, to see whether anything has changed.
        self.0.iter().map(|counter| counter.load(Ordering::Relaxed)).sum()
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
