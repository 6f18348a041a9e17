//! The thread of a GPU that submits what callers leave to it: a call of the driver takes
//! microseconds, which those who launch on many GPUs cannot spare.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::lane::Lane;
use super::reactor::stay_awake;
use super::settle::Busy;

/// Submits for all lanes of a GPU. The thread is started when it is first needed; there is none if
/// the process may have no more threads. It ends when this is dropped, after it has submitted what
/// it was given.
#[derive(Debug, Default)]
pub(super) struct Submitter(OnceLock<Option<Submitting>>);

#[derive(Debug)]
struct Submitting {
    /// `None` only wakes the thread.
    lanes: Sender<Option<Left>>,
    state: Arc<AtomicU8>,
}

/// A lane to be resumed; those who settle wait for it.
type Left = (Arc<Lane>, Busy);

/// The thread is looking for what comes next.
const AWAKE: u8 = 0;
/// The thread sleeps until somebody wakes it.
const ASLEEP: u8 = 1;
/// The thread is about to wake.
const WAKING: u8 = 2;

impl Submitter {
    /// Resumes a lane on the thread. Gives the lane back if the thread sleeps: then the caller
    /// should resume it, since waking the thread takes a hundred times as long as a launch.
    pub(super) fn resume(&self, left: Left) -> Option<Left> {
        match self.thread() {
            Some(thread) if thread.is_awake() => {
                thread.lanes.send(Some(left)).err().and_then(|refused| refused.0)
            }
            _ => Some(left),
        }
    }

    /// Wakes the thread, if it sleeps, for what will be left to it soon.
    pub(super) fn wake(&self) {
        let _ = self.thread().map(Submitting::is_awake);
    }

    fn thread(&self) -> Option<&Submitting> {
        self.0.get_or_init(Submitting::start).as_ref()
    }
}

impl Submitting {
    fn start() -> Option<Submitting> {
        let (lanes, incoming) = channel();
        let state = Arc::new(AtomicU8::new(WAKING));
        let thread = std::thread::Builder::new().name("millstream submitter".to_string());
        let shared = Arc::clone(&state);
        thread.spawn(move || run(&incoming, &shared)).ok()?;
        Some(Submitting { lanes, state })
    }

    /// Whether the thread is awake; if it is not, wakes it.
    fn is_awake(&self) -> bool {
        // Relaxed, here and in `next`: whoever sees an old state only loses time.
        let relaxed = Ordering::Relaxed;
        let state = self.state.load(relaxed);
        if state == ASLEEP && self.state.compare_exchange(ASLEEP, WAKING, relaxed, relaxed).is_ok()
        {
            // If the thread is gone, callers go on without it.
            let _ = self.lanes.send(None);
        }
        state == AWAKE
    }
}

fn run(lanes: &Receiver<Option<Left>>, state: &AtomicU8) {
    state.store(AWAKE, Ordering::Relaxed);
    while let Some(left) = next(lanes, state) {
        if let Some((lane, _busy)) = left {
            lane.resume_gathering();
        }
    }
}

/// The next lane to resume. Looks for one for a while before the thread sleeps; `None` after the last.
fn next(lanes: &Receiver<Option<Left>>, state: &AtomicU8) -> Option<Option<Left>> {
    let start = Instant::now();
    loop {
        match lanes.try_recv() {
            Ok(left) => return Some(left),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) if stay_awake(start.elapsed()) => {}
            Err(TryRecvError::Empty) => {
                state.store(ASLEEP, Ordering::Relaxed);
                let left = lanes.recv().ok();
                state.store(AWAKE, Ordering::Relaxed);
                return left;
            }
        }
    }
}
