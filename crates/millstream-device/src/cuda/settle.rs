//! Waiting until what was left to threads has been submitted. `README.md` beside this file says why.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::in_order::InOrder;
use super::operation::{Operation, Queue};
use super::reactor::stay_awake;
use crate::launching::Inside;

/// A queue of operations that wait to be submitted in order.
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

/// Queues of streams that have waited for the host, whose operations go on to lanes. They are those
/// of the whole process, as the driver's locks are. Streams and lanes themselves are not held here,
/// since nobody may become their last user here.
static STREAMS: Queues = Mutex::new(Vec::new());
/// Queues of lanes to whose threads something has been left.
static LANES: Queues = Mutex::new(Vec::new());
/// How many queues somebody resumes or is going to resume.
static BUSY: AtomicUsize = AtomicUsize::new(0);
/// How many threads are settling now.
static SETTLING: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static RESUMING: Cell<usize> = const { Cell::new(0) };
}

/// How long to sleep between looks that have found nothing for a while.
pub(super) const SLEEP: Duration = Duration::from_micros(20);

/// Waits until the driver has been given what was left to threads so far, except operations that are held up.
///
/// To be called before asking the driver for something that may wait for a GPU, without holding a
/// lock that a callback may want: the driver waits with locks held, and a running kernel may wait
/// for one that a thread has still to launch.
pub(crate) fn settle() {
    // Acquire: pairs with the release in `drop`. What this thread has left itself, and what it was
    // told about, it sees in any case.
    if BUSY.load(Ordering::Acquire) == 0 || is_resuming() {
        return;
    }
    // Relaxed, here and below: launches that gather look again, and gather only for a limited time.
    SETTLING.fetch_add(1, Ordering::Relaxed);
    // In this order, which is an operation's way.
    for queues in [&STREAMS, &LANES] {
        let queues: Vec<_> = queues.lock().iter().filter_map(Weak::upgrade).collect();
        for queue in queues.iter().filter(|queue| queue.outstanding() > 0) {
            let arrived = queue.arrived();
            wait_until(|| queue.has_performed(arrived));
        }
    }
    SETTLING.fetch_sub(1, Ordering::Relaxed);
}

/// Whether somebody is settling; if so, launches do not gather.
pub(super) fn does_anybody_settle() -> bool {
    SETTLING.load(Ordering::Relaxed) > 0
}

/// Whether others may be waiting for this thread to go on.
pub(super) fn is_resuming() -> bool {
    RESUMING.get() > 0
}

/// Waits for something that, as a rule, comes soon.
pub(super) fn wait_until(is_there: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_there() {
        if !stay_awake(since.elapsed()) {
            std::thread::sleep(SLEEP);
        }
    }
}

/// From now on, [`settle`] waits for what is left in this queue of a lane.
pub(super) fn watch_lane(queue: &Arc<Queue>) {
    let queue = Arc::downgrade(queue);
    watch(&LANES, queue);
}

/// From now on, [`settle`] waits for what is resumed in this queue of a stream.
pub(super) fn watch_stream(queue: &Arc<InOrder<(), Operation>>) {
    let queue = Arc::downgrade(queue);
    watch(&STREAMS, queue);
}

fn watch(queues: &Queues, queue: Weak<dyn Waiting>) {
    let mut all = queues.lock();
    all.retain(|queue| queue.strong_count() > 0);
    all.push(queue);
}

/// To be held from before something is left that somebody will resume, until it has been resumed.
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

/// Held by a thread that resumes a lane. Others wait for this thread, so it waits for nobody
/// itself, whatever the callbacks that it calls do.
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
