//! How many large copies a GPU has under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::device::Device;
use crate::task::Task;

/// The count of large copies, each from when the driver is given it until it is known to be over.
#[derive(Clone, Debug, Default)]
pub(super) struct LargeCopies(Arc<AtomicUsize>);

/// Counted as a large copy until this is dropped.
#[derive(Debug)]
pub(super) struct LargeCopy(Arc<AtomicUsize>);

impl LargeCopies {
    /// Relaxed, like all accesses: whoever chooses a way by it may be a little behind.
    pub(super) fn is_any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// Counts a task if it is a large copy.
    pub(super) fn begin(&self, task: &Task) -> Option<LargeCopy> {
        let bytes = match task {
            Task::Copy(copies) => copies.iter().map(|(from, _)| from.bytes()).sum(),
            Task::Upload { to, .. } => to.bytes(),
            Task::Fill { .. } | Task::Signal(_) | Task::Launch(_) => 0,
        };
        (bytes > Device::SMALL_COPY_BYTES).then(|| {
            self.0.fetch_add(1, Ordering::Relaxed);
            LargeCopy(Arc::clone(&self.0))
        })
    }
}

impl Drop for LargeCopy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
