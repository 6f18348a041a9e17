//! Streams of a GPU. The driver has few that run side by side (hardware queues
//! alias beyond that), so any number of [`CudaStream`]s share a few [`Lane`]s.
//! No wait refers to a later submission, so sharing cannot close a cycle.

use std::any::Any;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUstream};
use parking_lot::Mutex;

use super::context::{GpuContext, NativeEvent};
use super::reactor::ReactorHandle;
use super::words::{Word, Words};
use crate::event::{Event, EventStatus};
use crate::reactor::Waiting;
use crate::stream::StreamKind;
use crate::task::{Place, Task};
use crate::{Error, Result};

/// Operations held without an event after which they are let go.
const MOST_HELD: usize = 256;

type Held = Box<dyn Any + Send>;

/// The first failure of a stream.
#[derive(Debug, Default)]
pub(super) struct FirstCause(Mutex<Option<Error>>);

impl FirstCause {
    fn get(&self) -> Option<Error> {
        self.0.lock().clone()
    }

    fn set(&self, cause: Error) {
        self.0.lock().get_or_insert(cause);
    }
}

/// What happens when a lane has come to a certain point.
pub(super) struct Pending {
    event: Option<Event>,
    cause: Arc<FirstCause>,
    /// Events that streams of this lane have waited for since the point before.
    after: Vec<(Event, Arc<FirstCause>)>,
    /// What the operations before use.
    held: Vec<Held>,
}

impl Pending {
    /// Whether all events it comes after are known to be over.
    pub(super) fn is_ready(&self) -> bool {
        self.after.iter().all(|(event, _)| event.status() != EventStatus::Pending)
    }

    /// The point is reached, or never will be.
    pub(super) fn finish(self, poison: Option<&Error>) {
        for (event, cause) in self.after {
            if let EventStatus::Failed(error) = event.status() {
                cause.set(error);
            }
        }
        // Memory first: whoever hears of the event may want it.
        drop(self.held);
        let failed = self.cause.get().or_else(|| poison.cloned());
        if let Some(event) = self.event {
            event.complete(failed.map_or(Ok(()), Err));
        }
    }
}

/// One of the driver's streams.
pub(crate) struct Lane {
    pub(super) context: Arc<GpuContext>,
    number: usize,
    stream: Handle,
    /// Shows the last point that the stream has come to.
    word: Word,
    words: Arc<Words>,
    submission: Mutex<Submission>,
    waiting: Waiting<Pending>,
    reactor: ReactorHandle,
}

struct Handle(CUstream);

// SAFETY: driver handles may be used from any thread; submissions are one at a
// time, under the lane's lock.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

#[derive(Default)]
struct Submission {
    /// The last point given out.
    point: u32,
    held: Vec<Held>,
    after: Vec<(Event, Arc<FirstCause>)>,
    /// Points of other lanes that this one comes after already.
    passed: HashMap<usize, u32>,
}

impl Submission {
    /// Whether the lane comes after a point of another; it does from now on.
    fn passes(&mut self, lane: usize, point: u32) -> bool {
        match self.passed.entry(lane) {
            // Points wrap around.
            Entry::Occupied(known) if point.wrapping_sub(*known.get()) as i32 <= 0 => true,
            entry => {
                entry.insert_entry(point);
                false
            }
        }
    }
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Lane({} {})", self.context.name, self.number)
    }
}

impl Lane {
    pub(super) fn new(
        context: &Arc<GpuContext>,
        number: usize,
        kind: StreamKind,
        words: &Arc<Words>,
        reactor: ReactorHandle,
    ) -> Result<Arc<Lane>> {
        context.bind()?;
        let (mut least, mut greatest, mut stream) = (0, 0, std::ptr::null_mut());
        // SAFETY: the context is current.
        let answer = unsafe { sys::cuCtxGetStreamPriorityRange(&mut least, &mut greatest) };
        context.check(answer, "cuCtxGetStreamPriorityRange")?;
        let priority = if kind == StreamKind::HighPriority { greatest } else { least };
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: as above; destroyed with the lane.
        let answer = unsafe { sys::cuStreamCreateWithPriority(&mut stream, flags, priority) };
        context.check(answer, "cuStreamCreateWithPriority")?;
        let word = words.take()?.ok_or_else(|| no_pinned_memory(context))?;
        Ok(Arc::new(Lane {
            context: Arc::clone(context),
            number,
            stream: Handle(stream),
            word,
            words: Arc::clone(words),
            submission: Mutex::new(Submission::default()),
            waiting: Waiting::new(),
            reactor,
        }))
    }

    /// Takes out the points that the stream has come to.
    pub(super) fn take_done(&self) -> Vec<Pending> {
        self.waiting.take_done(self.word.load(), Pending::is_ready)
    }

    /// Takes out every point, after a fault.
    pub(super) fn take_all(&self) -> Vec<Pending> {
        self.waiting.take_all()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Asks the driver whether the stream is alive.
    pub(super) fn probe(&self) -> Result<()> {
        self.context.bind()?;
        // SAFETY: a live stream of the current context.
        match unsafe { sys::cuStreamQuery(self.stream.0) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(()),
            answer => self.context.check(answer, "a kernel or a copy"),
        }
    }

    /// Blocks until everything submitted so far is over.
    pub(super) fn synchronize(&self) -> Result<()> {
        let mut submission = self.submission.lock();
        self.point(&mut submission, None, &Arc::default())?;
        drop(submission);
        // SAFETY: a live stream of the current context.
        let answer = unsafe { sys::cuStreamSynchronize(self.stream.0) };
        self.context.check(answer, "cuStreamSynchronize")
    }

    fn submit(&self, task: Task) -> Result<()> {
        let mut submission = self.submission.lock();
        self.context.bind()?;
        let stream = LaneStream { context: &self.context, stream: self.stream.0 };
        // Held even if the call fails: it may have begun.
        let submitted = stream.submit(&task);
        submission.held.push(Box::new(task));
        submitted?;
        match submission.held.len() {
            ..MOST_HELD => Ok(()),
            _ => self.point(&mut submission, None, &Arc::default()),
        }
    }

    /// Makes the stream say when it has come to here.
    fn point(
        &self,
        submission: &mut Submission,
        event: Option<&Event>,
        cause: &Arc<FirstCause>,
    ) -> Result<()> {
        self.context.bind()?;
        let point = submission.point.wrapping_add(1);
        if let Some(event) = event {
            let place = (self.number, point);
            // SAFETY: a live stream of the context.
            let native = unsafe { NativeEvent::record(&self.context, self.stream.0, place) }?;
            event.set_native(native);
        }
        // SAFETY: the word lives as long as the lane; without the flag that omits
        // it, the write comes after everything before and makes that visible.
        let answer =
            unsafe { sys::cuStreamWriteValue32_v2(self.stream.0, self.word.address(), point, 0) };
        self.context.check(answer, "cuStreamWriteValue32")?;
        submission.point = point;
        let held = std::mem::take(&mut submission.held);
        let after = std::mem::take(&mut submission.after);
        let (event, cause) = (event.cloned(), Arc::clone(cause));
        self.waiting.push(point, Pending { event, cause, after, held });
        self.reactor.notify();
        Ok(())
    }

    fn wait(&self, event: &Event, cause: &Arc<FirstCause>) -> Result<()> {
        // What is over needs no wait, and each wait costs the stream a microsecond.
        if event.is_complete() {
            return Ok(());
        }
        let mut submission = self.submission.lock();
        self.context.bind()?;
        match event.native() {
            Some(native) if native.lane == self.number => {}
            Some(native) if submission.passes(native.lane, native.point) => {}
            Some(native) => {
                // SAFETY: the event was recorded, and lives as long as `event`,
                // which is held below.
                let answer = unsafe { sys::cuStreamWaitEvent(self.stream.0, native.handle(), 0) };
                self.context.check(answer, "cuStreamWaitEvent")?;
            }
            None => {
                let word = self.words.take()?.ok_or_else(|| no_pinned_memory(&self.context))?;
                let word = Arc::new(word);
                let flags = sys::CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_GEQ as u32;
                // SAFETY: the word is held until the stream has passed.
                let answer =
                    unsafe { sys::cuStreamWaitValue32_v2(self.stream.0, word.address(), 1, flags) };
                self.context.check(answer, "cuStreamWaitValue32")?;
                submission.held.push(Box::new(Arc::clone(&word)));
                event.on_complete(move |_| word.store(1));
            }
        }
        submission.after.push((event.clone(), Arc::clone(cause)));
        Ok(())
    }
}

fn no_pinned_memory(context: &GpuContext) -> Error {
    Error::Cuda {
        device: context.name.clone(),
        call: "cuMemHostAlloc",
        reason: "no pinned memory is left".to_string(),
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: a stream of this context; nobody submits to it any more.
            let _ = unsafe { sys::cuStreamDestroy_v2(self.stream.0) };
        }
    }
}

/// The driver's stream, while its lane's lock is held and its context current.
pub(crate) struct LaneStream<'a> {
    pub(super) context: &'a Arc<GpuContext>,
    pub(super) stream: CUstream,
}

impl LaneStream<'_> {
    fn submit(&self, task: &Task) -> Result<()> {
        match task {
            Task::Copy { from, to } => {
                self.copy(to.address() as u64, from.address() as u64, from.bytes())
            }
            Task::Upload { from, to } => {
                let from = from.bytes();
                self.copy(to.address() as u64, from.as_ptr() as u64, from.len())
            }
            Task::Fill { to, pattern } => self.fill(to, pattern),
            Task::Launch(launch) => launch.submit(self),
        }
    }

    /// The driver knows from the addresses whose memory they are.
    fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: both places are held until the stream has passed, and the ledger
        // has ordered the copy alone on its destination.
        let answer = unsafe { sys::cuMemcpyAsync(to, from, bytes, self.stream) };
        self.context.check(answer, "cuMemcpyAsync")
    }

    fn fill(&self, to: &Place, pattern: &[u8]) -> Result<()> {
        let (address, bytes) = (to.address() as u64, to.bytes());
        if bytes == 0 || pattern.is_empty() {
            return Ok(());
        }
        if pattern.iter().all(|byte| *byte == pattern[0]) {
            // SAFETY: as in `copy`.
            let answer = unsafe { sys::cuMemsetD8Async(address, pattern[0], bytes, self.stream) };
            return self.context.check(answer, "cuMemsetD8Async");
        }
        // One column of words, or of what is left of one, at a time.
        let (step, rows) = (pattern.len(), bytes / pattern.len());
        let (words, rest) = pattern.as_chunks::<4>();
        for (place, word) in words.iter().enumerate() {
            let (at, word) = (address + place as u64 * 4, u32::from_ne_bytes(*word));
            if step == 4 {
                // SAFETY: as in `copy`; items of four bytes are aligned.
                let answer = unsafe { sys::cuMemsetD32Async(at, word, rows, self.stream) };
                self.context.check(answer, "cuMemsetD32Async")?;
            } else if step.is_multiple_of(4) {
                // SAFETY: as above.
                let answer =
                    unsafe { sys::cuMemsetD2D32Async(at, step, word, 1, rows, self.stream) };
                self.context.check(answer, "cuMemsetD2D32Async")?;
            } else {
                self.fill_bytes(at, step, &word.to_ne_bytes(), rows)?;
            }
        }
        self.fill_bytes(address + words.len() as u64 * 4, step, rest, rows)
    }

    fn fill_bytes(&self, address: u64, step: usize, bytes: &[u8], rows: usize) -> Result<()> {
        for (place, byte) in bytes.iter().enumerate() {
            let at = address + place as u64;
            // SAFETY: as in `copy`.
            let answer = unsafe { sys::cuMemsetD2D8Async(at, step, *byte, 1, rows, self.stream) };
            self.context.check(answer, "cuMemsetD2D8Async")?;
        }
        Ok(())
    }
}

/// A stream: an order of its own on a lane it shares.
#[derive(Debug)]
pub(crate) struct CudaStream {
    lane: Arc<Lane>,
    cause: Arc<FirstCause>,
}

impl CudaStream {
    pub(super) fn new(lane: Arc<Lane>) -> CudaStream {
        CudaStream { lane, cause: Arc::default() }
    }

    /// The first cause, if an operation has failed.
    pub(crate) fn check(&self) -> Result<()> {
        let poison = self.lane.context.poison.get().cloned();
        self.cause.get().or(poison).map_or(Ok(()), Err)
    }

    /// Fails the stream.
    pub(crate) fn fail(&self, cause: Error) {
        self.cause.set(cause);
    }

    pub(crate) fn submit(&self, task: Task) -> Result<()> {
        self.or_fail(self.lane.submit(task))
    }

    pub(crate) fn record(&self, event: &Event) -> Result<()> {
        let mut submission = self.lane.submission.lock();
        self.or_fail(self.lane.point(&mut submission, Some(event), &self.cause))
    }

    pub(crate) fn wait(&self, event: &Event) -> Result<()> {
        match event.status() {
            EventStatus::Complete => Ok(()),
            EventStatus::Failed(cause) => {
                self.cause.set(cause);
                Ok(())
            }
            EventStatus::Pending => self.or_fail(self.lane.wait(event, &self.cause)),
        }
    }

    /// Holds `last` until everything submitted so far is over.
    pub(crate) fn close(&self, last: Held) {
        let mut submission = self.lane.submission.lock();
        submission.held.push(last);
        // A poisoned lane lets go of nothing more.
        let _ = self.lane.point(&mut submission, None, &self.cause);
    }

    fn or_fail(&self, result: Result<()>) -> Result<()> {
        if let Err(cause) = &result {
            self.cause.set(cause.clone());
        }
        result
    }
}
