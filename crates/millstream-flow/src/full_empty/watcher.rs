//! The thread that looks at words that GPUs write, and at the time.

use std::fmt;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use millstream_device::{Bell, DeviceSet};

/// How long it sleeps between rings when nothing has happened for long.
const SLEEP_BESIDE_GPUS: Duration = Duration::from_micros(20);
/// The same where only the time has to be looked at.
const SLEEP: Duration = Duration::from_millis(1);

/// Rings the bell while somebody waits for a word that rings nothing: one that a GPU
/// writes, or one that does not come in time. One thread for a context, started when
/// it is needed first, parked while nobody waits. None on simulated devices, where
/// time is virtual and a wait without end is a deadlock that is reported.
pub(crate) struct Watcher {
    shared: Arc<Shared>,
    thread: OnceLock<millstream_device::Result<Thread>>,
}

struct Shared {
    bell: Arc<Bell>,
    /// Those who wait.
    waiting: AtomicUsize,
    /// Changes whenever somebody begins to wait.
    begun: AtomicUsize,
    stop: AtomicBool,
}

impl fmt::Debug for Watcher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Relaxed: a number to look at.
        write!(formatter, "Watcher({} wait)", self.shared.waiting.load(Ordering::Relaxed))
    }
}

/// Somebody waits, until this is dropped.
pub(crate) struct Attention(Arc<Shared>);

impl fmt::Debug for Attention {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Attention")
    }
}

impl Drop for Attention {
    fn drop(&mut self) {
        // Relaxed: the thread looks again.
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Watcher {
    pub(crate) fn new(set: &DeviceSet) -> Watcher {
        let shared = Shared {
            bell: Arc::clone(set.bell()),
            waiting: AtomicUsize::new(0),
            begun: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
        };
        Watcher { shared: Arc::new(shared), thread: OnceLock::new() }
    }

    /// Starts the thread, unless there is one: before anybody waits.
    ///
    /// # Errors
    /// The operating system has no thread.
    pub(crate) fn prepare(&self, set: &DeviceSet) -> crate::Result<()> {
        if set.simulation().is_none() {
            let thread = self.thread.get_or_init(|| self.start(set));
            thread.as_ref().map_err(Clone::clone)?;
        }
        Ok(())
    }

    /// Rings from now on, until the answer is dropped.
    pub(crate) fn attend(&self) -> Attention {
        self.shared.waiting.fetch_add(1, Ordering::Release);
        // Release: the thread that finds this finds the count, too.
        self.shared.begun.fetch_add(1, Ordering::Release);
        if let Some(Ok(thread)) = self.thread.get() {
            thread.unpark();
        }
        Attention(Arc::clone(&self.shared))
    }

    fn start(&self, set: &DeviceSet) -> millstream_device::Result<Thread> {
        let (shared, set) = (Arc::clone(&self.shared), set.clone());
        let spawned = std::thread::Builder::new()
            .name("millstream watcher".to_string())
            .spawn(move || shared.run(&set))
            .map_err(|error| millstream_device::Error::Start { reason: error.to_string() })?;
        Ok(spawned.thread().clone())
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(Ok(thread)) = self.thread.get() {
            thread.unpark();
        }
    }
}

impl Shared {
    fn run(&self, set: &DeviceSet) {
        let (mut since, mut begun) = (Instant::now(), 0);
        // Acquire: pairs with the release in `drop`.
        while !self.stop.load(Ordering::Acquire) {
            // Acquire: pairs with the release in `attend`, whose unpark may have come
            // before this park, which then returns at once.
            let latest = self.begun.load(Ordering::Acquire);
            if std::mem::replace(&mut begun, latest) != latest {
                since = Instant::now();
            }
            if self.waiting.load(Ordering::Acquire) == 0 {
                std::thread::park();
                continue;
            }
            self.bell.ring();
            if !set.stay_awake(since.elapsed()) {
                let has_gpus = set.devices().iter().any(|device| device.is_gpu());
                std::thread::sleep(if has_gpus { SLEEP_BESIDE_GPUS } else { SLEEP });
            }
        }
    }
}
