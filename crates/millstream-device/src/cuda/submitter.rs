//! The thread of a lane that submits what callers leave to it: a call of the driver takes
//! microseconds, and whoever launches on many GPUs has none to spare.

use std::cell::Cell;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::lane::Lane;
use super::reactor::stay_awake;
use crate::launching::stay_inside;

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
pub(super) struct Submitter {
    /// `None` only wakes the thread.
    lanes: Sender<Option<Arc<Lane>>>,
    state: Arc<AtomicU8>,
}

/// The thread looks for what comes next.
const AWAKE: u8 = 0;
/// It sleeps, until somebody wakes it.
const ASLEEP: u8 = 1;
/// It will wake.
const WAKING: u8 = 2;

impl Submitter {
    /// `None` if there are no more threads.
    pub(super) fn start(lane: &Arc<Lane>) -> Option<Submitter> {
        let (lanes, incoming) = channel();
        let state = Arc::new(AtomicU8::new(WAKING));
        let thread = std::thread::Builder::new().name("millstream submitter".to_string());
        let shared = Arc::clone(&state);
        thread.spawn(move || run(&incoming, &shared)).ok()?;
        let mut all = LANES.lock();
        all.retain(|lane| lane.strong_count() > 0);
        all.push(Arc::downgrade(lane));
        Some(Submitter { lanes, state })
    }

    /// Resumes a lane on the thread; false if it sleeps, and the caller had better: waking
    /// it takes a hundred times as long as a launch.
    pub(super) fn resume(&self, lane: &Arc<Lane>) -> bool {
        // Relaxed, here and in `next`: whoever sees an old state is only slower.
        match self.state.load(Ordering::Relaxed) {
            AWAKE => {}
            ASLEEP => {
                let (old, new) = (ASLEEP, WAKING);
                let relaxed = Ordering::Relaxed;
                if self.state.compare_exchange(old, new, relaxed, relaxed).is_ok() {
                    // If the thread is gone, the caller goes on without it.
                    let _ = self.lanes.send(None);
                }
                return false;
            }
            _ => return false,
        }
        // Relaxed: the channel orders it before `run` takes it back.
        BUSY.fetch_add(1, Ordering::Relaxed);
        let is_sent = self.lanes.send(Some(Arc::clone(lane))).is_ok();
        if !is_sent {
            BUSY.fetch_sub(1, Ordering::Relaxed);
        }
        is_sent
    }
}

fn run(lanes: &Receiver<Option<Arc<Lane>>>, state: &AtomicU8) {
    IS_SUBMITTER.set(true);
    stay_inside();
    state.store(AWAKE, Ordering::Relaxed);
    while let Some(lane) = next(lanes, state) {
        if let Some(lane) = lane {
            lane.resume();
            // Release: see `settle`.
            BUSY.fetch_sub(1, Ordering::Release);
        }
    }
}

/// The next lane to resume, looked for before the thread sleeps; `None` after the last.
fn next(lanes: &Receiver<Option<Arc<Lane>>>, state: &AtomicU8) -> Option<Option<Arc<Lane>>> {
    let start = Instant::now();
    loop {
        match lanes.try_recv() {
            Ok(lane) => return Some(lane),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) if stay_awake(start.elapsed()) => {}
            Err(TryRecvError::Empty) => {
                state.store(ASLEEP, Ordering::Relaxed);
                let lane = lanes.recv().ok();
                state.store(AWAKE, Ordering::Relaxed);
                return lane;
            }
        }
    }
}
