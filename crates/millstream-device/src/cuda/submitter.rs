//! The thread of a lane that submits what callers leave to it: a call of the driver takes
//! microseconds, and whoever launches on many GPUs has none to spare.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::lane::Lane;
use super::reactor::stay_awake;

/// Lanes that have such a thread: of the whole process, as the driver's locks are.
static LANES: Mutex<Vec<Weak<Lane>>> = Mutex::new(Vec::new());
/// Those that a thread has not finished with.
static BUSY: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static IS_SUBMITTER: Cell<bool> = const { Cell::new(false) };
}

/// Waits until the driver has been given what was left to threads so far, but for what is
/// held up.
///
/// Whoever asks the driver for something that may wait for a GPU has to call this, and to
/// hold no lock that a callback may want: the driver waits with locks held, and a kernel
/// that runs may wait for one that a thread has still to launch.
pub(crate) fn settle() {
    // Acquire: pairs with the release in `run`. What this thread has left itself it sees.
    if BUSY.load(Ordering::Acquire) == 0 || IS_SUBMITTER.get() {
        return;
    }
    let lanes: Vec<_> = LANES.lock().iter().filter_map(Weak::upgrade).collect();
    for lane in lanes {
        let (arrived, since) = (lane.arrived(), Instant::now());
        while !lane.has_performed(arrived) {
            if !stay_awake(since.elapsed()) {
                std::thread::sleep(SLEEP);
            }
        }
    }
}

/// How long between looks that find nothing for long.
pub(super) const SLEEP: Duration = Duration::from_micros(20);

/// Ends when dropped, after what it has been given.
#[derive(Debug)]
pub(super) struct Submitter(Sender<Arc<Lane>>);

impl Submitter {
    /// `None` if there are no more threads.
    pub(super) fn start(lane: &Arc<Lane>) -> Option<Submitter> {
        let (lanes, incoming) = channel();
        let thread = std::thread::Builder::new().name("millstream submitter".to_string());
        thread.spawn(move || run(&incoming)).ok()?;
        let mut all = LANES.lock();
        all.retain(|lane| lane.strong_count() > 0);
        all.push(Arc::downgrade(lane));
        Some(Submitter(lanes))
    }

    /// Resumes a lane on the thread; false if there is none any more.
    pub(super) fn resume(&self, lane: &Arc<Lane>) -> bool {
        // Relaxed: the channel orders it before `run` takes it back.
        BUSY.fetch_add(1, Ordering::Relaxed);
        let is_sent = self.0.send(Arc::clone(lane)).is_ok();
        if !is_sent {
            BUSY.fetch_sub(1, Ordering::Relaxed);
        }
        is_sent
    }
}

fn run(lanes: &Receiver<Arc<Lane>>) {
    IS_SUBMITTER.set(true);
    while let Some(lane) = next(lanes) {
        lane.resume();
        // Release: see `settle`.
        BUSY.fetch_sub(1, Ordering::Release);
    }
}

/// The next lane to resume, looked for before the thread sleeps; `None` after the last.
fn next(lanes: &Receiver<Arc<Lane>>) -> Option<Arc<Lane>> {
    let start = Instant::now();
    loop {
        match lanes.try_recv() {
            Ok(lane) => return Some(lane),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) if stay_awake(start.elapsed()) => {}
            Err(TryRecvError::Empty) => return lanes.recv().ok(),
        }
    }
}
