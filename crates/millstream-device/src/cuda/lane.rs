//! Lanes: streams of the driver, and what waits to be submitted to them.

mod points;

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use cudarc::driver::sys::{self, CUstream};

use super::context::{GpuContext, WORK};
use super::gpu_clock::Timed;
use super::in_order::{InOrder, Rest, Step};
use super::lane_stream::LaneStream;
use super::operation::{Operation, Performed, Queue, Submitted, TracedTask, Work};
use super::pending::{Held, Pending};
use super::reactor::ReactorHandle;
use super::settle::{Busy, Resuming, does_anybody_settle, is_resuming, wait_until, watch_lane};
use super::submission::Submission;
use super::submitter::Submitter;
use super::words::{Word, Words};
use crate::event::EventStatus;
use crate::first_cause::{FirstCause, Untold};
use crate::poison::Poison;
use crate::reactor::{Waiting, shown};
use crate::stream_kind::StreamKind;
use crate::task::{Followers, Task};
use crate::trace::Tracing;
use crate::{Error, Result};

/// When this many operations are held without an event, a point is added, at which they are released.
const MOST_HELD: usize = 256;
/// When this many operations are left to the GPU's thread, whoever leaves more waits: about as many
/// as the driver accepts before it makes callers wait.
const MOST_LEFT: usize = 1024;
/// The longest time that a launch waits for others to join it.
const MOST_GATHERING: Duration = Duration::from_micros(100);
/// Spins between looks at whether it still waits, which hold up those who leave more: some microseconds.
const SPINS: usize = 100;

/// A stream of the driver.
pub(crate) struct Lane {
    pub(super) context: Arc<GpuContext>,
    number: usize,
    kind: StreamKind,
    stream: Handle,
    /// Shows the last point that the stream has come to. `None` for copies, where the driver's
    /// events are queried instead: the barrier before the word is written would hold up the next
    /// copy.
    word: Option<Word>,
    submission: Arc<Queue>,
    /// Done when something is first left to the GPU's thread.
    watched: Once,
    submitter: Arc<Submitter>,
    /// How many streams of the lane have operations that wait for the host.
    streams_waiting: AtomicUsize,
    waiting: Waiting<Pending>,
    /// The last point that has been finished; written by the reactor.
    finished: AtomicU64,
    needs_host: Arc<AtomicUsize>,
    reactor: ReactorHandle,
}

struct Handle(CUstream);

// SAFETY: driver handles may be used from any thread; submissions are made one at a time, under the
// lane's lock.
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
        // Made first: if this fails, there is no stream yet.
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
            kind,
            stream: Handle(stream),
            word,
            submission: Arc::new(InOrder::new(Submission::default())),
            watched: Once::new(),
            submitter,
            streams_waiting: AtomicUsize::new(0),
            waiting: Waiting::new(),
            finished: AtomicU64::new(0),
            needs_host: Arc::default(),
            reactor,
        }))
    }

    pub(super) fn context(&self) -> &Arc<GpuContext> {
        &self.context
    }

    /// The count of the lane's operations that need the host in order to end.
    pub(super) fn needs_host(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.needs_host)
    }

    /// The number that identifies the lane.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// Whether the lane's kernels wait for each other.
    pub(super) fn is_of_gangs(&self) -> bool {
        self.kind == StreamKind::Gang
    }

    /// A task of this name, with its tracing if it is traced.
    pub(super) fn traced(&self, name: &Arc<str>, task: Task) -> TracedTask {
        let tracing = self.context.clock().map(|clock| {
            let lane = format!("{} lane {}", self.kind, self.number & 0xFF);
            let row = (self.context.name().into(), lane.into());
            Box::new(Tracing::of(clock.trace(), row, (name, &task)))
        });
        (task, tracing)
    }

    pub(super) fn poison(&self) -> &Poison {
        &self.context.poison
    }

    /// Finishes the points that the stream has come to, or all points after a fault. Returns
    /// whether there were any. Called by the reactor.
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
            // Stored, not counted up: the point of a refused launch is passed over. Release: pairs
            // with the acquire in `is_over`, so that whoever finds nothing under way sees what has
            // become of it.
            self.finished.store(point, Ordering::Release);
        }
        found
    }

    /// Takes out the points whose events are over, as the driver says. The driver is asked without
    /// the queue's lock, which those who submit need.
    fn take_asked(&self) -> Vec<Pending> {
        let first =
            || self.waiting.first(|point| point.native.clone().filter(|_| point.is_ready()));
        let mut done = Vec::new();
        while first().flatten().is_some_and(|native| native.is_over()) {
            done.extend(self.waiting.take_first());
        }
        done
    }

    /// Whether everything submitted so far is over and known to be over.
    fn is_over(&self) -> bool {
        // Acquire: see `finish`.
        let over = |known: &Submission| known.is_over(self.finished.load(Ordering::Acquire));
        self.submission.look(over).unwrap_or(false)
    }

    /// Whether nothing is under way or waits to be submitted.
    pub(super) fn is_idle(&self) -> bool {
        // In this order: what waited at the first look has been submitted by the second.
        !self.has_operations_waiting() && self.waiting.is_empty()
    }

    /// Whether something waits to be submitted, in the queue of a stream or in the lane's.
    pub(super) fn has_operations_waiting(&self) -> bool {
        // In this order, which is an operation's way.
        self.has_streams_waiting() || self.submission.outstanding() > 0
    }

    fn has_streams_waiting(&self) -> bool {
        // Acquire: pairs with the release in `end_waiting`.
        self.streams_waiting.load(Ordering::Acquire) > 0
    }

    /// Asks the driver whether the stream is alive.
    ///
    /// # Errors
    /// The failure that poisoned the process, or does so now.
    pub(super) fn probe(&self) -> Result<()> {
        self.context.bind()?;
        // SAFETY: a live stream of the current context.
        let answer = unsafe { sys::cuStreamQuery(self.stream.0) };
        self.context.is_over(answer, WORK).map(drop)
    }

    /// Blocks until everything submitted so far is over and known to be over.
    pub(super) fn synchronize(self: &Arc<Self>) -> Result<()> {
        let wait = |is_there: &dyn Fn() -> bool| {
            while !is_there() && self.context.poison.get().is_none() {
                std::thread::yield_now();
            }
        };
        // First: the point must come after what has waited for the host.
        wait(&|| !self.has_streams_waiting());
        let (work, cause) = (Work::Point(None, None), Arc::default());
        self.enter(Operation { work, cause }).finish()?;
        wait(&|| self.is_over());
        self.context.bind()?;
        // SAFETY: a live stream of the current context.
        let answer = unsafe { sys::cuStreamSynchronize(self.stream.0) };
        self.context.check(answer, "cuStreamSynchronize")
    }

    /// Submits an operation, now or behind those that wait; a kernel must have been loaded.
    pub(super) fn enter(self: &Arc<Self>, operation: Operation) -> Submitted {
        let mut performed = None;
        let obstacle = self.submission.submit(operation, |submission, operation| {
            performed = Some(self.perform(submission, operation));
            Step::<_, Infallible>::Done
        });
        match (performed, obstacle) {
            (Some(performed), None) => Submitted::Performed(performed),
            (None, None) => Submitted::Queued,
            (_, Some(never)) => match never {},
        }
    }

    /// As [`Lane::enter`], but an event completes at once if there is nothing for it to come after.
    pub(super) fn enter_after_all(self: &Arc<Self>, operation: Operation) -> Submitted {
        match operation.event() {
            Some(event) if self.is_over() => {
                // Points that failed with the process count as over; the poison was set before they did.
                let cause = operation.cause.get().or_else(|| self.context.poison.get());
                event.complete(cause.map_or(Ok(()), |cause| Err(cause.clone())));
                Submitted::Queued
            }
            _ => self.enter(operation),
        }
    }

    /// As [`Lane::enter`], but on the GPU's thread, or by the caller's [`Submitted::finish`] if
    /// that thread sleeps.
    pub(super) fn leave(self: &Arc<Self>, operation: Operation) -> Submitted {
        self.watched.call_once(|| watch_lane(&self.submission));
        match self.submission.leave(operation, Busy::begin) {
            (Some(busy), _) => Submitted::Left(Arc::clone(self), busy),
            (None, ..=MOST_LEFT) => Submitted::Queued,
            (None, _) => Submitted::Crowded(Arc::clone(self)),
        }
    }

    /// As [`Lane::enter`], but only when the submitter says so: see [`Submitted::begin_here`].
    pub(super) fn hold(self: &Arc<Self>, operation: Operation) -> Submitted {
        self.watched.call_once(|| watch_lane(&self.submission));
        match self.submission.hold(operation) {
            true => Submitted::Held(Arc::clone(self)),
            false => Submitted::Queued,
        }
    }

    /// A stream of the lane begins to wait for the host.
    pub(super) fn begin_waiting(&self) {
        // Relaxed: whoever asks at the same time may see either value.
        self.streams_waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// The stream no longer waits, and what it had waiting has been submitted.
    pub(super) fn end_waiting(&self) {
        // Release: pairs with the acquire in `has_streams_waiting`.
        self.streams_waiting.fetch_sub(1, Ordering::Release);
    }

    /// Waits while too much is left. A thread that others wait for does not wait.
    pub(super) fn wait_for_room(&self) {
        if !is_resuming() {
            wait_until(|| !self.submission.is_behind(MOST_LEFT));
        }
    }

    /// Resumes the lane on the GPU's thread, or here if that thread sleeps.
    pub(super) fn resume_soon(self: Arc<Self>, busy: Busy) {
        let submitter = Arc::clone(&self.submitter);
        if let Some((lane, _busy)) = submitter.resume((self, busy)) {
            lane.resume();
        }
    }

    /// Resumes held operations on the GPU's thread, or here if that thread sleeps.
    pub(super) fn let_go(self: Arc<Self>) {
        // In this order: those who settle look first for somebody who is busy.
        let busy = Busy::begin();
        self.submission.let_go();
        self.resume_soon(busy);
    }

    /// Submits what has waited.
    pub(super) fn resume(self: Arc<Self>) {
        self.resume_for(Duration::ZERO);
    }

    /// The same on the GPU's thread, where launches may [gather](crate::Parameter::gathers).
    pub(super) fn resume_gathering(self: Arc<Self>) {
        self.resume_for(MOST_GATHERING);
    }

    /// Launches may gather for at most this long.
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
                performed = Some(self.perform(submission, operation));
                Step::<_, Infallible>::Done
            });
            // Without the lane's locks: those who hear may submit more.
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
                Rest::HeldUp(never) => match never {},
            }
        }
    }

    /// Gives an operation to the driver. A failure fails the stream.
    fn perform(
        &self,
        submission: &mut Submission,
        Operation { work, cause }: Operation,
    ) -> Performed {
        let (mut failed, mut refused) = (Untold::nothing(), None);
        let (result, event) = match work {
            Work::Run(task) => (self.run(submission, task, &cause), None),
            Work::RunTo(task, event, followers) => {
                if let Err(error) = self.run(submission, task, &cause) {
                    failed = cause.set(error.clone());
                    refused = Some(Box::new(error));
                }
                // Also after a refused launch: its point tells that what came before is over.
                let is_placed = followers == Followers::Streams;
                (self.submit_point(submission, Some(&event), is_placed, &cause), Some(event))
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
                EventStatus::Pending => (self.submit_wait(submission, event, &cause), None),
            },
        };
        if let (Err(error), None) = (&result, &refused) {
            failed = cause.set(error.clone());
        }
        Performed { result, event, failed, refused }
    }

    fn run(
        &self,
        submission: &mut Submission,
        (mut task, tracing): TracedTask,
        cause: &Arc<FirstCause>,
    ) -> Result<()> {
        submission.tells = false;
        // A failed stream skips what comes after.
        let submitted = match cause.get() {
            Some(_) => Ok(()),
            None => self.context.bind().and_then(|()| self.give(submission, &mut task, tracing)),
        };
        submission.held.extend(self.context.large_copies.begin(&task).map(Held::LargeCopy));
        // Held even if the call fails: it may have begun.
        submission.held.push(Held::Task(task));
        submitted?;
        match submission.held.len() {
            ..MOST_HELD => Ok(()),
            _ => self.submit_point(submission, None, false, &Arc::default()),
        }
    }
}

impl Lane {
    /// Gives the driver a task and, if it is traced, notes when it begins and ends. A kernel that
    /// tells writes the lane's word: its release makes what it did visible, and it begins only
    /// after everything before it.
    fn give(
        &self,
        submission: &mut Submission,
        task: &mut Task,
        tracing: Option<Box<Tracing>>,
    ) -> Result<()> {
        let (context, stream) = (&self.context, self.stream.0);
        match (self.context.clock(), tracing) {
            (Some(clock), Some(tracing)) => {
                // A traced kernel does not tell: its end is known only after its second mark.
                let submit = || LaneStream { context, stream, tell: (0, 0) }.submit(task);
                // SAFETY: a live stream of the context, which is current.
                let timed = unsafe { Timed::submit((context, clock), stream, tracing, submit) }?;
                submission.held.extend(timed.map(Held::Timed));
                Ok(())
            }
            _ => {
                let tells = matches!(task, Task::Launch(launch) if launch.tells());
                let word = self.word.as_ref().filter(|_| tells);
                let tell = word.map_or((0, 0), |word| {
                    // The point is taken even if the call fails: the kernel may have begun.
                    submission.point += 1;
                    (word.address(), shown(submission.point))
                });
                LaneStream { context, stream, tell }.submit(task)?;
                submission.tells = word.is_some();
                Ok(())
            }
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
            // The stream may still be using what it was given, and nobody will see its end: leak it.
            Err(_) => std::mem::forget(Arc::clone(&self.submission)),
        }
    }
}
