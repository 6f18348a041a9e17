//! Topologies written as text: the shapes of other machines.
//!
//! JSON with one row for each device, and what was measured between them, if anything was;
//! `millstream topology --json` writes such a file, whose other keys are not read:
//!
//! ```json
//! { "links": [["memory", "nvlink", "host"],
//!             ["nvlink", "memory", "pcie"],
//!             ["host",   "pcie",   "memory"]],
//!   "devices": ["cuda:0", "cuda:1", "cuda:2"],
//!   "transfers": [{ "from": "cuda:0", "to": "cuda:1", "way": "copy",
//!                   "bytes": 4096, "time_us": 2.7, "latency_us": 10.0 }] }
//! ```

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

use serde::Deserialize;

use crate::topology::{LinkKind, Topology};
use crate::transfer_table::{HOST, Transfer, TransferTable, memory_of};
use crate::transfer_way::TransferWay;
use crate::{Error, Result};

/// The largest file that is read: a few times what the most devices need, with everything that may
/// be measured between them. A device file such as `/dev/zero` has no end.
const MOST_BYTES: u64 = 16 << 20;

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with links")]
struct TopologyFile {
    /// From each device (row) to each.
    links: Vec<Vec<LinkKind>>,
    /// The names that transfers use for the devices; their places, if the file has no names.
    devices: Option<Vec<String>>,
    #[serde(default)]
    transfers: Vec<MeasuredTransfer>,
}

/// A [`Transfer`]; the file may say more about it.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with from, to, way, bytes and times")]
struct MeasuredTransfer {
    from: String,
    to: String,
    way: TransferWay,
    bytes: usize,
    time_us: f64,
    latency_us: f64,
}

/// The places of the devices that have this memory: the device with that very name, and all devices
/// in that memory that no transfer names. The host's own memory also has the host.
fn places(memory: &str, devices: &[String], named: &HashSet<String>) -> Vec<String> {
    let have = |device: &String| match named.contains(device) {
        true => device == memory,
        false => memory_of(device) == memory,
    };
    let places = (0..devices.len()).filter(|&place| have(&devices[place]));
    let host = (memory == HOST).then(|| HOST.to_string());
    places.map(|place| place.to_string()).chain(host).collect()
}

/// The table of transfers, with devices named by their places.
fn table(transfers: Vec<MeasuredTransfer>, devices: &[String]) -> Result<TransferTable> {
    let names = transfers.iter().flat_map(|transfer| [&transfer.from, &transfer.to]);
    let named: HashSet<String> = names.cloned().collect();
    let mut all = Vec::new();
    for (number, measured) in transfers.into_iter().enumerate() {
        let fault =
            |reason: &str| Err(Error::Topology { reason: format!("transfer {number} {reason}") });
        let MeasuredTransfer { from, to, way, bytes, time_us, latency_us } = measured;
        let transfer = Transfer { from, to, way, bytes, time_us, latency_us };
        if !transfer.is_sane() {
            return fault("has a size or a time that is not positive");
        }
        let [sources, destinations] =
            [&transfer.from, &transfer.to].map(|memory| places(memory, devices, &named));
        if sources.is_empty() || destinations.is_empty() {
            return fault("is between memories that no device has");
        }
        for (from, to) in
            sources.iter().flat_map(|from| destinations.iter().map(move |to| (from, to)))
        {
            all.push(Transfer { from: from.clone(), to: to.clone(), ..transfer.clone() });
        }
    }
    Ok(TransferTable::new(all))
}

impl FromStr for Topology {
    type Err = Error;

    /// Reads a shape: `{"links": [[...], ...]}`, a row for each device, of the
    /// words `memory` (itself, or one memory), `nvlink`, `pcie` and `host` (no
    /// direct access). Its devices are called 0, 1, 2 and so on, also in its transfer table, whatever
    /// `devices` and `transfers` of the file call them.
    fn from_str(text: &str) -> Result<Topology> {
        let fault = |reason: String| Error::Topology { reason };
        let TopologyFile { links, devices: called, transfers } =
            serde_json::from_str(text).map_err(|error| fault(error.to_string()))?;
        let devices = links.len();
        for (place, row) in links.iter().enumerate() {
            if row.len() != devices {
                let found = row.len();
                return Err(fault(format!("row {place} has {found} links, for {devices} rows")));
            }
            if row[place] != LinkKind::Memory {
                return Err(fault(format!("device {place} has no memory link to itself")));
            }
        }
        let names: Vec<_> = (0..devices).map(|place| place.to_string()).collect();
        let called = called.unwrap_or_else(|| names.clone());
        if called.len() != devices {
            return Err(fault(format!("{} names, for {devices} rows", called.len())));
        }
        let mut different = HashSet::new();
        if let Some(twice) = called.iter().find(|name| !different.insert(*name)) {
            return Err(fault(format!("two devices are called {twice:?}")));
        }
        let topology = Topology::from_links(names, |from, to| links[from][to]);
        Ok(match transfers.is_empty() {
            true => topology,
            false => topology.with_transfer_table(table(transfers, &called)?),
        })
    }
}

impl Topology {
    /// Reads a shape from a file, as [`Topology::from_str`] does from text.
    ///
    /// # Errors
    /// [`Error::Topology`] with the file's name and what is wrong with it.
    pub fn read(file: &Path) -> Result<Topology> {
        let fault =
            |reason: String| Error::Topology { reason: format!("{}: {reason}", file.display()) };
        let mut text = String::new();
        let opened = File::open(file).map(|file| file.take(MOST_BYTES + 1));
        let bytes = opened
            .and_then(|mut file| file.read_to_string(&mut text))
            .map_err(|error| fault(error.to_string()))?;
        if bytes as u64 > MOST_BYTES {
            return Err(fault(format!("longer than the {MOST_BYTES} bytes that a shape may have")));
        }
        text.parse().map_err(|error| match error {
            Error::Topology { reason } => fault(reason),
            other => other,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_read() {
        let text = r#"{ "links": [["memory", "nvlink", "host"],
                                  ["nvlink", "memory", "pcie"],
                                  ["host", "pcie", "memory"]], "devices": ["a", "b", "c"] }"#;
        let shape: Topology = text.parse().unwrap();
        assert_eq!(shape.names(), ["0", "1", "2"]);
        let kinds = [(0, 1, LinkKind::NvLink), (1, 2, LinkKind::Pcie), (2, 0, LinkKind::Host)];
        for (from, to, kind) in kinds {
            assert_eq!((shape.link(from, to), shape.link(to, from)), (kind, kind));
        }
        assert!(r#"{"links": []}"#.parse::<Topology>().unwrap().names().is_empty());
    }

    #[test]
    fn transfers_are_those_of_the_places() {
        // Two virtual devices of a GPU, another GPU, and a host device.
        let transfer = |from: &str, to: &str, time_us: f64| {
            format!(
                r#"{{ "from": "{from}", "to": "{to}", "way": "push", "bytes": 8,
                     "time_us": {time_us}, "latency_us": 9, "bytes_per_second": 1 }}"#
            )
        };
        let transfers = [
            transfer("cuda:3", "cuda:5", 1.0),
            transfer("cuda:5", "host:7", 2.0),
            transfer("host", "cuda:3", 3.0),
            transfer("cuda:3", "cuda:3", 4.0),
            transfer("host", "host", 5.0),
        ];
        let text = format!(
            r#"{{ "links": [{}], "devices": ["cuda:3.0", "cuda:3.1", "cuda:5", "host:7"],
                 "transfers": [{}] }}"#,
            [r#"["memory", "memory", "memory", "memory"]"#; 4].join(","),
            transfers.join(",")
        );
        let shape: Topology = text.parse().unwrap();
        let table = shape.transfer_table().unwrap();
        let time = |from, to| table.time_us(TransferWay::Push, from, to, 8);
        for (from, to, expected) in [
            ("0", "2", Some(1.0)),
            ("1", "2", Some(1.0)),
            ("2", "0", None),
            ("2", "3", Some(2.0)),
            ("2", "host", None),
            ("host", "host", Some(5.0)),
            // This one has a name, and therefore a memory, of its own.
            ("host", "3", None),
            ("host", "0", Some(3.0)),
            ("1", "0", Some(4.0)),
            ("2", "2", None),
        ] {
            assert_eq!(time(from, to), expected, "{from} to {to}");
        }
        // Without names, devices are called by their places.
        let text = format!(
            r#"{{ "links": [["memory", "pcie"], ["pcie", "memory"]], "transfers": [{}] }}"#,
            transfer("1", "0", 5.0)
        );
        let shape: Topology = text.parse().unwrap();
        let table = shape.transfer_table().unwrap();
        assert_eq!(table.time_us(TransferWay::Push, "1", "0", 8), Some(5.0));
    }

    #[test]
    fn bad_shapes_say_why() {
        for (text, reason) in [
            ("", "EOF"),
            ("{}", "missing field `links`"),
            (r#"{"links": [["memory", "wire"]]}"#, "unknown variant `wire`"),
            (r#"{"links": [["memory", "pcie"]]}"#, "row 0 has 2 links, for 1 rows"),
            (r#"{"links": [["memory", "pcie"], ["pcie"]]}"#, "row 1 has 1 links, for 2 rows"),
            (r#"{"links": [["host"]]}"#, "device 0 has no memory link to itself"),
            (r#"{"links": [["memory"]], "devices": ["a", "b"]}"#, "2 names, for 1 rows"),
            (
                r#"{"links": [["memory", "pcie"], ["pcie", "memory"]], "devices": ["a", "a"]}"#,
                "two devices are called \"a\"",
            ),
            ("[]", "expected an object with links"),
            (r#"{"links": [["memory"]], "transfers": [{"from": "0"}]}"#, "missing field `to`"),
            (
                r#"{"links": [["memory"]], "transfers": [{"from": "0", "to": "1", "way": "copy",
                    "bytes": 8, "time_us": 1, "latency_us": 1}]}"#,
                "transfer 0 is between memories that no device has",
            ),
            (
                r#"{"links": [["memory"]], "transfers": [{"from": "0", "to": "0", "way": "copy",
                    "bytes": 8, "time_us": 0, "latency_us": 1}]}"#,
                "transfer 0 has a size or a time that is not positive",
            ),
        ] {
            let error = text.parse::<Topology>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text:?}: {error}");
        }
        let error = Topology::read(Path::new("no such file")).unwrap_err().to_string();
        assert!(error.contains("no such file: "), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn files_without_an_end_are_not_read_to_it() {
        let error = Topology::read(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(error.contains("/dev/zero: longer than the 16777216 bytes"), "{error}");
    }
}
