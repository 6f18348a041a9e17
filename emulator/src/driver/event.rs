//! Events: where a stream was when it was asked last.

use std::ffi::c_uint;
use std::sync::Arc;

use cudarc::driver::sys::{CUevent, CUresult, CUstream};
use parking_lot::Mutex;

use super::asked::asked;
use super::context::current;
use super::device::Device;
use super::handles::{Handles, Owned};
use super::point::Point;
use super::status::{Answer, answer, store};
use super::stream::STREAMS;

pub(super) static EVENTS: Handles<Event> = Handles::new();

/// An event; complete unless it was recorded.
pub(super) struct Event {
    device: &'static Device,
    recorded: Mutex<Option<Arc<Point>>>,
}

impl Owned for Event {
    fn device(&self) -> &'static Device {
        self.device
    }
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(event: *mut CUevent, _flags: c_uint) -> CUresult {
    answer(|| {
        asked("cuEventCreate")?;
        let device = current()?;
        if event.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let created = Arc::new(Event { device, recorded: Mutex::new(None) });
        // SAFETY: the caller's promise.
        unsafe { store(event, EVENTS.insert(created)) }
    })
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventDestroy_v2(event: CUevent) -> CUresult {
    // Streams that wait hold the point.
    answer(|| EVENTS.remove(event)?.device.check())
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventQuery(event: CUevent) -> CUresult {
    answer(|| {
        asked("cuEventQuery")?;
        let event = EVENTS.get(event)?;
        let is_over = event.recorded.lock().as_ref().is_none_or(|point| point.is_over());
        // Afterwards: a stream that gives up comes to all its points.
        event.device.check()?;
        if is_over { Ok(()) } else { Err(CUresult::CUDA_ERROR_NOT_READY) }
    })
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventRecord(event: CUevent, stream: CUstream) -> CUresult {
    answer(|| {
        current()?;
        let (event, stream) = (EVENTS.get(event)?, STREAMS.get(stream)?);
        if !event.device.is(stream.device()) {
            return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
        }
        // Held over both, so that the latest record is the one that came last.
        let mut recorded = event.recorded.lock();
        *recorded = Some(stream.mark());
        stream.device().check()
    })
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamWaitEvent(
    stream: CUstream,
    event: CUevent,
    flags: c_uint,
) -> CUresult {
    answer(|| -> Answer<()> {
        asked("cuStreamWaitEvent")?;
        current()?;
        if flags != 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let (event, stream) = (EVENTS.get(event)?, STREAMS.get(stream)?);
        let Some(point) = event.recorded.lock().clone().filter(|point| !point.is_over()) else {
            return stream.device().check();
        };
        stream.submit(move |stop| {
            point.wait(stop);
            Ok(())
        })
    })
}
