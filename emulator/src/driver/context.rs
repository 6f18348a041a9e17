//! Primary contexts, and which is the calling thread's.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::{c_int, c_uint};
use std::sync::Arc;

use cudarc::driver::sys::{CUcontext, CUdevice, CUresult};

use super::asked::asked;
use super::device::{Device, device};
use super::event::EVENTS;
use super::memory::HOST;
use super::module::{FUNCTIONS, MODULES};
use super::status::{Answer, answer, store};
use super::stream::{STREAMS, Stream};

/// What a device's context holds.
pub(super) struct Context {
    /// Between the first time it is retained and the last time it is released.
    exists: bool,
    /// Devices whose memory its kernels may touch.
    peers: BTreeSet<usize>,
    /// Streams so far.
    pub(super) numbered: u64,
    /// Those that have work, or may get some.
    pub(super) streams: Vec<Arc<Stream>>,
}

impl Context {
    pub(super) fn new() -> Context {
        Context { exists: false, peers: BTreeSet::new(), numbered: 0, streams: Vec::new() }
    }
}

thread_local! {
    static CURRENT: Cell<Option<&'static Device>> = const { Cell::new(None) };
}

/// The device of the calling thread's context.
///
/// # Errors
/// There is none; it had a fault.
pub(super) fn current() -> Answer<&'static Device> {
    let device = CURRENT.get().ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
    if !device.context.lock().exists {
        return Err(CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED);
    }
    device.check().map(|()| device)
}

/// A context's handle is its device's number and 1.
fn of(context: CUcontext) -> Answer<&'static Device> {
    let ordinal = context.addr().wrapping_sub(1);
    let number = CUdevice::try_from(ordinal).map_err(|_| CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
    let device = device(number).map_err(|_| CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
    match device.context.lock().exists {
        true => Ok(device),
        false => Err(CUresult::CUDA_ERROR_INVALID_CONTEXT),
    }
}

impl Device {
    /// Waits until everything submitted to the device so far is over, or there is a fault.
    pub(super) fn synchronize(&self) -> Answer<()> {
        let streams = self.context.lock().streams.clone();
        let marks: Vec<_> = streams.iter().map(|stream| stream.mark()).collect();
        for mark in marks {
            mark.wait(self.failed());
        }
        self.check()
    }

    /// Ends the context; what is left of it is lost.
    fn destroy(&'static self) {
        // Nobody enters from here on.
        self.context.lock().exists = false;
        let is_whole = self.synchronize().is_ok();
        STREAMS.remove_of(self).iter().for_each(|stream| stream.close());
        EVENTS.remove_of(self);
        FUNCTIONS.remove_of(self);
        MODULES.remove_of(self);
        *self.context.lock() = Context::new();
        // A kernel that was stopped may still be on its way.
        if is_whole {
            self.memory.free_all(self.ordinal);
            HOST.free_all(self.ordinal);
        }
    }
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(
    context: *mut CUcontext,
    number: CUdevice,
) -> CUresult {
    answer(|| {
        asked("cuDevicePrimaryCtxRetain")?;
        let device = device(number)?;
        device.check()?;
        let handle = std::ptr::without_provenance_mut(device.ordinal + 1);
        let mut retained = device.retained.lock();
        // SAFETY: the caller's promise, here and below.
        unsafe { store(context, handle) }?;
        *retained += 1;
        device.context.lock().exists = true;
        Ok(())
    })
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRelease_v2(number: CUdevice) -> CUresult {
    answer(|| {
        let device = device(number)?;
        // Held to the end: whoever retains it meanwhile gets a new one.
        let mut retained = device.retained.lock();
        *retained = retained.checked_sub(1).ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
        if *retained == 0 {
            device.destroy();
        }
        Ok(())
    })
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxSetCurrent(context: CUcontext) -> CUresult {
    answer(|| {
        asked("cuCtxSetCurrent")?;
        let device = if context.is_null() { None } else { Some(of(context)?) };
        CURRENT.set(device);
        device.map_or(Ok(()), Device::check)
    })
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxEnablePeerAccess(peer: CUcontext, flags: c_uint) -> CUresult {
    answer(|| {
        let (device, peer) = (current()?, of(peer)?);
        asked("cuCtxEnablePeerAccess")?;
        if flags != 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        if device.is(peer) {
            return Err(CUresult::CUDA_ERROR_INVALID_CONTEXT);
        }
        match device.context.lock().peers.insert(peer.ordinal) {
            true => Ok(()),
            false => Err(CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED),
        }
    })
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetStreamPriorityRange(
    least: *mut c_int,
    greatest: *mut c_int,
) -> CUresult {
    answer(|| {
        current()?;
        // SAFETY: as above.
        unsafe {
            store(least, 0)?;
            store(greatest, -5)
        }
    })
}
