//! NVIDIA's management library (NVML), which is looked for at run time. Nothing depends on it:
//! whatever it does not answer counts as unknown.

use std::sync::OnceLock;

use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::{P2pCapabilitiesIndex, P2pStatus};
use nvml_wrapper::error::NvmlError;

use crate::location::NvLinks;

/// More connections than any GPU has.
const MOST_LINKS: u32 = 64;

/// The library, started.
#[derive(Debug)]
pub(super) struct Management(Nvml);

impl Management {
    /// The library; `None` if it is missing.
    pub(super) fn get() -> Option<&'static Management> {
        // Starting it takes a while, so it is done once in a process.
        static LIBRARY: OnceLock<Option<Management>> = OnceLock::new();
        LIBRARY.get_or_init(|| Nvml::init().ok().map(Management)).as_ref()
    }

    /// The active NVLink connections of the GPU at this address on the PCI bus.
    pub(super) fn nvlinks(&self, bus: &str) -> Option<NvLinks> {
        let device = self.0.device_by_pci_bus_id(bus).ok()?;
        let mut links = NvLinks { count: 0, version: 0 };
        for number in 0..MOST_LINKS {
            let link = device.link_wrapper_for(number);
            match link.is_active() {
                Ok(true) => {
                    links.count += 1;
                    links.version = links.version.max(link.version().unwrap_or(0));
                }
                Ok(false) => {}
                // One past the last connection, or a GPU without NVLink.
                Err(NvmlError::InvalidArg | NvmlError::NotSupported) => break,
                Err(_) => return None,
            }
        }
        Some(links)
    }

    /// Whether two GPUs are peers over NVLink.
    pub(super) fn over_nvlink(&self, one: &str, other: &str) -> Option<bool> {
        let one = self.0.device_by_pci_bus_id(one).ok()?;
        let other = self.0.device_by_pci_bus_id(other).ok()?;
        let status = one.p2p_status(&other, P2pCapabilitiesIndex::NvLink).ok()?;
        match status {
            P2pStatus::Unknown => None,
            status => Some(status == P2pStatus::Ok),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_library_does_not_know_is_unknown() {
        // Without the library, there is nothing to ask and no error.
        if let Some(management) = Management::get() {
            assert_eq!(management.nvlinks("ffff:ff:1f.0"), None);
            assert_eq!(management.over_nvlink("ffff:ff:1f.0", "ffff:fe:1f.0"), None);
        }
    }
}
