//! When operations of a GPU begin and end, on the clock of a trace.

use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::sys::{self, CUstream};
use parking_lot::Mutex;

use super::context::{GpuContext, NativeHandle};
use crate::Result;
use crate::trace::{Trace, Tracing};

/// How often the clocks are compared; the quickest answer counts.
const COMPARISONS: usize = 10;

/// A mark becomes the next reference if it is at least this much later than the last one: the
/// driver gives the time between two events in 24 bits.
const SPAN: Duration = Duration::from_secs(1);

/// A GPU's time, measured by the driver's events.
#[derive(Debug)]
pub(super) struct GpuClock {
    trace: Trace,
    /// Events that are over, with their times: the first by comparison with the host. None of them is reused.
    references: Mutex<Vec<(NativeHandle, Duration)>>,
    /// Events that are free for use.
    idle: Mutex<Vec<NativeHandle>>,
}

impl GpuClock {
    /// Compares the GPU's time with the trace's. The context must be current.
    pub(super) fn start(context: &GpuContext, trace: &Trace) -> Result<GpuClock> {
        let mut stream = std::ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the context is current; destroyed below.
        context.check(unsafe { sys::cuStreamCreate(&mut stream, flags) }, "cuStreamCreate")?;
        let compare = || {
            let (event, before) = (new_event(context)?, trace.now());
            // SAFETY: the stream was made above.
            unsafe { event.record(context, stream) }?;
            while !event.is_over(context)? {
                std::thread::yield_now();
            }
            let took = trace.now() - before;
            Ok((took, event, before + took / 2))
        };
        let compared: Result<Vec<_>> = (0..COMPARISONS).map(|_| compare()).collect();
        // SAFETY: made above, and nobody else has it.
        let answer = unsafe { sys::cuStreamDestroy_v2(stream) };
        context.check(answer, "cuStreamDestroy")?;
        let mut compared = compared?;
        compared.sort_by_key(|(took, ..)| *took);
        let mut compared = compared.into_iter().map(|(_, event, at)| (event, at));
        let references = compared.next().into_iter().collect();
        let idle = compared.map(|(event, _)| event).collect();
        let (references, idle) = (Mutex::new(references), Mutex::new(idle));
        Ok(GpuClock { trace: trace.clone(), references, idle })
    }

    pub(super) fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Marks the time at which a stream comes to here. The context must be current.
    ///
    /// # Safety
    /// `stream` is a live stream of `context`, whose clock this is.
    unsafe fn mark(&self, context: &GpuContext, stream: CUstream) -> Result<NativeHandle> {
        let idle = self.idle.lock().pop();
        let event = idle.map_or_else(|| new_event(context), Ok)?;
        // SAFETY: the caller's promise.
        match unsafe { event.record(context, stream) } {
            Ok(()) => Ok(event),
            Err(error) => {
                self.give_back(event);
                Err(error)
            }
        }
    }

    fn give_back(&self, mark: NativeHandle) {
        self.idle.lock().push(mark);
    }

    /// The times of two marks, if both are over. Gives the marks back.
    fn times_of(&self, [begin, end]: [NativeHandle; 2]) -> Option<[Duration; 2]> {
        let mut references = self.references.lock();
        let (reference, at) = *references.last()?;
        let since = reference.milliseconds_until(begin);
        let long = begin.milliseconds_until(end);
        let ended = since.zip(long).map(|(since, long)| {
            let begin = at.as_secs_f64() + f64::from(since) / 1000.0;
            let times = [begin, begin + f64::from(long) / 1000.0];
            times.map(|time| Duration::try_from_secs_f64(time).unwrap_or_default())
        });
        match ended {
            Some([_, ended]) if ended > at + SPAN => references.push((end, ended)),
            _ => self.give_back(end),
        }
        self.give_back(begin);
        ended
    }

    /// All events, once no mark is made any more.
    pub(super) fn into_events(self) -> impl Iterator<Item = NativeHandle> {
        let references = self.references.into_inner().into_iter().map(|(event, _)| event);
        references.chain(self.idle.into_inner())
    }
}

fn new_event(context: &GpuContext) -> Result<NativeHandle> {
    NativeHandle::new(context, sys::CUevent_flags::CU_EVENT_DEFAULT)
}

/// An operation between two marks. When this is dropped, the operation is over and enters the log.
pub(super) struct Timed {
    context: Arc<GpuContext>,
    tracing: Box<Tracing>,
    marks: [NativeHandle; 2],
}

impl Timed {
    /// Submits something to a stream between two marks. If a mark cannot be made, it does not enter the log.
    ///
    /// # Safety
    /// `stream` is a live stream of `context`, whose clock this is and which is current.
    ///
    /// # Errors
    /// Those of `submit`.
    pub(super) unsafe fn submit(
        (context, clock): (&Arc<GpuContext>, &GpuClock),
        stream: CUstream,
        tracing: Box<Tracing>,
        submit: impl FnOnce() -> Result<()>,
    ) -> Result<Option<Timed>> {
        // SAFETY: the caller's promise.
        let begin = unsafe { clock.mark(context, stream) }.ok();
        let submitted = submit();
        // SAFETY: the caller's promise.
        let mark = || unsafe { clock.mark(context, stream) }.ok();
        let end = submitted.as_ref().ok().and_then(|()| mark());
        match (begin, end) {
            (Some(begin), Some(end)) => {
                Ok(Some(Timed { context: Arc::clone(context), tracing, marks: [begin, end] }))
            }
            (begin, end) => {
                begin.into_iter().chain(end).for_each(|mark| clock.give_back(mark));
                submitted.map(|()| None)
            }
        }
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        let times = self.context.clock().and_then(|clock| clock.times_of(self.marks));
        if let Some([begin, end]) = times {
            self.tracing.end_at(begin, end);
        }
    }
}
