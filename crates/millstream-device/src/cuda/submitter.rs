//! The thread of a lane that submits what callers leave to it: a call of the driver takes
//! microseconds, and whoever launches on many GPUs has none to spare.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Instant;

use super::lane::Lane;
use super::reactor::stay_awake;
use super::settle::Busy;

/// Ends when dropped, after what it has been given.
#[derive(Debug)]
pub(super) struct Submitter {
    /// `None` only wakes the thread.
    lanes: Sender<Option<Left>>,
    state: Arc<AtomicU8>,
}

/// A lane to be resumed, which those wait for who settle.
type Left = (Arc<Lane>, Busy);

/// The thread looks for what comes next.
const AWAKE: u8 = 0;
/// It sleeps, until somebody wakes it.
const ASLEEP: u8 = 1;
/// It will wake.
const WAKING: u8 = 2;

impl Submitter {
    /// `None` if there are no more threads.
    pub(super) fn start() -> Option<Submitter> {
        let (lanes, incoming) = channel();
        let state = Arc::new(AtomicU8::new(WAKING));
        let thread = std::thread::Builder::new().name("millstream submitter".to_string());
        let shared = Arc::clone(&state);
        thread.spawn(move || run(&incoming, &shared)).ok()?;
        Some(Submitter { lanes, state })
    }

    /// Resumes a lane on the thread; gives it back if that sleeps, and the caller had better:
    /// waking it takes a hundred times as long as a launch.
    pub(super) fn resume(&self, left: Left) -> Option<Left> {
        // Relaxed, here and in `next`: whoever sees an old state is only slower.
        let relaxed = Ordering::Relaxed;
        match self.state.load(relaxed) {
            AWAKE => self.lanes.send(Some(left)).err().and_then(|refused| refused.0),
            ASLEEP => {
                if self.state.compare_exchange(ASLEEP, WAKING, relaxed, relaxed).is_ok() {
                    // If the thread is gone, the caller goes on without it.
                    let _ = self.lanes.send(None);
                }
                Some(left)
            }
            _ => Some(left),
        }
    }
}

fn run(lanes: &Receiver<Option<Left>>, state: &AtomicU8) {
    state.store(AWAKE, Ordering::Relaxed);
    while let Some(left) = next(lanes, state) {
        if let Some((lane, _busy)) = left {
            lane.resume();
        }
    }
}

/// The next lane to resume, looked for before the thread sleeps; `None` after the last.
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
