//! When operations of a GPU begin and end, on the clock of a trace.

use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::sys::{self, CUstream};
use parking_lot::Mutex;

use super::context::{GpuContext, NativeHandle};
use crate::Result;
use crate::trace::{Trace, Tracing};

/// A GPU's time, by events of the driver that know it.
#[derive(Debug)]
pub(super) struct GpuClock {
    trace: Trace,
    /// An event that was over at `at`.
    reference: NativeHandle,
    at: Duration,
    /// Events that nobody uses.
    idle: Mutex<Vec<NativeHandle>>,
}

impl GpuClock {
    /// Compares the GPU's time with that of the trace. The context is current.
    pub(super) fn start(context: &GpuContext, trace: &Trace) -> Result<GpuClock> {
        let mut stream = std::ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the context is current; destroyed below.
        context.check(unsafe { sys::cuStreamCreate(&mut stream, flags) }, "cuStreamCreate")?;
        let started = GpuClock::start_on(context, trace, stream);
        // SAFETY: made above, and nobody else has it.
        let answer = unsafe { sys::cuStreamDestroy_v2(stream) };
        context.check(answer, "cuStreamDestroy").and(started)
    }

    fn start_on(context: &GpuContext, trace: &Trace, stream: CUstream) -> Result<GpuClock> {
        let reference = NativeHandle::new(context, sys::CUevent_flags::CU_EVENT_DEFAULT)?;
        let mut at = Duration::ZERO;
        // The first one takes long.
        for _ in 0..3 {
            let before = trace.now();
            reference.record(context, stream)?;
            while !reference.is_over(context)? {}
            at = (before + trace.now()) / 2;
        }
        Ok(GpuClock { trace: trace.clone(), reference, at, idle: Mutex::default() })
    }

    pub(super) fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Notes when a stream comes to here. The context is current.
    fn mark(&self, context: &GpuContext, stream: CUstream) -> Result<NativeHandle> {
        let idle = self.idle.lock().pop();
        let event = match idle {
            Some(event) => event,
            None => NativeHandle::new(context, sys::CUevent_flags::CU_EVENT_DEFAULT)?,
        };
        event.record(context, stream).map(|()| event)
    }

    /// When that was, if it is over.
    fn time_of(&self, mark: NativeHandle) -> Option<Duration> {
        let milliseconds = self.reference.milliseconds_until(mark)?;
        Some(self.at + Duration::try_from_secs_f32(milliseconds / 1000.0).ok()?)
    }

    /// All events, for good.
    pub(super) fn into_events(self) -> impl Iterator<Item = NativeHandle> {
        self.idle.into_inner().into_iter().chain([self.reference])
    }
}

/// An operation between two marks. When it is let go it is over, and enters the log.
pub(super) struct Timed {
    context: Arc<GpuContext>,
    tracing: Box<Tracing>,
    begin: NativeHandle,
    end: NativeHandle,
}

impl Timed {
    /// Submits something to a stream between two marks. The context is current.
    pub(super) fn submit(
        (context, clock): (&Arc<GpuContext>, &GpuClock),
        stream: CUstream,
        tracing: Box<Tracing>,
        submit: impl FnOnce() -> Result<()>,
    ) -> Result<Timed> {
        let begin = clock.mark(context, stream)?;
        submit()?;
        let end = clock.mark(context, stream)?;
        Ok(Timed { context: Arc::clone(context), tracing, begin, end })
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        let Some(clock) = self.context.clock() else { return };
        let times = [self.begin, self.end].map(|mark| clock.time_of(mark));
        clock.idle.lock().extend([self.begin, self.end]);
        if let [Some(begin), Some(end)] = times {
            self.tracing.end_at(begin, end);
        }
    }
}
