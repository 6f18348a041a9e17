//! The host driver: streams as queues, run on threads or simulated.

mod simulation;
mod threads;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

pub(crate) use simulation::Simulation;
pub use simulation::SimulationReport;
use threads::Threads;

use crate::backend::OpenStream;
use crate::bell::Bell;
use crate::contain::contain;
use crate::event::{Event, EventStatus};
use crate::first_cause::FirstCause;
use crate::injection::{InjectedFault, Injection};
use crate::kernel::Step;
use crate::ledger::StreamIndex;
use crate::{Error, Result, Waits};

/// What an entry of a stream's queue does.
pub(crate) enum Work {
    /// A kernel or a copy, which runs as far as possible without waiting.
    Run(Box<dyn FnMut() -> Result<Step> + Send>),
    /// Completes an event.
    Record(Event),
    /// Holds the stream until an event is complete.
    Wait(Event),
    /// The stream is gone: gives its place in the clocks back.
    Close(OpenStream),
}

/// An operation in a stream's queue.
pub(crate) struct Operation {
    pub(crate) name: Arc<str>,
    pub(crate) work: Work,
}

/// A stream as the runner sees it.
pub(crate) struct StreamQueue {
    place: Arc<str>,
    device: Arc<str>,
    index: StreamIndex,
    cause: FirstCause,
    state: Mutex<QueueState>,
}

struct QueueState {
    operations: VecDeque<Operation>,
    /// A thread is draining the queue, or an event will resume it; in a simulation: the simulation
    /// knows the queue.
    scheduled: bool,
    /// In a simulation: the number of rings at which the first operation came no further; it may
    /// after the next.
    waits_since: Option<u64>,
}

impl StreamQueue {
    pub(crate) fn new(place: Arc<str>, device: &Arc<str>, index: StreamIndex) -> Arc<StreamQueue> {
        let (operations, scheduled, waits_since) = (VecDeque::new(), false, None);
        let state = Mutex::new(QueueState { operations, scheduled, waits_since });
        let (device, cause) = (Arc::clone(device), FirstCause::default());
        Arc::new(StreamQueue { place, device, index, cause, state })
    }

    /// The stream's name among those of its device.
    pub(crate) fn lane(&self) -> Arc<str> {
        self.place.strip_prefix(&*self.device).map_or(&*self.place, str::trim_start).into()
    }

    pub(crate) fn cause(&self) -> &FirstCause {
        &self.cause
    }

    /// Runs work that is not held up, and remembers the first failure. Returns the operation if it
    /// waits for the bell.
    fn perform(&self, operation: Operation) -> Option<Operation> {
        match (operation.work, self.cause.get()) {
            (Work::Record(event), None) => event.complete(Ok(())),
            (Work::Record(event), Some(cause)) => event.complete(Err(cause.clone())),
            (Work::Wait(event), None) => {
                if let EventStatus::Failed(cause) = event.status() {
                    self.cause.set(cause).tell();
                }
            }
            (Work::Run(mut run), None) => {
                let result = catch_unwind(AssertUnwindSafe(&mut run)).unwrap_or_else(|panic| {
                    Err(Error::panicked(&operation.name, &self.device, panic))
                });
                match result {
                    Ok(Step::Done) => {}
                    Ok(Step::Waits) => {
                        return Some(Operation { name: operation.name, work: Work::Run(run) });
                    }
                    Err(cause) => self.cause.set(cause).tell(),
                }
                // Here and below: what the closure captures belongs to the program, so its drop may panic.
                contain(|| drop(run));
            }
            (Work::Close(open), _) => drop(open),
            (Work::Wait(_), Some(_)) => {}
            (Work::Run(run), Some(_)) => contain(|| drop(run)),
        }
        None
    }
}

/// Who runs the operations of host devices.
#[derive(Debug)]
pub(crate) enum Runner {
    /// Threads of a pool; as many streams run at once as there are threads.
    Threaded(Threads),
    /// Whichever thread waits, one operation at a time.
    Simulated(Box<Simulation>),
}

impl Runner {
    pub(crate) fn threaded(threads: Option<usize>, injection: &Injection) -> Result<Runner> {
        Threads::new(threads, injection).map(Runner::Threaded)
    }

    pub(crate) fn simulated(seed: u64, injection: &Injection) -> Runner {
        Runner::Simulated(Box::new(Simulation::new(seed, injection)))
    }

    /// Makes a simulation report what these wait for when it deadlocks.
    pub(crate) fn report_waits_of(&self, of: Weak<dyn Waits>) {
        if let Runner::Simulated(simulation) = self {
            simulation.waits.add(of);
        }
    }

    /// The bell that tells twins that wait.
    pub(crate) fn bell(&self) -> &Arc<Bell> {
        match self {
            Runner::Threaded(threads) => threads.bell(),
            Runner::Simulated(simulation) => simulation.bell(),
        }
    }

    /// Queues an operation.
    pub(crate) fn submit(&self, queue: &Arc<StreamQueue>, operation: Operation) {
        match self {
            Runner::Threaded(threads) => threads.submit(queue, operation),
            Runner::Simulated(simulation) => simulation.submit(queue, operation),
        }
    }

    /// The number of operations submitted and not over.
    pub(crate) fn outstanding(&self) -> usize {
        match self {
            Runner::Threaded(threads) => threads.outstanding(),
            Runner::Simulated(simulation) => simulation.outstanding(),
        }
    }
}

/// Operations that are to fail, each with how many that match pass before; `None` once one has failed.
#[derive(Debug)]
pub(crate) struct Faults(Option<Mutex<Vec<(InjectedFault, Option<u64>)>>>);

impl Faults {
    pub(crate) fn new(injection: &Injection) -> Faults {
        let faults = injection.faults.iter();
        let faults = faults.map(|fault| (fault.clone(), Some(fault.occurrence)));
        let is_any = !injection.faults.is_empty();
        Faults(is_any.then(|| Mutex::new(faults.collect())))
    }

    /// Faults that no operation has failed for yet.
    pub(crate) fn left(&self) -> Vec<InjectedFault> {
        let Some(faults) = &self.0 else { return Vec::new() };
        let faults = faults.lock();
        let left = faults.iter().filter(|(_, to_pass)| to_pass.is_some());
        left.map(|(fault, _)| fault.clone()).collect()
    }

    /// Counts an operation, and fails it if its turn has come.
    pub(crate) fn check(&self, operation: &str, device: &str) -> Result<()> {
        let Some(faults) = &self.0 else { return Ok(()) };
        let mut faults = faults.lock();
        let matching = faults.iter_mut().filter(|(fault, _)| {
            operation.contains(&fault.operation)
                && fault.device.as_ref().is_none_or(|wanted| wanted == device)
        });
        for (_, to_pass) in matching {
            if *to_pass == Some(0) {
                *to_pass = None;
                let (operation, device) = (operation.to_string(), device.to_string());
                return Err(Error::Injected { operation, device });
            }
            *to_pass = to_pass.map(|count| count - 1);
        }
        Ok(())
    }
}
