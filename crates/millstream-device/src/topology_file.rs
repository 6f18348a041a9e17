//! Topologies written as text: the shapes of other machines.
//!
//! JSON with one row for each device; `millstream topology --json` writes such a
//! file, whose other keys are not read:
//!
//! ```json
//! { "links": [["memory", "nvlink", "host"],
//!             ["nvlink", "memory", "pcie"],
//!             ["host",   "pcie",   "memory"]] }
//! ```

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

use serde::Deserialize;

use crate::topology::{LinkKind, Topology};
use crate::{Error, Result};

/// Bytes of a file at most: a few times what the most devices need, with all that was measured
/// between them. A device file such as `/dev/zero` has no end.
const MOST_BYTES: u64 = 16 << 20;

#[derive(Debug, Deserialize)]
struct TopologyFile {
    /// From each device (row) to each.
    links: Vec<Vec<LinkKind>>,
}

impl FromStr for Topology {
    type Err = Error;

    /// Reads a shape: `{"links": [[...], ...]}`, a row for each device, of the
    /// words `memory` (itself, or one memory), `nvlink`, `pcie` and `host` (no
    /// direct access). Its devices are called 0, 1, 2 and so on.
    fn from_str(text: &str) -> Result<Topology> {
        let fault = |reason: String| Error::Topology { reason };
        let TopologyFile { links } =
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
        let names = (0..devices).map(|place| place.to_string());
        Ok(Topology::from_links(names, |from, to| links[from][to]))
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
    fn bad_shapes_say_why() {
        for (text, reason) in [
            ("", "EOF"),
            ("{}", "missing field `links`"),
            (r#"{"links": [["memory", "wire"]]}"#, "unknown variant `wire`"),
            (r#"{"links": [["memory", "pcie"]]}"#, "row 0 has 2 links, for 1 rows"),
            (r#"{"links": [["memory", "pcie"], ["pcie"]]}"#, "row 1 has 1 links, for 2 rows"),
            (r#"{"links": [["host"]]}"#, "device 0 has no memory link to itself"),
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
