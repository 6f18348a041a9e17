//! The GPUs that the machine has, and where they are.

use std::ffi::{CStr, c_char, c_int};
use std::path::Path;

use cudarc::driver::sys::{self, CUdevice};

use super::driver::check;
use super::management::Management;
use crate::Result;
use crate::location::{Location, PCI_DEVICES, numa_node};

/// A GPU, as the driver knows it.
#[derive(Debug)]
pub(super) struct Identity {
    model: String,
    /// In lower case, as the operating system writes it.
    pub(super) bus: String,
}

impl Identity {
    /// Where in the machine the GPU is.
    pub(super) fn location(self, management: Option<&Management>) -> Location {
        let Identity { model, bus } = self;
        Location {
            numa_node: numa_node(Path::new(PCI_DEVICES), &bus),
            nvlinks: management.and_then(|management| management.nvlinks(&bus)),
            model,
            bus,
        }
    }
}

/// The GPU of a handle given by the driver.
pub(super) fn identity(device: CUdevice) -> Result<Identity> {
    let (mut model, mut bus) = ([0; 256], [0; 32]);
    let name = format!("GPU {device}");
    // SAFETY: the driver runs, and writes no more than it is told there is.
    let answer = unsafe { sys::cuDeviceGetName(model.as_mut_ptr(), length(&model), device) };
    check(answer, "cuDeviceGetName", &name)?;
    // SAFETY: as above.
    let answer = unsafe { sys::cuDeviceGetPCIBusId(bus.as_mut_ptr(), length(&bus), device) };
    check(answer, "cuDeviceGetPCIBusId", &name)?;
    Ok(Identity { model: text(&model), bus: text(&bus).to_lowercase() })
}

fn length(buffer: &[c_char]) -> c_int {
    c_int::try_from(buffer.len()).unwrap_or(c_int::MAX)
}

/// The text before the first NUL.
fn text(buffer: &[c_char]) -> String {
    let bytes: Vec<u8> = buffer.iter().map(|character| *character as u8).collect();
    CStr::from_bytes_until_nul(&bytes).unwrap_or_default().to_string_lossy().into_owned()
}

/// The driver's version, and every GPU that it shows, in its order.
pub(super) fn describe() -> Result<String> {
    let (mut version, mut count) = (0, 0);
    // SAFETY: the driver runs, and stores a number, here and below.
    check(unsafe { sys::cuDriverGetVersion(&mut version) }, "cuDriverGetVersion", "cuda")?;
    // SAFETY: as above.
    check(unsafe { sys::cuDeviceGetCount(&mut count) }, "cuDeviceGetCount", "cuda")?;
    let mut description = format!("CUDA {version}");
    for ordinal in 0..count {
        let mut device = 0;
        // SAFETY: as above.
        let answer = unsafe { sys::cuDeviceGet(&mut device, ordinal) };
        check(answer, "cuDeviceGet", &format!("cuda:{ordinal}"))?;
        let Identity { model, bus } = identity(device)?;
        description += &format!("; cuda:{ordinal} {model} at {bus}");
    }
    Ok(description)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_ends_before_the_first_nul() {
        assert_eq!(text(&[b'a' as c_char, b'b' as c_char, 0, b'c' as c_char]), "ab");
        assert_eq!(text(&[0]), "");
        assert_eq!(text(&[b'a' as c_char]), "");
    }
}
