//! The CUDA driver itself: whether it can be used, and what its answers mean.

use std::ffi::CStr;
use std::sync::LazyLock;

use cudarc::driver::sys::{self, CUresult};

use super::advice::advice;
use crate::{Error, Result};

/// The oldest driver that has all functions that are called, except those for traces.
const OLDEST: i32 = 12_040;
/// The oldest driver that has those for traces, too.
const OLDEST_TO_TRACE: i32 = 12_080;
/// Without it copies are given to the driver one by one.
const OLDEST_TO_COPY_BATCHES: i32 = 13_000;

/// Turns the driver's answer to `call` into an error.
pub(super) fn check(answer: CUresult, call: &'static str, device: &str) -> Result<()> {
    match answer {
        CUresult::CUDA_SUCCESS => Ok(()),
        answer => Err(failure(answer, call, device)),
    }
}

/// The error of a call that did not succeed: the answer's name, and what to do about it.
pub(super) fn failure(answer: CUresult, call: &'static str, device: &str) -> Error {
    let name = name(answer);
    let reason = match advice(answer) {
        Some(advice) => format!("{name}: {advice}"),
        None => name,
    };
    Error::Cuda { device: device.to_string(), call, reason }
}

fn name(answer: CUresult) -> String {
    let mut name = std::ptr::null();
    // SAFETY: the driver stores a pointer to a static string, or leaves null.
    let known = unsafe { sys::cuGetErrorName(answer, &mut name) } == CUresult::CUDA_SUCCESS;
    if !known || name.is_null() {
        return format!("error {}", answer as u32);
    }
    // SAFETY: a static string that ends in NUL.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

/// Why the driver cannot be used.
#[derive(Clone, Copy, Debug)]
enum Fault {
    NoDriver,
    TooOld { version: i32 },
    NoGpu,
    Failed { call: &'static str, answer: CUresult },
}

impl Fault {
    /// Whether there simply is nothing that could be used, which surprises nobody.
    fn is_expected(self) -> bool {
        matches!(self, Fault::NoDriver | Fault::NoGpu)
    }

    /// The error, which says what to do about it.
    fn error(self, device: &str) -> Error {
        let reason = match self {
            Fault::NoDriver => {
                "libcuda.so is not here; install NVIDIA's driver, or use host devices (host:4)"
                    .to_string()
            }
            Fault::TooOld { version } => {
                let [major, minor] = [version / 1000, version % 1000 / 10];
                format!(
                    "it is a driver for CUDA {major}.{minor}; install one for CUDA 12.4 or later"
                )
            }
            Fault::NoGpu => {
                "there is no NVIDIA GPU that CUDA_VISIBLE_DEVICES and the rights to /dev/nvidia* \
                 allow; use host devices (host:4)"
                    .to_string()
            }
            Fault::Failed { call, answer } => {
                return failure(answer, call, device);
            }
        };
        Error::DriverUnavailable { device: device.to_string(), driver: "the CUDA driver", reason }
    }
}

fn load() -> Result<(), Fault> {
    // SAFETY: only looks for the library.
    if !unsafe { sys::is_culib_present() } {
        return Err(Fault::NoDriver);
    }
    let mut version = 0;
    // SAFETY: the oldest function there is; it needs no initialization.
    match unsafe { sys::cuDriverGetVersion(&mut version) } {
        CUresult::CUDA_SUCCESS if version < OLDEST => return Err(Fault::TooOld { version }),
        CUresult::CUDA_SUCCESS => {}
        answer => return Err(Fault::Failed { call: "cuDriverGetVersion", answer }),
    }
    // SAFETY: the flags must be 0.
    match unsafe { sys::cuInit(0) } {
        CUresult::CUDA_SUCCESS => Ok(()),
        CUresult::CUDA_ERROR_NO_DEVICE => Err(Fault::NoGpu),
        answer => Err(Fault::Failed { call: "cuInit", answer }),
    }
}

/// The CUDA version of the driver: 1000 times the major plus 10 times the minor number.
pub(super) fn version() -> i32 {
    let mut version = 0;
    // SAFETY: a driver that was started has it; it stores a number.
    let _ = unsafe { sys::cuDriverGetVersion(&mut version) };
    version
}

/// The same for a driver that may be missing.
pub(super) fn version_if_any() -> Option<i32> {
    // SAFETY: only looks for the library.
    unsafe { sys::is_culib_present() }.then(version)
}

/// Whether this driver, which was started, takes several copies at once.
pub(crate) fn copies_batches() -> bool {
    static COPIES: LazyLock<bool> = LazyLock::new(|| version() >= OLDEST_TO_COPY_BATCHES);
    *COPIES
}

/// Whether this driver, which was started, has what traces need.
///
/// # Errors
/// It lacks something; the error says what to do about it.
pub(super) fn check_traces(device: &str) -> Result<()> {
    if version() >= OLDEST_TO_TRACE {
        return Ok(());
    }
    let (device, driver) = (format!("a trace of {device}"), "another CUDA driver");
    let reason = "install one for CUDA 12.8 or later, or do without the trace".to_string();
    Err(Error::DriverUnavailable { device, driver, reason })
}

/// Loads and starts the driver.
///
/// # Errors
/// No driver, one that is too old, or no GPU; the error says what to do about it.
pub(super) fn start(device: &str) -> Result<()> {
    load().map_err(|fault| fault.error(device))
}

/// Why a driver that is installed does not start, if so.
pub(crate) fn fault() -> Option<Error> {
    unexpected(load())
}

fn unexpected(loaded: Result<(), Fault>) -> Option<Error> {
    loaded.err().filter(|fault| !fault.is_expected()).map(|fault| fault.error("a GPU"))
}

/// How many GPUs there are; none without a driver.
pub(crate) fn count() -> usize {
    if start("cuda").is_err() {
        return 0;
    }
    let mut count = 0;
    // SAFETY: the driver runs, and stores a number.
    let answer = unsafe { sys::cuDeviceGetCount(&mut count) };
    if answer == CUresult::CUDA_SUCCESS { usize::try_from(count).unwrap_or(0) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_driver_that_is_here_has_a_fault() {
        for loaded in [Ok(()), Err(Fault::NoDriver), Err(Fault::NoGpu)] {
            assert_eq!(unexpected(loaded), None);
        }
        let error = unexpected(Err(Fault::TooOld { version: 11_080 }));
        let reason = "it is a driver for CUDA 11.8; install one for CUDA 12.4 or later";
        let expected = format!("a GPU needs the CUDA driver: {reason}");
        assert_eq!(error.map(|error| error.to_string()), Some(expected));
    }
}
