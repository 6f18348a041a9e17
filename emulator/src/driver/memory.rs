//! Memory of devices, pinned memory, and whose an address is.

use std::ffi::{c_uint, c_void};

use cudarc::driver::sys::{CUdeviceptr, CUresult};

use super::asked::asked;
use super::context::current;
use super::device::devices;
use super::status::{Answer, answer, store};
use super::window::Window;
use crate::execute::Fault;

/// Pinned memory.
pub(super) static HOST: Window = Window::new(8 << 30);

/// The window that an address is in; `None` for memory of the host that is not pinned.
fn window(address: u64) -> Option<&'static Window> {
    let mut all = devices().iter().map(|device| &device.memory).chain([&HOST]);
    all.find(|window| window.contains(address))
}

/// A range of addresses that can be copied from or to.
#[derive(Clone, Copy)]
pub(super) struct Range {
    address: u64,
    bytes: usize,
    window: Option<&'static Window>,
}

impl Range {
    /// In one allocation, or in memory of the host that is not pinned.
    pub(super) fn any(address: u64, bytes: usize) -> Answer<Range> {
        let range = Range { address, bytes, window: window(address) };
        let is_whole = address.checked_add(bytes as u64).is_some() && address != 0;
        match is_whole && range.is_allocated() {
            true => Ok(range),
            false => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }

    /// In one allocation.
    pub(super) fn allocated(address: u64, bytes: usize) -> Answer<Range> {
        let range = Range::any(address, bytes)?;
        range.window.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        Ok(range)
    }

    fn is_allocated(&self) -> bool {
        self.window.is_none_or(|window| window.holds(self.address, self.bytes))
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where it starts, if it is still allocated.
    pub(super) fn start(&self) -> Result<*mut u8, Fault> {
        if !self.is_allocated() {
            let Range { address, bytes, .. } = self;
            return Err(Fault(format!(
                "{bytes} bytes at {address:#x} were freed before their use"
            )));
        }
        Ok(std::ptr::with_exposed_provenance_mut(self.address as usize))
    }

    /// Zeroes it.
    ///
    /// # Safety
    /// It may be written.
    pub(super) unsafe fn zero(&self) -> Result<(), Fault> {
        self.start()?;
        if let Some(window) = self.window {
            // SAFETY: the caller's promise, and it is allocated.
            unsafe { window.zero(self.address, self.bytes) };
        }
        Ok(())
    }
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize) -> CUresult {
    answer(|| {
        asked("cuMemAlloc")?;
        let device = current()?;
        if bytes == 0 || address.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let memory = device.memory.allocate(bytes, device.ordinal)?;
        // SAFETY: the caller's promise, here and below.
        unsafe { store(address, memory.addr() as u64) }
    })
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> CUresult {
    answer(|| {
        let (left, all) = current()?.memory.left();
        // SAFETY: as above.
        unsafe {
            store(free, left)?;
            store(total, all)
        }
    })
}

/// Waits for the whole device, as CUDA's.
///
/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFree_v2(address: CUdeviceptr) -> CUresult {
    answer(|| {
        current()?.synchronize()?;
        let mut owners = devices().iter();
        let owner = owners.find(|device| device.memory.contains(address));
        owner.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?.memory.free(address)
    })
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostAlloc(
    address: *mut *mut c_void,
    bytes: usize,
    _flags: c_uint,
) -> CUresult {
    answer(|| {
        asked("cuMemHostAlloc")?;
        let device = current()?;
        if bytes == 0 || address.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let memory = HOST.allocate(bytes, device.ordinal)?;
        // SAFETY: as above.
        unsafe { store(address, memory.cast()) }
    })
}

/// Waits for the whole device, as CUDA's.
///
/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFreeHost(address: *mut c_void) -> CUresult {
    answer(|| {
        current()?.synchronize()?;
        HOST.free(address.addr() as u64)
    })
}
