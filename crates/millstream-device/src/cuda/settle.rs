//! Waiting for what was left to threads. `README.md` beside this file says why.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::in_order::InOrder;
use super::operation::{Operation, Queue};
use super::reactor::stay_awake;
use crate::launching::Inside;

/// What waits to be submitted in order.
trait Waiting: Send + Sync {
    fn outstanding(&self) -> usize;
    fn arrived(&self) -> u64;
    fn has_performed(&self, count: u64) -> bool;
}

impl<S: Send, T: Send> Waiting for InOrder<S, T> {
    fn outstanding(&self) -> usize {
        InOrder::outstanding(self)
    }

    fn arrived(&self) -> u64 {
        InOrder::arrived(self)
    }

    fn has_performed(&self, count: u64) -> bool {
        InOrder::has_performed(self, count)
    }
}

type Queues = Mutex<Vec<Weak<dyn Waiting>>>;

/// Of streams that have waited for the host, whose operations go on to lanes: of the whole process, as
/// the driver's locks are. Without the streams and lanes, which nobody may hold here who could be their
/// last user.
static STREAMS: Queues = Mutex::new(Vec::new());
/// Of lanes that are left something.
static LANES: Queues = Mutex::new(Vec::new());
/// Those that somebody resumes, or will.
static BUSY: AtomicUsize = AtomicUsize::new(0);
/// Those who settle now.
static SETTLING: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static RESUMING: Cell<usize> = const { Cell::new(0) };
}

/// How long between looks that find nothing for long.
pub(super) const SLEEP: Duration = Duration::from_micros(20);

/// Waits until the driver has been given what was left to threads so far, but for what is
/// held up.
///
/// Whoever asks the driver for something that may wait for a GPU has to call this, and to
/// hold no lock that a callback may want: the driver waits with locks held, and a kernel
/// that runs may wait for one that a thread has still to launch.
pub(crate) fn settle() {
    // Acquire: pairs with the release in `drop`. What this thread has left itself it sees, and
    // what it was told of, too.
    if BUSY.load(Ordering::Acquire) == 0 || is_resuming() {
        return;
    }
    // Relaxed, and below: launches that gather look again, and gather for a while at most.
    SETTLING.fetch_add(1, Ordering::Relaxed);
    // In this order, that of an operation's way.
    for queues in [&STREAMS, &LANES] {
        let queues: Vec<_> = queues.lock().iter().filter_map(Weak::upgrade).collect();
        for queue in queues.iter().filter(|queue| queue.outstanding() > 0) {
            let arrived = queue.arrived();
            wait_until(|| queue.has_performed(arrived));
        }
    }
    SETTLING.fetch_sub(1, Ordering::Relaxed);
}

/// Whether somebody settles, for whom launches do not gather.
pub(super) fn does_anybody_settle() -> bool {
    SETTLING.load(Ordering::Relaxed) > 0
}

/// Whether others may wait for this thread to go on.
pub(super) fn is_resuming() -> bool {
    RESUMING.get() > 0
}

/// Waits for what comes soon, as a rule.
pub(super) fn wait_until(is_there: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_there() {
        if !stay_awake(since.elapsed()) {
            std::thread::sleep(SLEEP);
        }
    }
}

/// From now on [`settle`] waits for what is left in this queue of a lane.
pub(super) fn watch_lane(queue: &Arc<Queue>) {
    let queue = Arc::downgrade(queue);
    watch(&LANES, queue);
}

/// The same, for what is resumed of this queue of a stream.
pub(super) fn watch_stream(queue: &Arc<InOrder<(), Operation>>) {
    let queue = Arc::downgrade(queue);
    watch(&STREAMS, queue);
}

fn watch(queues: &Queues, queue: Weak<dyn Waiting>) {
    let mut all = queues.lock();
    all.retain(|queue| queue.strong_count() > 0);
    all.push(queue);
}

/// Held from before something is left that somebody is to resume for, until that has ended.
#[derive(Debug)]
pub(crate) struct Busy(());

impl Busy {
    pub(super) fn begin() -> Busy {
        // Relaxed: the queue's lock, or the channel to the thread, orders it before `drop`.
        BUSY.fetch_add(1, Ordering::Relaxed);
        Busy(())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // Release: see `settle`.
        BUSY.fetch_sub(1, Ordering::Release);
    }
}

/// Held by a thread that resumes a lane: it is waited for, and so waits for nobody itself,
/// whatever the callbacks do that it calls.
pub(super) struct Resuming {
    _busy: Busy,
    _inside: Inside,
}

impl Resuming {
    pub(super) fn begin() -> Resuming {
        RESUMING.set(RESUMING.get() + 1);
        Resuming { _busy: Busy::begin(), _inside: Inside::begin() }
    }
}

impl Drop for Resuming {
    fn drop(&mut self) {
        RESUMING.set(RESUMING.get() - 1);
    }
}
