//! Where threads wait until all of them are awake, to submit kernels at the same time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long the line stays closed at most: a thread without a core starts late.
const PATIENCE: Duration = Duration::from_millis(1);

/// A line at which threads wait, looking all the time, until one of them opens it.
#[derive(Debug, Default)]
pub(crate) struct StartLine {
    waiting: AtomicUsize,
    is_open: AtomicBool,
}

impl StartLine {
    /// Waits until the line is open.
    pub(crate) fn wait(&self) {
        // Relaxed, all of them: nothing is handed over but the moment.
        self.waiting.fetch_add(1, Ordering::Relaxed);
        look_until(|| self.is_open.load(Ordering::Relaxed));
    }

    /// Opens the line once so many others wait, or have not come for long.
    pub(crate) fn open(&self, others: usize) {
        let start = Instant::now();
        look_until(|| {
            self.waiting.load(Ordering::Relaxed) >= others || start.elapsed() >= PATIENCE
        });
        self.is_open.store(true, Ordering::Relaxed);
    }
}

/// Leaves the core to others now and then, who may be those that are waited for.
fn look_until(is_so: impl Fn() -> bool) {
    for look in 1_u32.. {
        if is_so() {
            return;
        }
        match look % 1024 {
            0 => std::thread::yield_now(),
            _ => std::hint::spin_loop(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_start_once_the_last_has_come() {
        let (line, came, start) = (StartLine::default(), AtomicUsize::new(0), Instant::now());
        let go = |pause| {
            std::thread::sleep(Duration::from_micros(pause));
            came.fetch_add(1, Ordering::SeqCst);
            line.wait();
            assert!(came.load(Ordering::SeqCst) == 2 || start.elapsed() >= PATIENCE);
        };
        std::thread::scope(|scope| {
            [0, 300].map(|pause| scope.spawn(move || go(pause)));
            line.open(2);
        });
    }

    #[test]
    fn nobody_waits_for_ever() {
        let line = StartLine::default();
        line.open(7);
        line.wait();
    }
}
