//! Lanes: the driver's streams, and what waits to be submitted to them.

mod points;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use cudarc::driver::sys::{self, CUstream};

use super::context::{GpuContext, WORK};
use super::in_order::{InOrder, Rest, Step};
use super::lane_stream::LaneStream;
use super::operation::{Operation, Performed, Queue, Submitted, Work};
use super::pending::{Held, Pending};
use super::reactor::ReactorHandle;
use super::settle::{Busy, Resuming, does_anybody_settle, is_resuming, wait_until, watch};
use super::submission::Submission;
use super::submitter::Submitter;
use super::words::{Word, Words};
use crate::event::{Event, EventStatus};
use crate::first_cause::{FirstCause, Untold};
use crate::reactor::Waiting;
use crate::stream_kind::StreamKind;
use crate::task::Task;
use crate::{Error, Result};

/// Operations held without an event after which they are let go.
const MOST_HELD: usize = 256;
/// Operations left to the GPU's thread after which whoever leaves more waits: about as
/// many as the driver takes before it makes callers wait.
const MOST_LEFT: usize = 1024;
/// How long a launch waits for others to join it, at most.
const MOST_GATHERING: Duration = Duration::from_micros(100);
/// Between looks at whether it still does, which hold up who leaves more: some microseconds.
const SPINS: usize = 100;

/// One of the driver's streams.
pub(crate) struct Lane {
    pub(super) context: Arc<GpuContext>,
    number: usize,
    stream: Handle,
    /// Shows the last point that the stream has come to; `None` for copies, whose
    /// events are asked: the barrier before a word would hold up the next copy.
    word: Option<Word>,
    submission: Arc<Queue>,
    /// Of those that are left something.
    watched: Once,
    submitter: Arc<Submitter>,
    waiting: Waiting<Pending>,
    /// The last point that is finished: written by the reactor.
    finished: AtomicU64,
    reactor: ReactorHandle,
}

struct Handle(CUstream);

// SAFETY: driver handles may be used from any thread; submissions are one at a
// time, under the lane's lock.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

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
        (submitter, reactor): (Arc<Submitter>, ReactorHandle),
    ) -> Result<Arc<Lane>> {
        // First: whoever fails here has no stream yet.
        let word = match kind {
            StreamKind::Copy => None,
            _ => Some(words.take()?.ok_or_else(|| no_pinned_memory(context))?),
        };
        context.bind()?;
        let (mut least, mut greatest, mut stream) = (0, 0, std::ptr::null_mut());
        // SAFETY: the context is current.
        let answer = unsafe { sys::cuCtxGetStreamPriorityRange(&mut least, &mut greatest) };
        context.check(answer, "cuCtxGetStreamPriorityRange")?;
        let is_urgent = matches!(kind, StreamKind::HighPriority | StreamKind::SmallCopy);
        let priority = if is_urgent { greatest } else { least };
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: as above; destroyed with the lane.
        let answer = unsafe { sys::cuStreamCreateWithPriority(&mut stream, flags, priority) };
        context.check(answer, "cuStreamCreateWithPriority")?;
        Ok(Arc::new(Lane {
            context: Arc::clone(context),
            number,
            stream: Handle(stream),
            word,
            submission: Arc::new(InOrder::new(Submission::default())),
            watched: Once::new(),
            submitter,
            waiting: Waiting::new(),
            finished: AtomicU64::new(0),
            reactor,
        }))
    }

    /// Finishes the points that the stream has come to, after a fault all of them;
    /// whether there was one. Called by the reactor.
    pub(super) fn finish(&self, poison: Option<&Error>) -> bool {
        let points = match (poison, &self.word) {
            (Some(_), _) => self.waiting.take_all(),
            (None, Some(word)) => self.waiting.take_done(word.load(), Pending::is_ready),
            (None, None) => self.take_asked(),
        };
        let found = !points.is_empty();
        for pending in points {
            let point = pending.point;
            match poison {
                None => pending.finish(),
                Some(poison) => pending.fail(poison),
            }
            // Not counted: a point whose launch was refused is passed over. Release: pairs with the
            // acquire in `is_over`, so that whoever finds nothing under way sees what has become of it.
            self.finished.store(point, Ordering::Release);
        }
        found
    }

    /// Takes out the points whose events the driver says are over. It is asked without
    /// the queue's lock, which whoever submits needs.
    fn take_asked(&self) -> Vec<Pending> {
        let first =
            || self.waiting.first(|point| point.native.clone().filter(|_| point.is_ready()));
        let mut done = Vec::new();
        while first().flatten().is_some_and(|native| native.is_over()) {
            done.extend(self.waiting.take_first());
        }
        done
    }

    /// Whether everything submitted so far is over, and all of it known.
    fn is_over(&self) -> bool {
        // Acquire: see `finish`.
        let over = |known: &Submission| known.is_over(self.finished.load(Ordering::Acquire));
        self.submission.look(over).unwrap_or(false)
    }

    /// Whether nothing is submitted that is not over, nor will be.
    pub(super) fn is_idle(&self) -> bool {
        // In this order: what waited first is then submitted.
        !self.is_held_up() && self.waiting.is_empty()
    }

    /// Whether something waits for the host to be submitted.
    pub(super) fn is_held_up(&self) -> bool {
        self.submission.outstanding() > 0
    }

    /// Asks the driver whether the stream is alive.
    ///
    /// # Errors
    /// The failure that poisoned the process, or now has.
    pub(super) fn probe(&self) -> Result<()> {
        self.context.bind()?;
        // SAFETY: a live stream of the current context.
        let answer = unsafe { sys::cuStreamQuery(self.stream.0) };
        self.context.is_over(answer, WORK).map(drop)
    }

    /// Blocks until everything submitted so far is over.
    pub(super) fn synchronize(self: &Arc<Self>) -> Result<()> {
        self.point(None, None, &Arc::default()).finish()?;
        while self.is_held_up() && self.context.poison.get().is_none() {
            std::thread::yield_now();
        }
        self.context.bind()?;
        // SAFETY: a live stream of the current context.
        let answer = unsafe { sys::cuStreamSynchronize(self.stream.0) };
        self.context.check(answer, "cuStreamSynchronize")
    }

    /// Runs a task for the stream of this cause; a kernel has been loaded.
    pub(super) fn submit(self: &Arc<Self>, task: Task, cause: &Arc<FirstCause>) -> Submitted {
        self.enter(Work::Run(task), cause)
    }

    /// As [`Lane::submit`], by the GPU's thread, or in the end by the caller if that sleeps.
    pub(super) fn leave(self: &Arc<Self>, task: Task, cause: &Arc<FirstCause>) -> Submitted {
        self.watched.call_once(|| watch(&self.submission));
        let operation = Operation { work: Work::Run(task), cause: Arc::clone(cause) };
        match self.submission.leave(operation, Busy::begin) {
            (Some(busy), _) => Submitted::Left(Arc::clone(self), busy),
            (None, ..=MOST_LEFT) => Submitted::Queued,
            (None, _) => Submitted::Crowded(Arc::clone(self)),
        }
    }

    /// As [`Lane::submit`], when whoever submits it says so: see [`Submitted::begin_here`].
    pub(super) fn hold(self: &Arc<Self>, task: Task, cause: &Arc<FirstCause>) -> Submitted {
        self.watched.call_once(|| watch(&self.submission));
        let operation = Operation { work: Work::Run(task), cause: Arc::clone(cause) };
        match self.submission.hold(operation) {
            true => Submitted::Held(Arc::clone(self)),
            false => Submitted::Queued,
        }
    }

    /// Waits while too much is left. A thread that others wait for goes on.
    pub(super) fn wait_for_room(&self) {
        if !is_resuming() {
            wait_until(|| !self.submission.is_behind(MOST_LEFT));
        }
    }

    /// Runs a kernel that tells, and records an event after it.
    pub(super) fn submit_and_record(
        self: &Arc<Self>,
        task: Task,
        event: Event,
        cause: &Arc<FirstCause>,
    ) -> Submitted {
        self.enter(Work::Tell(task, event), cause)
    }

    /// Records an event, which is complete at once if there is nothing to come after:
    /// that costs no call of the driver.
    pub(super) fn record(self: &Arc<Self>, event: Event, cause: &Arc<FirstCause>) -> Submitted {
        self.record_as(|event| Work::Point(Some(event), None), event, cause)
    }

    /// The same for an event that only the host waits for: it needs none of the driver's, which takes
    /// about a microsecond.
    pub(super) fn end(self: &Arc<Self>, event: Event, cause: &Arc<FirstCause>) -> Submitted {
        self.record_as(Work::End, event, cause)
    }

    fn record_as(
        self: &Arc<Self>,
        work: impl FnOnce(Event) -> Work,
        event: Event,
        cause: &Arc<FirstCause>,
    ) -> Submitted {
        if self.is_over() {
            // Points that failed with the process count as over: its cause was set before.
            let cause = cause.get().or_else(|| self.context.poison.get());
            event.complete(cause.map_or(Ok(()), |cause| Err(cause.clone())));
            return Submitted::Queued;
        }
        self.enter(work(event), cause)
    }

    /// Makes the stream say when it has come to here, and let go of `last` then.
    pub(super) fn point(
        self: &Arc<Self>,
        event: Option<Event>,
        last: Option<Held>,
        cause: &Arc<FirstCause>,
    ) -> Submitted {
        self.enter(Work::Point(event, last), cause)
    }

    /// Makes what comes next come after an event.
    pub(super) fn wait(self: &Arc<Self>, event: Event, cause: &Arc<FirstCause>) -> Submitted {
        // What is over needs no wait, and each wait costs the stream a microsecond.
        match event.is_complete() {
            true => Submitted::Queued,
            false => self.enter(Work::Wait(event), cause),
        }
    }

    /// Submits an operation, now or once what it must come after is over.
    fn enter(self: &Arc<Self>, work: Work, cause: &Arc<FirstCause>) -> Submitted {
        let mut performed = None;
        let operation = Operation { work, cause: Arc::clone(cause) };
        let obstacle = self.submission.submit(operation, |submission, operation| {
            self.perform(submission, operation, &mut performed)
        });
        match (performed, obstacle) {
            (Some(performed), _) => Submitted::Performed(performed),
            (None, Some(event)) => Submitted::HeldUp(Arc::clone(self), event),
            (None, None) => Submitted::Queued,
        }
    }

    /// Resumes the lane on the GPU's thread, or here if that sleeps.
    pub(super) fn resume_soon(self: Arc<Self>, busy: Busy) {
        let submitter = Arc::clone(&self.submitter);
        if let Some((lane, _busy)) = submitter.resume((self, busy)) {
            lane.resume();
        }
    }

    /// Resumes what is held on the GPU's thread, or here if that sleeps.
    pub(super) fn let_go(self: Arc<Self>) {
        // In this order: who settles looks for those who are busy first.
        let busy = Busy::begin();
        self.submission.let_go();
        self.resume_soon(busy);
    }

    pub(super) fn resume_after(self: Arc<Self>, event: &Event) {
        event.on_recorded(move || self.resume());
    }

    /// Submits what has waited.
    pub(super) fn resume(self: Arc<Self>) {
        self.resume_for(Duration::ZERO);
    }

    /// The same, by the GPU's thread: launches that [gather](crate::Parameter::gathers) may.
    pub(super) fn resume_gathering(self: Arc<Self>) {
        self.resume_for(MOST_GATHERING);
    }

    /// Launches gather for so long.
    fn resume_for(self: Arc<Self>, most: Duration) {
        let _resuming = Resuming::begin();
        let mut gathering: Option<Instant> = None;
        loop {
            let mut performed = None;
            let gathers = |operation: &Operation| {
                gathering.map_or(Duration::ZERO, |since| since.elapsed()) < most
                    && !does_anybody_settle()
                    && operation.gathers()
            };
            let rest = self.submission.resume(Operation::join, gathers, |submission, operation| {
                self.perform(submission, operation, &mut performed)
            });
            // Without the lane's locks, because whoever hears may submit more.
            if let Some(performed) = performed {
                performed.tell(&self.context.poison);
            }
            match rest {
                Rest::None => return,
                Rest::More => gathering = None,
                Rest::Gathers => {
                    gathering.get_or_insert_with(Instant::now);
                    (0..SPINS).for_each(|_| std::hint::spin_loop());
                }
                Rest::HeldUp(event) => return self.resume_after(&event),
            }
        }
    }

    /// Gives an operation to the driver, unless it must come after an event that is
    /// not recorded on a GPU and not over. A failure fails the stream.
    fn perform(
        &self,
        submission: &mut Submission,
        Operation { work, cause }: Operation,
        performed: &mut Option<Performed>,
    ) -> Step<Operation, Event> {
        let mut failed = Untold::nothing();
        let (result, event) = match work {
            Work::Run(task) => (self.run(submission, task, &cause), None),
            Work::Tell(task, event) => {
                (self.submit_telling(submission, task, &event, &cause), Some(event))
            }
            Work::Point(event, last) => {
                submission.held.extend(last);
                let is_placed = event.is_some();
                (self.submit_point(submission, event.as_ref(), is_placed, &cause), event)
            }
            Work::End(event) => {
                (self.submit_point(submission, Some(&event), false, &cause), Some(event))
            }
            Work::Wait(event) => match event.status() {
                EventStatus::Complete => (Ok(()), None),
                EventStatus::Failed(error) => {
                    failed = cause.set(error);
                    (Ok(()), None)
                }
                EventStatus::Pending if event.native().is_none() => {
                    let work = Work::Wait(event.clone());
                    return Step::HeldUp(Operation { work, cause }, event);
                }
                EventStatus::Pending => (self.submit_wait(submission, event, &cause), None),
            },
        };
        if let Err(error) = &result {
            failed = cause.set(error.clone());
        }
        *performed = Some(Performed { result, event, failed });
        Step::Done
    }

    fn driver_stream(&self) -> LaneStream<'_> {
        LaneStream { context: &self.context, stream: self.stream.0, tell: (0, 0) }
    }

    fn run(&self, submission: &mut Submission, task: Task, cause: &Arc<FirstCause>) -> Result<()> {
        // A failed stream skips what was submitted later.
        let submitted = match cause.get() {
            Some(_) => Ok(()),
            None => self.context.bind().and_then(|()| self.driver_stream().submit(&task)),
        };
        // Held even if the call fails: it may have begun.
        submission.held.push(Held::Task(task));
        submitted?;
        match submission.held.len() {
            ..MOST_HELD => Ok(()),
            _ => self.submit_point(submission, None, false, &Arc::default()),
        }
    }
}

fn no_pinned_memory(context: &GpuContext) -> Error {
    Error::Cuda {
        device: context.name.clone(),
        call: "cuMemHostAlloc",
        reason: "no pinned memory is left; see ulimit -l, and how much memory the machine has free"
            .to_string(),
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        match self.context.bind() {
            // SAFETY: a stream of this context; nobody submits to it any more.
            Ok(()) => drop(unsafe { sys::cuStreamDestroy_v2(self.stream.0) }),
            // What the stream was given it may still be at, and nobody looks any more.
            Err(_) => std::mem::forget(Arc::clone(&self.submission)),
        }
    }
}
