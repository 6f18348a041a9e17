//! The CUDA driver itself: whether it is there, and what its answers say.

use std::ffi::CStr;

use cudarc::driver::sys::{self, CUresult};

use crate::{Error, Result};

/// The oldest driver whose functions are all that this module calls.
const OLDEST: i32 = 12_040;

/// Turns the driver's answer to `call` into an error.
pub(super) fn check(answer: CUresult, call: &'static str, device: &str) -> Result<()> {
    match answer {
        CUresult::CUDA_SUCCESS => Ok(()),
        answer => Err(Error::Cuda { device: device.to_string(), call, reason: name(answer) }),
    }
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

/// Loads and starts the driver.
///
/// # Errors
/// No driver, one that is too old, no GPU: with what to do about it.
pub(super) fn start(device: &str) -> Result<()> {
    let unavailable = |reason: String| Error::DriverUnavailable {
        device: device.to_string(),
        driver: "CUDA",
        reason,
    };
    // SAFETY: only looks for the library.
    if !unsafe { sys::is_culib_present() } {
        let reason =
            "libcuda.so is not here; install NVIDIA's driver, or use host devices (host:4)";
        return Err(unavailable(reason.to_string()));
    }
    let mut version = 0;
    // SAFETY: the oldest function there is; it needs no initialization.
    check(unsafe { sys::cuDriverGetVersion(&mut version) }, "cuDriverGetVersion", device)?;
    if version < OLDEST {
        let [major, minor] = [version / 1000, version % 1000 / 10];
        return Err(unavailable(format!(
            "it is a driver for CUDA {major}.{minor}; install one for CUDA 12.4 or later"
        )));
    }
    // SAFETY: the flags must be 0.
    match unsafe { sys::cuInit(0) } {
        CUresult::CUDA_ERROR_NO_DEVICE => {
            Err(unavailable("there is no NVIDIA GPU; use host devices (host:4)".to_string()))
        }
        answer => check(answer, "cuInit", device),
    }
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
