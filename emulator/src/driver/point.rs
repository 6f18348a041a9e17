//! A place in a stream's order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// How often whoever waits looks whether to give up.
const LOOK: Duration = Duration::from_millis(1);

/// A place that a stream comes to once.
#[derive(Default)]
pub(super) struct Point {
    is_over: Mutex<bool>,
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
        *self.is_over.lock()
    }

    /// Waits for the stream to come here, or for `stop`.
    pub(super) fn wait(&self, stop: &AtomicBool) {
        let mut is_over = self.is_over.lock();
        // Relaxed: only whether to go on waiting.
        while !*is_over && !stop.load(Ordering::Relaxed) {
            self.changed.wait_for(&mut is_over, LOOK);
        }
    }
}

/// Dropped where the stream comes to a point.
pub(super) struct Arrival(Arc<Point>);

impl Drop for Arrival {
    fn drop(&mut self) {
        *self.0.is_over.lock() = true;
        self.0.changed.notify_all();
    }
}
