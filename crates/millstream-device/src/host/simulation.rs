//! Devices run by one thread, in an order that a seed chooses.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::{Operation, StreamQueue, Work};
use crate::bell::Bell;
use crate::event::EventStatus;
use crate::injection::Injection;
use crate::waits::WaitReports;
use crate::{Error, Result};

/// What a simulation has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SimulationReport {
    /// The seed that replays it.
    pub seed: u64,
    /// Operations run.
    pub steps: u64,
    /// Virtual time.
    pub time: Duration,
    /// A digest of the order in which streams ran.
    pub schedule: u64,
}

/// Each thread that waits runs one operation of one stream at a time. So operations of different
/// streams may run at once, and one may run within another whose twin waits.
pub(crate) struct Simulation {
    state: Mutex<State>,
    /// Notified when something has been submitted or is over.
    changed: Condvar,
    bell: Arc<Bell>,
    /// What tasks of other layers wait for.
    pub(crate) waits: WaitReports,
}

struct State {
    report: SimulationReport,
    random: SmallRng,
    /// Streams that have operations.
    queues: Vec<Arc<StreamQueue>>,
    /// Operations that are being run: no longer in their queues, and not over.
    running: Vec<Running>,
    outstanding: usize,
    delay: RangeInclusive<Duration>,
    /// If set, favours some streams for a while instead of choosing evenly.
    favour: Option<u64>,
}

/// An operation that a thread is running.
struct Running {
    queue: Arc<StreamQueue>,
    name: Arc<str>,
    thread: ThreadId,
    /// Whether the thread, within this operation, waits for what others run.
    waits: bool,
}

impl fmt::Debug for Simulation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.report().fmt(formatter)
    }
}

/// A kernel or a copy takes a microsecond, unless it is delayed.
const STEP: Duration = Duration::from_micros(1);
/// How long a thread sleeps at a time while it waits for others, which may ring or complete an
/// event meanwhile.
const LOOK: Duration = Duration::from_millis(1);

impl Simulation {
    pub(crate) fn new(seed: u64, injection: &Injection) -> Simulation {
        let report = SimulationReport { seed, steps: 0, time: Duration::ZERO, schedule: 0 };
        let mut random = SmallRng::seed_from_u64(seed ^ injection.seed.rotate_left(32));
        let favour = injection.reorder.then(|| random.random());
        let delay = injection.delay.clone().unwrap_or(STEP..=STEP);
        let (queues, running, outstanding) = (Vec::new(), Vec::new(), 0);
        let state = State { report, random, queues, running, outstanding, delay, favour };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        Simulation { state, changed, bell: Arc::default(), waits: WaitReports::default() }
    }

    pub(crate) fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }

    pub(crate) fn report(&self) -> SimulationReport {
        self.state.lock().report
    }

    pub(crate) fn submit(&self, queue: &Arc<StreamQueue>, operation: Operation) {
        let mut state = self.state.lock();
        state.outstanding += 1;
        let mut queued = queue.state.lock();
        queued.operations.push_back(operation);
        if !std::mem::replace(&mut queued.scheduled, true) {
            state.queues.push(Arc::clone(queue));
        }
        self.changed.notify_all();
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.state.lock().outstanding
    }

    /// Whether an operation could run now.
    pub(crate) fn can_step(&self) -> bool {
        let rings = self.bell.rings();
        let state = self.state.lock();
        state.queues.iter().any(|queue| state.is_runnable(queue, rings))
    }

    /// Tosses a coin, for whoever could run either a task or an operation.
    pub(crate) fn prefers_task(&self) -> bool {
        self.state.lock().random.random()
    }

    /// Runs operations until `is_done` returns true.
    ///
    /// # Errors
    /// [`Error::Deadlock`] if before that none can run.
    pub(crate) fn run_until(&self, is_done: impl Fn() -> bool) -> Result<()> {
        while !is_done() {
            match self.step() {
                // Others may have run what this waited for.
                Err(_) if is_done() => {}
                stepped => stepped?,
            }
        }
        Ok(())
    }

    /// Runs one operation, or waits a little for what other threads run.
    ///
    /// # Errors
    /// [`Error::Deadlock`] if none can run now, nor will after other threads have finished theirs.
    pub(crate) fn step(&self) -> Result<()> {
        let (rings, thread) = (self.bell.rings(), std::thread::current().id());
        let taken = {
            let mut state = self.state.lock();
            match state.choose(rings) {
                Some(place) => state.take(place, thread),
                None if state.others_run(thread) => {
                    state.set_waits(thread, true);
                    self.changed.wait_for(&mut state, LOOK);
                    state.set_waits(thread, false);
                    None
                }
                None => {
                    let (report, outstanding) = (state.report, state.blocked());
                    // Asked without the lock: other layers have locks of their own.
                    drop(state);
                    return Err(self.deadlock(report, outstanding));
                }
            }
        };
        let Some((queue, operation)) = taken else { return Ok(()) };
        // Without the lock: those who hear may submit more.
        let waits = queue.perform(operation);
        let mut state = self.state.lock();
        state.running.retain(|running| !Arc::ptr_eq(&running.queue, &queue));
        match waits {
            None => state.outstanding -= 1,
            Some(operation) => {
                let mut queued = queue.state.lock();
                queued.operations.push_front(operation);
                queued.waits_since = Some(rings);
                if !std::mem::replace(&mut queued.scheduled, true) {
                    state.queues.push(Arc::clone(&queue));
                }
            }
        }
        self.changed.notify_all();
        Ok(())
    }

    fn deadlock(&self, report: SimulationReport, outstanding: Vec<String>) -> Error {
        let SimulationReport { seed, steps, .. } = report;
        Error::Deadlock { seed, steps, outstanding, waiting: self.waits.lines() }
    }
}

impl State {
    fn choose(&mut self, rings: u64) -> Option<usize> {
        let is_runnable = |place: &usize| self.is_runnable(&self.queues[*place], rings);
        let runnable: Vec<usize> = (0..self.queues.len()).filter(is_runnable).collect();
        let choice = self.random.random_range(0..runnable.len().max(1));
        let Some(favour) = self.favour else {
            return runnable.get(choice).copied();
        };
        if self.random.random_ratio(1, 8) {
            self.favour = Some(self.random.random());
        }
        let rank = |place: &usize| {
            let index = self.queues[*place].index as u64;
            (index ^ favour).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
        };
        runnable.into_iter().max_by_key(rank)
    }

    /// Takes the first operation out of a queue in order to run it.
    fn take(&mut self, place: usize, thread: ThreadId) -> Option<(Arc<StreamQueue>, Operation)> {
        let queue = Arc::clone(&self.queues[place]);
        let mut queued = queue.state.lock();
        let operation = queued.operations.pop_front()?;
        queued.waits_since = None;
        if queued.operations.is_empty() {
            queued.scheduled = false;
            self.queues.swap_remove(place);
        }
        drop(queued);
        self.advance(queue.index as u64);
        let name = Arc::clone(&operation.name);
        self.running.push(Running { queue: Arc::clone(&queue), name, thread, waits: false });
        Some((queue, operation))
    }

    /// Whether another thread is running something in which it does not itself wait for others.
    fn others_run(&self, thread: ThreadId) -> bool {
        self.running.iter().any(|running| running.thread != thread && !running.waits)
    }

    fn set_waits(&mut self, thread: ThreadId, waits: bool) {
        let own = self.running.iter_mut().filter(|running| running.thread == thread);
        own.for_each(|running| running.waits = waits);
    }

    fn advance(&mut self, stream: u64) {
        self.report.steps += 1;
        let delay = self.random.random_range(self.delay.clone());
        self.report.time = self.report.time.saturating_add(delay);
        let digest = (self.report.schedule ^ stream).wrapping_mul(0x0100_0000_01B3);
        self.report.schedule = digest.rotate_left(17);
    }

    /// The operations that cannot run, and why.
    fn blocked(&self) -> Vec<String> {
        let head = |queue: &Arc<StreamQueue>| {
            let queued = queue.state.lock();
            queued.operations.front().map(|operation| match &operation.work {
                Work::Wait(event) => format!("{} waits for {event}", queue.place),
                Work::Run(_) if queued.waits_since.is_some() => {
                    format!("{} waits in {}", queue.place, operation.name)
                }
                _ => format!("{} at {}", queue.place, operation.name),
            })
        };
        let busy = |Running { queue, name, .. }: &Running| {
            format!("{} runs {name}, in which somebody waits for what comes later", queue.place)
        };
        let running = self.running.iter().map(busy);
        running.chain(self.queues.iter().filter_map(head)).collect()
    }

    fn is_runnable(&self, queue: &Arc<StreamQueue>, rings: u64) -> bool {
        let is_busy = |running: &Running| Arc::ptr_eq(&running.queue, queue);
        let queued = queue.state.lock();
        let is_ready = match queued.operations.front() {
            Some(Operation { work: Work::Wait(event), .. }) => {
                event.status() != EventStatus::Pending
            }
            Some(Operation { work: Work::Run(_), .. }) => queued.waits_since != Some(rings),
            Some(_) => true,
            None => false,
        };
        is_ready && !self.running.iter().any(is_busy)
    }
}
