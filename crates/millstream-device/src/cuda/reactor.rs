//! The thread of each GPU that sees the GPU's streams come to their points, and wakes those who
//! wait. A single thread for all GPUs would be busy with the copies of four.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use super::lane::Lane;
use crate::poison::Poison;
use crate::reactor::Parking;
use crate::{Error, Result};

/// How long the thread sleeps between looks if nothing has happened for a while.
const SLEEP: Duration = Duration::from_micros(20);
/// How often streams are probed for being alive: a stream with a fault never writes its word.
const PROBE: Duration = Duration::from_millis(2);

/// Makes a short pause that suits a thread that has waited for a GPU for this long. Returns false
/// if the thread should rather sleep. A sleeping core takes a tenth of a millisecond to wake, as
/// long as many a run.
pub(crate) fn stay_awake(waited: Duration) -> bool {
    match waited {
        waited if waited < SPIN => std::hint::spin_loop(),
        waited if waited < YIELD => std::thread::yield_now(),
        _ => return false,
    }
    true
}

/// How long a thread looks without pausing.
const SPIN: Duration = Duration::from_micros(200);
/// How long it then only yields.
const YIELD: Duration = Duration::from_millis(2);

thread_local! {
    static IS_REACTOR: Cell<bool> = const { Cell::new(false) };
}

/// What submitting threads see of the reactor.
#[derive(Clone, Debug)]
pub(super) struct ReactorHandle(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    parking: Parking,
    thread: OnceLock<Thread>,
    stop: AtomicBool,
    poison: Poison,
}

impl ReactorHandle {
    pub(super) fn new(poison: &Poison) -> ReactorHandle {
        ReactorHandle(Arc::new(Shared {
            parking: Parking::new(),
            thread: OnceLock::new(),
            stop: AtomicBool::new(false),
            poison: poison.clone(),
        }))
    }

    /// Something waits: wakes the thread.
    pub(super) fn notify(&self) {
        if let Some(thread) = self.0.thread.get() {
            self.0.parking.notify(thread);
        }
    }

    /// Starts the thread that watches a GPU's lanes.
    pub(super) fn start(&self, lanes: Vec<Arc<Lane>>) -> Result<Reactor> {
        let (shared, watched) = (Arc::clone(&self.0), lanes.clone());
        let thread = std::thread::Builder::new()
            .name("millstream reactor".to_string())
            .spawn(move || run(&shared, &watched))
            .map_err(|error| Error::Start { reason: error.to_string() })?;
        // Nothing is submitted to the lanes before this.
        let _ = self.0.thread.set(thread.thread().clone());
        Ok(Reactor { handle: self.clone(), lanes, thread: Some(thread) })
    }
}

/// The thread, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Reactor {
    handle: ReactorHandle,
    lanes: Vec<Arc<Lane>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Reactor {
    fn drop(&mut self) {
        self.handle.0.stop.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else { return };
        thread.thread().unpark();
        // The last user may have been a callback of a reactor, or an operation of a host device,
        // for which others may be waiting. The thread then ends on its own.
        if !IS_REACTOR.get() && !self.lanes.iter().any(|lane| lane.has_operations_waiting()) {
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared, lanes: &[Arc<Lane>]) {
    IS_REACTOR.set(true);
    let (mut progress, mut probed) = (Instant::now(), Instant::now());
    let mut probes = 0;
    loop {
        // Also while others make progress: those who wait for a faulted stream make none.
        if probed.elapsed() > PROBE {
            probe(lanes, probes);
            probes += 1;
            probed = Instant::now();
        }
        if sweep(shared, lanes) {
            progress = Instant::now();
            continue;
        }
        if lanes.iter().all(|lane| lane.is_idle()) {
            // Acquire: pairs with the release in `drop`.
            if shared.stop.load(Ordering::Acquire) {
                return;
            }
            // As a rule more comes soon, and waking takes as long as many a run.
            if stay_awake(progress.elapsed()) {
                continue;
            }
            shared.parking.park_unless(|| {
                shared.stop.load(Ordering::Acquire) || lanes.iter().any(|lane| !lane.is_idle())
            });
            progress = Instant::now();
            probed = progress;
            continue;
        }
        if !stay_awake(progress.elapsed()) {
            std::thread::sleep(SLEEP);
        }
    }
}

/// Probes a busy stream, another one each time, for being alive. A fault is remembered, and seen by
/// the next sweep.
fn probe(lanes: &[Arc<Lane>], turn: usize) {
    let busy: Vec<_> = lanes.iter().filter(|lane| !lane.is_idle()).collect();
    if let Some(lane) = busy.get(turn % busy.len().max(1)) {
        let _ = lane.probe();
    }
}

/// Finishes the points that have been reached. Returns whether there were any.
fn sweep(shared: &Shared, lanes: &[Arc<Lane>]) -> bool {
    let poison = shared.poison.get();
    // Every lane, even if points were found before.
    lanes.iter().fold(false, |found, lane| lane.finish(poison) | found)
}
