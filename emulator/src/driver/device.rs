//! Devices.

use std::ffi::{c_char, c_int, c_uint};
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use cudarc::driver::sys::{
    CUdevice, CUdevice_P2PAttribute as PeerAttribute, CUdevice_attribute as Attribute, CUresult,
};
use parking_lot::Mutex;

use super::asked::asked;
use super::context::Context;
use super::status::{Answer, answer, store, store_text};
use super::window::Window;
use crate::execute::Fault;
use crate::ptx::SHARED_BYTES;

/// Of CUDA, in thousands, and tens of the minor one.
const VERSION: u32 = 13_000;
const MEMORY: usize = 4 << 30;
const MOST_THREADS: u32 = 1024;

/// An emulated GPU.
pub(super) struct Device {
    pub(super) ordinal: usize,
    pub(super) memory: Window,
    /// How often the context is retained; held while it comes or goes.
    pub(super) retained: Mutex<usize>,
    pub(super) context: Mutex<Context>,
    /// Set where there is a fault: whatever runs stops, and nothing runs any more.
    stop: AtomicBool,
    /// Set when the fault has been told.
    failed: AtomicBool,
}

impl Device {
    fn new(ordinal: usize) -> Device {
        Device {
            ordinal,
            memory: Window::new(MEMORY),
            retained: Mutex::new(0),
            context: Mutex::new(Context::new()),
            stop: AtomicBool::new(false),
            failed: AtomicBool::new(false),
        }
    }

    pub(super) fn is(&self, other: &Device) -> bool {
        self.ordinal == other.ordinal
    }

    /// What says that everything must stop.
    pub(super) fn stop(&self) -> &AtomicBool {
        &self.stop
    }

    /// What says that there was a fault.
    pub(super) fn failed(&self) -> &AtomicBool {
        &self.failed
    }

    /// The fault's error, if there was one.
    pub(super) fn check(&self) -> Answer<()> {
        // Acquire: pairs with the release in `fail`.
        match self.failed.load(Ordering::Acquire) {
            true => Err(CUresult::CUDA_ERROR_LAUNCH_FAILED),
            false => Ok(()),
        }
    }

    /// Whether nothing runs any more; the fault is known then, so that nobody takes what is
    /// given up for done.
    pub(super) fn has_stopped(&self) -> bool {
        // Relaxed: what the fault left is seen through the other flag.
        let stopped = self.stop.load(Ordering::Relaxed);
        // Acquire: see `check`. Whoever stopped the device comes to `fail` next.
        while stopped && !self.failed.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        stopped
    }

    /// Remembers a fault, and tells it.
    pub(super) fn fail(&self, fault: &Fault) {
        // What was only stopped comes after another fault.
        if fault.0.ends_with("stopped") && self.has_stopped() {
            return;
        }
        // Whoever ran may have set it before.
        self.stop.store(true, Ordering::Relaxed);
        // Nobody may be left to read it.
        let _ = writeln!(std::io::stderr(), "emulated device {}: {}", self.ordinal, fault.0);
        // Release: see `check`.
        self.failed.store(true, Ordering::Release);
    }
}

static DEVICES: OnceLock<Vec<Device>> = OnceLock::new();

/// All devices; none before `cuInit`.
pub(super) fn devices() -> &'static [Device] {
    DEVICES.get().map_or(&[], Vec::as_slice)
}

/// The device of this number.
pub(super) fn device(number: CUdevice) -> Answer<&'static Device> {
    if DEVICES.get().is_none() {
        return Err(CUresult::CUDA_ERROR_NOT_INITIALIZED);
    }
    let found = usize::try_from(number).ok().and_then(|number| devices().get(number));
    found.ok_or(CUresult::CUDA_ERROR_INVALID_DEVICE)
}

fn setting(name: &str, default: u32) -> u32 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Multiprocessors of each device.
pub(crate) fn multiprocessors() -> u32 {
    static COUNT: OnceLock<u32> = OnceLock::new();
    *COUNT.get_or_init(|| setting("MILLSTREAM_EMULATED_MULTIPROCESSORS", 6).max(1))
}

fn start() -> Vec<Device> {
    let count = setting("MILLSTREAM_EMULATED_DEVICES", 8);
    (0..count as usize).map(Device::new).collect()
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuInit(flags: c_uint) -> CUresult {
    answer(|| {
        asked("cuInit")?;
        match (flags, DEVICES.get_or_init(start).is_empty()) {
            (1.., _) => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
            (0, true) => Err(CUresult::CUDA_ERROR_NO_DEVICE),
            (0, false) => Ok(()),
        }
    })
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> CUresult {
    // SAFETY: the caller's promise, here and in every function of this file.
    answer(|| unsafe { store(version, c_int::try_from(reported_version()).unwrap_or(c_int::MAX)) })
}

/// The CUDA version that the driver says it is for.
pub(super) fn reported_version() -> u32 {
    setting("MILLSTREAM_EMULATED_VERSION", VERSION)
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> CUresult {
    answer(|| {
        let known = DEVICES.get().ok_or(CUresult::CUDA_ERROR_NOT_INITIALIZED)?;
        // SAFETY: as above.
        unsafe { store(count, c_int::try_from(known.len()).unwrap_or(c_int::MAX)) }
    })
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(found: *mut CUdevice, ordinal: c_int) -> CUresult {
    answer(|| {
        device(ordinal)?;
        // SAFETY: as above.
        unsafe { store(found, ordinal) }
    })
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(
    value: *mut c_int,
    attribute: Attribute,
    number: CUdevice,
) -> CUresult {
    answer(|| {
        device(number)?;
        let known = match attribute {
            Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR => 9,
            Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR => 0,
            Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT => multiprocessors(),
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK => MOST_THREADS,
            Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE => 32,
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN => SHARED_BYTES,
            _ => return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED),
        };
        // SAFETY: as above.
        unsafe { store(value, c_int::try_from(known).unwrap_or(c_int::MAX)) }
    })
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(
    name: *mut c_char,
    length: c_int,
    number: CUdevice,
) -> CUresult {
    answer(|| {
        device(number)?;
        // SAFETY: as above.
        unsafe { store_text(name, length, "Millstream emulator") }
    })
}

/// A place where no machine has a device.
///
/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetPCIBusId(
    bus: *mut c_char,
    length: c_int,
    number: CUdevice,
) -> CUresult {
    answer(|| {
        let text = format!("FFFF:{:02X}:00.0", device(number)?.ordinal + 1);
        // SAFETY: as above.
        unsafe { store_text(bus, length, &text) }
    })
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, number: CUdevice) -> CUresult {
    answer(|| {
        device(number)?;
        // SAFETY: as above.
        unsafe { store(bytes, MEMORY) }
    })
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceCanAccessPeer(
    can: *mut c_int,
    number: CUdevice,
    peer: CUdevice,
) -> CUresult {
    answer(|| {
        let can_access = !device(number)?.is(device(peer)?);
        // SAFETY: as above.
        unsafe { store(can, c_int::from(can_access)) }
    })
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetP2PAttribute(
    value: *mut c_int,
    attribute: PeerAttribute,
    number: CUdevice,
    peer: CUdevice,
) -> CUresult {
    answer(|| {
        if device(number)?.is(device(peer)?) {
            return Err(CUresult::CUDA_ERROR_INVALID_DEVICE);
        }
        let known = match attribute {
            PeerAttribute::CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED
            | PeerAttribute::CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED => 1,
            _ => 0,
        };
        // SAFETY: as above.
        unsafe { store(value, known) }
    })
}
