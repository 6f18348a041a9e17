//! How long copies take between the memories of a machine.

use serde::{Deserialize, Serialize};

use crate::transfer_way::TransferWay;

/// Transfers of one size from one memory to another: `host`, or a GPU such as
/// `cuda:0`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// The memory copied from.
    pub from: String,
    /// The memory copied to.
    pub to: String,
    /// How they go.
    pub way: TransferWay,
    /// Bytes of each transfer.
    pub bytes: usize,
    /// Microseconds of one among many, one after the other on one stream.
    pub time_us: f64,
    /// Microseconds from submitting one alone to the awaiting task.
    pub latency_us: f64,
}

impl Transfer {
    /// Bytes a second of many, one after the other.
    pub fn bandwidth(&self) -> f64 {
        self.bytes as f64 / (self.time_us * 1e-6)
    }

    /// Whether the numbers are possible results of a measurement.
    pub(crate) fn is_sane(&self) -> bool {
        let is_time = |time: f64| time.is_finite() && time > 0.0;
        self.bytes > 0 && is_time(self.time_us) && is_time(self.latency_us)
    }
}

/// How long transfers take between the memories of a machine, from measurements of
/// a few sizes ([`DeviceSet::calibrate`](crate::DeviceSet::calibrate)).
///
/// A memory is named by any device that has it: virtual devices have their GPU's memory, and host
/// devices the host's. Measurements for a device's own name take precedence: when the shape of
/// another machine is used, devices have memories of their own that do not exist here.
///
/// ```
/// use millstream_device::{Transfer, TransferTable, TransferWay};
///
/// let transfer = |bytes, time_us| Transfer {
///     from: "cuda:0".to_string(),
///     to: "cuda:1".to_string(),
///     way: TransferWay::Copy,
///     bytes,
///     time_us,
///     latency_us: time_us + 10.0,
/// };
/// let table = TransferTable::new([transfer(1000, 2.0), transfer(3000, 4.0)]);
/// assert_eq!(table.time_us(TransferWay::Copy, "cuda:0.3", "cuda:1", 2000), Some(3.0));
/// assert_eq!(table.time_us(TransferWay::Push, "cuda:0.3", "cuda:1", 2000), None);
/// assert_eq!(table.time_us(TransferWay::Copy, "cuda:1", "cuda:0", 2000), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TransferTable {
    /// Sorted by source, destination, way and size.
    transfers: Vec<Transfer>,
}

impl TransferTable {
    /// A table of these measurements; if there are several for the same pair, way and size, the
    /// last one counts.
    pub fn new(transfers: impl IntoIterator<Item = Transfer>) -> TransferTable {
        let mut table = TransferTable::default();
        for transfer in transfers {
            match table.place(&transfer) {
                Ok(place) => table.transfers[place] = transfer,
                Err(place) => table.transfers.insert(place, transfer),
            }
        }
        table
    }

    fn place(&self, transfer: &Transfer) -> Result<usize, usize> {
        fn key(transfer: &Transfer) -> (&str, &str, TransferWay, usize) {
            (&transfer.from, &transfer.to, transfer.way, transfer.bytes)
        }
        self.transfers.binary_search_by(|known| key(known).cmp(&key(transfer)))
    }

    /// The same table with other names of the memories.
    pub(crate) fn renamed(&self, name: impl Fn(&str) -> String) -> TransferTable {
        let renamed = |transfer: &Transfer| {
            let (from, to) = (name(&transfer.from), name(&transfer.to));
            Transfer { from, to, ..transfer.clone() }
        };
        TransferTable::new(self.transfers.iter().map(renamed))
    }

    /// The measurements, ordered by source, destination, way and size.
    pub fn transfers(&self) -> &[Transfer] {
        &self.transfers
    }

    /// Microseconds of a transfer among many of this size. Between measured sizes the time is
    /// interpolated linearly; below the smallest it is that of the smallest; above the largest, the
    /// bandwidth of the largest applies. `None` for a pair and way that were not measured.
    pub fn time_us(&self, way: TransferWay, from: &str, to: &str, bytes: usize) -> Option<f64> {
        self.interpolate(way, (from, to), bytes, |transfer| transfer.time_us)
    }

    /// Microseconds from submitting a transfer alone to the awaiting task, between
    /// measured sizes as [`time_us`](TransferTable::time_us).
    pub fn latency_us(&self, way: TransferWay, from: &str, to: &str, bytes: usize) -> Option<f64> {
        self.interpolate(way, (from, to), bytes, |transfer| transfer.latency_us)
    }

    /// Bytes a second of many transfers of this size.
    pub fn bandwidth(&self, way: TransferWay, from: &str, to: &str, bytes: usize) -> Option<f64> {
        self.time_us(way, from, to, bytes).map(|time| bytes as f64 / (time * 1e-6))
    }

    /// Microseconds from when a receiver gives a buffer back until the sender knows that it is free
    /// and has begun the next copy. It is taken to be the latency of the smallest copy.
    pub fn credit_latency_us(&self, from: &str, to: &str) -> Option<f64> {
        self.latency_us(TransferWay::Copy, from, to, 0)
    }

    /// Transfers of this pair in this way, sorted by size.
    fn of_pair(&self, way: TransferWay, (from, to): (&str, &str)) -> &[Transfer] {
        let key = (from, to, way);
        let before = |transfer: &Transfer| (&*transfer.from, &*transfer.to, transfer.way) < key;
        let until = |transfer: &Transfer| (&*transfer.from, &*transfer.to, transfer.way) <= key;
        let start = self.transfers.partition_point(before);
        &self.transfers[start..self.transfers.partition_point(until)]
    }

    fn interpolate(
        &self,
        way: TransferWay,
        (from, to): (&str, &str),
        bytes: usize,
        time: impl Fn(&Transfer) -> f64,
    ) -> Option<f64> {
        let named = self.of_pair(way, (from, to));
        let transfers = match named.is_empty() {
            true => self.of_pair(way, (memory_of(from), memory_of(to))),
            false => named,
        };
        let larger = transfers.iter().find(|this| this.bytes >= bytes);
        let smaller = transfers.iter().rfind(|this| this.bytes <= bytes);
        match (smaller, larger) {
            (None, None) => None,
            (None, Some(smallest)) => Some(time(smallest)),
            (Some(largest), None) => Some(time(largest) * bytes as f64 / largest.bytes as f64),
            (Some(one), Some(other)) => {
                let span = (other.bytes - one.bytes).max(1) as f64;
                let share = (bytes - one.bytes) as f64 / span;
                Some(time(one) + (time(other) - time(one)) * share)
            }
        }
    }
}

/// The name of the host's memory.
pub(crate) const HOST: &str = "host";

/// The memory of a device: its GPU, without the number of the virtual device, or the host's.
pub(crate) fn memory_of(device: &str) -> &str {
    let physical = device.split_once('.').map_or(device, |(physical, _)| physical);
    if physical.starts_with(HOST) { HOST } else { physical }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COPY: TransferWay = TransferWay::Copy;

    fn transfer(from: &str, to: &str, bytes: usize, time_us: f64) -> Transfer {
        let (from, to) = (from.to_string(), to.to_string());
        Transfer { from, to, way: COPY, bytes, time_us, latency_us: time_us * 4.0 }
    }

    #[test]
    fn times_lie_between_those_measured() {
        let sizes = [(4000, 40.0), (1000, 10.0), (2000, 12.0)];
        let pair = sizes.map(|(bytes, time)| transfer("cuda:0", "cuda:1", bytes, time));
        let others = [transfer("cuda:0", "cuda:2", 1, 1.0), transfer("host", "host", 9, 9.0)];
        let table = TransferTable::new(pair.into_iter().chain(others));
        for (bytes, time) in
            [(0, 10.0), (1000, 10.0), (1500, 11.0), (2000, 12.0), (3000, 26.0), (8000, 80.0)]
        {
            assert_eq!(table.time_us(COPY, "cuda:0", "cuda:1", bytes), Some(time), "{bytes}");
            assert_eq!(
                table.latency_us(COPY, "cuda:0", "cuda:1", bytes),
                Some(time * 4.0),
                "{bytes}"
            );
        }
        assert_eq!(table.bandwidth(COPY, "cuda:0", "cuda:1", 4000), Some(4000.0 / (40.0 * 1e-6)));
        assert_eq!(table.credit_latency_us("cuda:0", "cuda:1"), Some(40.0));
        assert_eq!(table.time_us(COPY, "cuda:1", "cuda:0", 1000), None);
    }

    #[test]
    fn ways_have_times_of_their_own() {
        let push = Transfer { way: TransferWay::Push, ..transfer("cuda:0", "cuda:1", 8, 2.0) };
        let table = TransferTable::new([push, transfer("cuda:0", "cuda:1", 8, 5.0)]);
        let time = |way| table.time_us(way, "cuda:0", "cuda:1", 8);
        assert_eq!(TransferWay::ALL.map(time), [Some(5.0), Some(2.0), None]);
        assert_eq!(table.transfers()[0].way, COPY);
    }

    #[test]
    fn devices_share_memories() {
        let table = TransferTable::new([
            transfer("host", "host", 8, 1.0),
            transfer("host", "cuda:1", 8, 2.0),
            transfer("cuda:1", "cuda:1", 8, 3.0),
            transfer("cuda:1", "cuda:11", 8, 4.0),
        ]);
        for (from, to, time) in [
            ("host:3", "host", 1.0),
            ("host:0.1", "cuda:1.0", 2.0),
            ("cuda:1.0", "cuda:1.3", 3.0),
            ("cuda:1", "cuda:11.0", 4.0),
        ] {
            assert_eq!(table.time_us(COPY, from, to, 8), Some(time), "{from} to {to}");
        }
    }

    #[test]
    fn a_name_of_its_own_counts_first() {
        let all = [("host", "host", 1.0), ("host:1", "host:2", 2.0), ("host:1", "host", 3.0)];
        let table = TransferTable::new(all.map(|(from, to, time)| transfer(from, to, 8, time)));
        for (from, to, time) in
            [("host:1", "host:2", 2.0), ("host:2", "host:1", 1.0), ("host:1", "host", 3.0)]
        {
            assert_eq!(table.time_us(COPY, from, to, 8), Some(time), "{from} to {to}");
        }
        let renamed = table.renamed(|name| name.replace("host:", "cuda:"));
        assert_eq!(renamed.time_us(COPY, "cuda:1", "cuda:2", 8), Some(2.0));
        assert_eq!(renamed.time_us(COPY, "host:1", "host:2", 8), Some(1.0));
    }

    #[test]
    fn the_last_measurement_counts() {
        let twice = [transfer("host", "host", 8, 1.0), transfer("host", "host", 8, 2.0)];
        let table = TransferTable::new(twice);
        assert_eq!((table.transfers().len(), table.transfers()[0].time_us), (1, 2.0));
    }
}
