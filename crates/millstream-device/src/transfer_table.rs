//! How long copies take between the memories of a machine.

use serde::{Deserialize, Serialize};

/// Copies of one size from one memory to another: `host`, or a GPU such as
/// `cuda:0`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// The memory copied from.
    pub from: String,
    /// The memory copied to.
    pub to: String,
    /// Bytes of each copy.
    pub bytes: usize,
    /// Microseconds of a copy among many, one after the other on one stream.
    pub time_us: f64,
    /// Microseconds from submitting one copy alone to the awaiting task.
    pub latency_us: f64,
}

impl Transfer {
    /// Bytes a second of many copies, one after the other.
    pub fn bandwidth(&self) -> f64 {
        self.bytes as f64 / (self.time_us * 1e-6)
    }

    /// Whether it can have been measured.
    pub(crate) fn is_sane(&self) -> bool {
        let is_time = |time: f64| time.is_finite() && time > 0.0;
        self.bytes > 0 && is_time(self.time_us) && is_time(self.latency_us)
    }
}

/// How long copies take between the memories of a machine, from measurements of
/// a few sizes ([`DeviceSet::calibrate`](crate::DeviceSet::calibrate)).
///
/// Memories are named by any device that has them: virtual devices have their
/// GPU's memory, and host devices the host's.
///
/// ```
/// use millstream_device::{Transfer, TransferTable};
///
/// let transfer = |bytes, time_us| Transfer {
///     from: "cuda:0".to_string(),
///     to: "cuda:1".to_string(),
///     bytes,
///     time_us,
///     latency_us: time_us + 10.0,
/// };
/// let table = TransferTable::new([transfer(1000, 2.0), transfer(3000, 4.0)]);
/// assert_eq!(table.time_us("cuda:0.3", "cuda:1", 2000), Some(3.0));
/// assert_eq!(table.time_us("cuda:1", "cuda:0", 2000), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TransferTable {
    /// In the order of source, destination and size.
    transfers: Vec<Transfer>,
}

impl TransferTable {
    /// A table of these measurements; the last one of a pair and a size counts.
    pub fn new(transfers: impl IntoIterator<Item = Transfer>) -> TransferTable {
        let mut table = TransferTable::default();
        for transfer in transfers {
            match table.place(&transfer.from, &transfer.to, transfer.bytes) {
                Ok(place) => table.transfers[place] = transfer,
                Err(place) => table.transfers.insert(place, transfer),
            }
        }
        table
    }

    fn place(&self, from: &str, to: &str, bytes: usize) -> Result<usize, usize> {
        let key = (from, to, bytes);
        self.transfers
            .binary_search_by(|transfer| (&*transfer.from, &*transfer.to, transfer.bytes).cmp(&key))
    }

    /// The measurements, ordered by source, destination and size.
    pub fn transfers(&self) -> &[Transfer] {
        &self.transfers
    }

    /// Microseconds of a copy among many of this size: between measured sizes
    /// along the straight line, below the smallest as long as that, above the
    /// largest at its bandwidth. `None` for a pair that was not measured.
    pub fn time_us(&self, from: &str, to: &str, bytes: usize) -> Option<f64> {
        self.interpolate(from, to, bytes, |transfer| transfer.time_us)
    }

    /// Microseconds from submitting a copy alone to the awaiting task, between
    /// measured sizes as [`time_us`](TransferTable::time_us).
    pub fn latency_us(&self, from: &str, to: &str, bytes: usize) -> Option<f64> {
        self.interpolate(from, to, bytes, |transfer| transfer.latency_us)
    }

    /// Bytes a second of many copies of this size.
    pub fn bandwidth(&self, from: &str, to: &str, bytes: usize) -> Option<f64> {
        self.time_us(from, to, bytes).map(|time| bytes as f64 / (time * 1e-6))
    }

    /// Microseconds until a buffer given back is known to be free at the sender
    /// and the next copy has begun: what the smallest copy alone takes.
    pub fn credit_latency_us(&self, from: &str, to: &str) -> Option<f64> {
        self.latency_us(from, to, 0)
    }

    fn interpolate(
        &self,
        from: &str,
        to: &str,
        bytes: usize,
        time: impl Fn(&Transfer) -> f64,
    ) -> Option<f64> {
        let (from, to) = (memory_of(from), memory_of(to));
        let of_pair = |transfer: &&Transfer| transfer.from == from && transfer.to == to;
        let larger = self.transfers.iter().filter(of_pair).find(|this| this.bytes >= bytes);
        let smaller = self.transfers.iter().filter(of_pair).rfind(|this| this.bytes <= bytes);
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

/// The memory of a device: its GPU without the number of the virtual device, or
/// the host's.
pub(crate) fn memory_of(device: &str) -> &str {
    let physical = device.split_once('.').map_or(device, |(physical, _)| physical);
    if physical.starts_with("host") { "host" } else { physical }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer(from: &str, to: &str, bytes: usize, time_us: f64) -> Transfer {
        let (from, to) = (from.to_string(), to.to_string());
        Transfer { from, to, bytes, time_us, latency_us: time_us * 4.0 }
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
            assert_eq!(table.time_us("cuda:0", "cuda:1", bytes), Some(time), "{bytes}");
            assert_eq!(table.latency_us("cuda:0", "cuda:1", bytes), Some(time * 4.0), "{bytes}");
        }
        assert_eq!(table.bandwidth("cuda:0", "cuda:1", 4000), Some(4000.0 / (40.0 * 1e-6)));
        assert_eq!(table.credit_latency_us("cuda:0", "cuda:1"), Some(40.0));
        assert_eq!(table.time_us("cuda:1", "cuda:0", 1000), None);
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
            assert_eq!(table.time_us(from, to, 8), Some(time), "{from} to {to}");
        }
    }

    #[test]
    fn the_last_measurement_counts() {
        let twice = [transfer("host", "host", 8, 1.0), transfer("host", "host", 8, 2.0)];
        let table = TransferTable::new(twice);
        assert_eq!((table.transfers().len(), table.transfers()[0].time_us), (1, 2.0));
    }
}
