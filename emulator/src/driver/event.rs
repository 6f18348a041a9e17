//! Events: where a stream was when it was asked last.

use std::ffi::c_uint;
use std::sync::Arc;

use cudarc::driver::sys::{CUevent, CUevent_flags, CUresult, CUstream};
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
    /// It does not know when it was over.
    is_timeless: bool,
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
pub unsafe extern "C" fn cuEventCreate(event: *mut CUevent, flags: c_uint) -> CUresult {
    answer(|| {
        asked("cuEventCreate")?;
        let device = current()?;
        if event.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let is_timeless = flags & CUevent_flags::CU_EVENT_DISABLE_TIMING as c_uint != 0;
        let created = Arc::new(Event { device, is_timeless, recorded: Mutex::new(None) });
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
pub unsafe extern "C" fn cuEventElapsedTime_v2(
    milliseconds: *mut f32,
    start: CUevent,
    end: CUevent,
) -> CUresult {
    answer(|| {
        asked("cuEventElapsedTime")?;
        let [start, end] = [EVENTS.get(start)?, EVENTS.get(end)?];
        if milliseconds.is_null() || !start.device.is(end.device) {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let times = [&start, &end].map(|event| {
            if event.is_timeless {
                return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
            }
            let recorded = event.recorded.lock();
            let point = recorded.as_ref().ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
            point.over().ok_or(CUresult::CUDA_ERROR_NOT_READY)
        });
        let [start, end] = times;
        let (start, end) = (start?, end?);
        let forward = end.saturating_duration_since(start).as_secs_f32();
        let back = start.saturating_duration_since(end).as_secs_f32();
        // SAFETY: the caller's promise.
        unsafe { store(milliseconds, (forward - back) * 1000.0) }
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
