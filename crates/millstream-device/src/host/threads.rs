//! Streams drained by a pool of threads.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::{Operation, StreamQueue, Work};
use crate::bell::Bell;
use crate::device_set::default_threads;
use crate::event::EventStatus;
use crate::injection::Injection;
use crate::{Error, Result};

/// A pool of threads, and the amount of work that it has.
pub(crate) struct Threads {
    shared: Arc<Shared>,
}

struct Shared {
    pool: rayon::ThreadPool,
    bell: Arc<Bell>,
    outstanding: AtomicUsize,
    idle: (Mutex<()>, Condvar),
    delay: Option<RangeInclusive<Duration>>,
    seed: u64,
    delayed: AtomicU64,
}

impl fmt::Debug for Threads {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Threads({} outstanding)", self.outstanding())
    }
}

impl Threads {
    pub(crate) fn new(threads: Option<usize>, injection: &Injection) -> Result<Threads> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads.unwrap_or_else(default_threads).max(1))
            .thread_name(|thread| format!("millstream {thread}"))
            .build()
            .map_err(|error| Error::Start { reason: error.to_string() })?;
        let shared = Shared {
            pool,
            bell: Arc::default(),
            outstanding: AtomicUsize::new(0),
            idle: (Mutex::new(()), Condvar::new()),
            delay: injection.delay.clone(),
            seed: injection.seed,
            delayed: AtomicU64::new(0),
        };
        Ok(Threads { shared: Arc::new(shared) })
    }

    pub(crate) fn submit(&self, queue: &Arc<StreamQueue>, operation: Operation) {
        // Relaxed: whoever waits for the operation knows of it already (`Given`).
        self.shared.outstanding.fetch_add(1, Ordering::Relaxed);
        let idle = {
            let mut state = queue.state.lock();
            state.operations.push_back(operation);
            !std::mem::replace(&mut state.scheduled, true)
        };
        if idle {
            spawn(&self.shared, Arc::clone(queue));
        }
    }

    pub(crate) fn bell(&self) -> &Arc<Bell> {
        &self.shared.bell
    }

    pub(crate) fn outstanding(&self) -> usize {
        // Acquire: pairs with `finished`, so that the effects of what is over are visible.
        self.shared.outstanding.load(Ordering::Acquire)
    }

    pub(crate) fn wait_until_idle(&self) {
        let (lock, changed) = &self.shared.idle;
        let mut guard = lock.lock();
        while self.outstanding() > 0 {
            changed.wait(&mut guard);
        }
    }
}

fn spawn(shared: &Arc<Shared>, queue: Arc<StreamQueue>) {
    let task = Arc::clone(shared);
    shared.pool.spawn(move || drain(&task, &queue));
}

/// Runs a stream's operations until the queue is empty or its first operation waits.
fn drain(shared: &Arc<Shared>, queue: &Arc<StreamQueue>) {
    loop {
        let operation = {
            let mut state = queue.state.lock();
            match state.operations.pop_front() {
                Some(operation) => operation,
                None => {
                    state.scheduled = false;
                    return;
                }
            }
        };
        // Even on a failed stream: its later events tell that nothing before them is running, on
        // any stream that it waited for.
        if let Work::Wait(event) = &operation.work
            && event.status() == EventStatus::Pending
        {
            let (event, shared, queue) = (event.clone(), Arc::clone(shared), Arc::clone(queue));
            event.on_complete(move |_| {
                queue.perform(operation);
                finished(&shared);
                spawn(&shared, queue);
            });
            return;
        }
        if let Work::Run(_) = &operation.work {
            delay(shared);
        }
        let seen = shared.bell.rings();
        if let Some(operation) = queue.perform(operation) {
            queue.state.lock().operations.push_front(operation);
            let (next, queue) = (Arc::clone(shared), Arc::clone(queue));
            shared.bell.at_next(seen, move || spawn(&next, queue));
            return;
        }
        finished(shared);
    }
}

fn finished(shared: &Shared) {
    // Release: pairs with `Threads::outstanding`.
    if shared.outstanding.fetch_sub(1, Ordering::Release) == 1 {
        drop(shared.idle.0.lock());
        shared.idle.1.notify_all();
    }
}

fn delay(shared: &Shared) {
    if let Some(range) = &shared.delay {
        let draw = shared.delayed.fetch_add(1, Ordering::Relaxed);
        let mut random = SmallRng::seed_from_u64(shared.seed ^ draw.wrapping_mul(0x9E37_79B9));
        std::thread::sleep(random.random_range(range.clone()));
    }
}
