//! A place in a stream's order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// How often whoever waits looks whether to give up.
const LOOK: Duration = Duration::from_millis(1);

/// A place that a stream comes to once.
#[derive(Default)]
pub(super) struct Point {
    /// When it did.
    over: Mutex<Option<Instant>>,
    changed: Condvar,
}

impl Point {
    /// Not come to yet; the stream is there when the other half is dropped, which also
    /// happens when it gives up.
    pub(super) fn new() -> (Arc<Point>, Arrival) {
        let point = Arc::new(Point::default());
        (Arc::clone(&point), Arrival(point))
    }

    pub(super) fn is_over(&self) -> bool {
        self.over().is_some()
    }

    /// When the stream came here, if it has.
    pub(super) fn over(&self) -> Option<Instant> {
        *self.over.lock()
    }

    /// Waits for the stream to come here, or for `stop`.
    pub(super) fn wait(&self, stop: &AtomicBool) {
        let mut over = self.over.lock();
        // Relaxed: only whether to go on waiting.
        while over.is_none() && !stop.load(Ordering::Relaxed) {
            self.changed.wait_for(&mut over, LOOK);
        }
    }
}

/// Dropped where the stream comes to a point.
pub(super) struct Arrival(Arc<Point>);

impl Drop for Arrival {
    fn drop(&mut self) {
        *self.0.over.lock() = Some(Instant::now());
        self.0.changed.notify_all();
    }
}
