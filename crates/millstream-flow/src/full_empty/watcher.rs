//! The thread that looks at words that GPUs write, and at the time.

use std::fmt;
use std::sync::Arc;
use std::sync::OnceLock;
use std::thread::Thread;
use std::time::{Duration, Instant};

use millstream_device::{Bell, DeviceSet};
use parking_lot::Mutex;

use super::attendance::{Attendance, Next};

/// How long the thread sleeps between rings if nothing has happened for a while.
const SLEEP_BESIDE_GPUS: Duration = Duration::from_micros(20);
/// The same if only the time has to be looked at.
const SLEEP: Duration = Duration::from_millis(1);

/// Rings the bell while somebody waits for a word that rings nothing: one that a GPU writes, or one
/// that may not come in time. There is one thread for a context; it is started when first needed,
/// and parked while nobody waits. Simulated devices have none: their time is virtual, and an
/// endless wait is a deadlock, which is reported.
pub(crate) struct Watcher {
    shared: Arc<Shared>,
    thread: OnceLock<Thread>,
    /// Held by whoever starts the thread.
    starting: Mutex<()>,
}

struct Shared {
    bell: Arc<Bell>,
    attendance: Attendance,
}

impl fmt::Debug for Watcher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Watcher({} wait)", self.shared.attendance.waiting())
    }
}

/// Somebody waits until this is dropped.
pub(crate) struct Attention(Arc<Shared>);

impl fmt::Debug for Attention {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Attention")
    }
}

impl Drop for Attention {
    fn drop(&mut self) {
        self.0.attendance.end();
    }
}

impl Watcher {
    pub(crate) fn new(set: &DeviceSet) -> Watcher {
        let shared = Shared { bell: Arc::clone(set.bell()), attendance: Attendance::new() };
        Watcher { shared: Arc::new(shared), thread: OnceLock::new(), starting: Mutex::new(()) }
    }

    /// Starts the thread, unless it runs already. To be called before anybody waits.
    ///
    /// # Errors
    /// The operating system refuses to start a thread.
    pub(crate) fn prepare(&self, set: &DeviceSet) -> crate::Result<()> {
        let _starting = self.starting.lock();
        if set.simulation().is_none() && self.thread.get().is_none() {
            // Nobody else sets it: the lock is held.
            let _ = self.thread.set(self.start(set)?);
        }
        Ok(())
    }

    /// Rings from now on, until the answer is dropped.
    pub(crate) fn attend(&self) -> Attention {
        self.shared.attendance.begin(|| self.unpark());
        Attention(Arc::clone(&self.shared))
    }

    fn unpark(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
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
        self.shared.attendance.stop(|| self.unpark());
    }
}

impl Shared {
    fn run(&self, set: &DeviceSet) {
        let has_gpus = set.devices().iter().any(|device| device.is_gpu());
        let (mut since, mut seen) = (Instant::now(), 0);
        loop {
            match self.attendance.next(&mut seen) {
                Next::Stop => return,
                Next::Park => {
                    std::thread::park();
                    continue;
                }
                Next::Ring { has_begun: true } => since = Instant::now(),
                Next::Ring { has_begun: false } => {}
            }
            self.bell.ring();
            if !set.stay_awake(since.elapsed()) {
                std::thread::sleep(if has_gpus { SLEEP_BESIDE_GPUS } else { SLEEP });
            }
        }
    }
}
