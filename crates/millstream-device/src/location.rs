//! Where in the machine a GPU sits.

use std::path::Path;

use serde::Serialize;

/// A GPU's place in the machine, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Location {
    /// The product's name.
    pub model: String,
    /// Address on the PCI bus, such as `0000:1b:00.0`.
    pub bus: String,
    /// Node of the host's memory that is next to it.
    pub numa_node: Option<u32>,
    /// Its NVLink connections; `None` without NVIDIA's management library.
    pub nvlinks: Option<NvLinks>,
}

/// The NVLink connections of a GPU that are up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NvLinks {
    /// How many.
    pub count: u32,
    /// Their version, as the management library numbers it; 0 if there is none.
    pub version: u32,
}

/// Where the operating system shows what is on the PCI bus.
#[cfg(feature = "cuda")]
pub(crate) const PCI_DEVICES: &str = "/sys/bus/pci/devices";

/// The NUMA node of the device at an address; `None` where there is only one or
/// the system does not say.
#[cfg_attr(not(feature = "cuda"), allow(dead_code))]
pub(crate) fn numa_node(devices: &Path, bus: &str) -> Option<u32> {
    let text = std::fs::read_to_string(devices.join(bus).join("numa_node")).ok()?;
    // The system says -1 for unknown.
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numa_nodes_are_read_where_they_are_known() {
        let folder = tempfile::tempdir().unwrap();
        for (bus, text) in [("0000:1b:00.0", "1\n"), ("0000:2c:00.0", "-1\n"), ("odd", "x")] {
            std::fs::create_dir(folder.path().join(bus)).unwrap();
            std::fs::write(folder.path().join(bus).join("numa_node"), text).unwrap();
        }
        let node = |bus| numa_node(folder.path(), bus);
        assert_eq!(node("0000:1b:00.0"), Some(1));
        assert_eq!((node("0000:2c:00.0"), node("odd"), node("absent")), (None, None, None));
    }
}
