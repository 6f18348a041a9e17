//! Operations that can end only after something that the host submits later.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Held while a stream has something that may need the host to end: [`Stream::need_host`](crate::Stream::need_host).
#[doc(hidden)]
#[derive(Debug)]
#[must_use = "the need ends when it is dropped"]
pub struct NeedsHost(Option<Arc<AtomicUsize>>);

impl NeedsHost {
    /// Counts one in the lane of a GPU, if there is a lane.
    pub(crate) fn new(lane: Option<Arc<AtomicUsize>>) -> NeedsHost {
        if let Some(lane) = &lane {
            // Relaxed: what is recorded behind it comes later, under the lane's lock.
            lane.fetch_add(1, Ordering::Relaxed);
        }
        NeedsHost(lane)
    }
}

impl Drop for NeedsHost {
    fn drop(&mut self) {
        if let Some(lane) = &self.0 {
            lane.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
