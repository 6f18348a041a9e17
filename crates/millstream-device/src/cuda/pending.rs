//! What waits for a lane to come to a certain point.

use std::any::Any;
use std::sync::Arc;

use super::context::NativeEvent;
use super::gpu_clock::Timed;
use super::large_copies::LargeCopy;
use crate::Error;
use crate::contain::contain;
use crate::event::{Event, EventStatus};
use crate::first_cause::FirstCause;
use crate::task::Task;

/// Something to be dropped when a lane has come to a certain point.
pub(super) enum Held {
    /// What an operation uses.
    Task(#[expect(dead_code, reason = "only dropped")] Task),
    Timed(#[expect(dead_code, reason = "only dropped")] Timed),
    LargeCopy(#[expect(dead_code, reason = "only dropped")] LargeCopy),
    Other(#[expect(dead_code, reason = "only dropped")] Box<dyn Any + Send>),
}

/// What happens when a lane has come to a certain point.
pub(super) struct Pending {
    /// The point's number in the lane.
    pub(super) point: u64,
    pub(super) event: Option<Event>,
    /// The driver's event, which is queried on a lane without a word.
    pub(super) native: Option<Arc<NativeEvent>>,
    pub(super) cause: Arc<FirstCause>,
    /// What had failed when the point was submitted: what the driver refuses later is not before it.
    pub(super) failed: Option<Error>,
    /// Events that the lane's streams have waited for since the point before.
    pub(super) after: Vec<(Event, Arc<FirstCause>)>,
    /// What the operations since the point before use.
    pub(super) held: Vec<Held>,
}

impl Pending {
    /// Whether all events that the point comes after are known to be over.
    pub(super) fn is_ready(&self) -> bool {
        self.after.iter().all(|(event, _)| event.status() != EventStatus::Pending)
    }

    /// The lane has come to the point.
    pub(super) fn finish(mut self) {
        self.hear();
        // Memory first, since whoever hears of the event may want it. A drop may run code of the program.
        std::mem::take(&mut self.held).into_iter().for_each(|held| contain(move || drop(held)));
        self.complete();
    }

    /// Ends the point after a fault of some GPU. The streams of other GPUs may still be on their
    /// way to the point, and nobody will hear when they arrive: what is held is leaked.
    pub(super) fn fail(mut self, poison: &Error) {
        self.hear();
        std::mem::forget(std::mem::take(&mut self.held));
        self.cause.set_reached(poison.clone()).tell();
        self.complete();
    }

    /// Fails the streams that have waited for failed events.
    fn hear(&mut self) {
        for (event, cause) in self.after.drain(..) {
            if let EventStatus::Failed(error) = event.status() {
                cause.set_reached(error).tell();
            }
        }
    }

    fn complete(self) {
        if let Some(event) = self.event {
            let failed = self.failed.or_else(|| self.cause.reached().cloned());
            event.complete(failed.map_or(Ok(()), Err));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::{DeviceList, DeviceSet};

    struct Dropped(Arc<AtomicUsize>);

    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
            panic!("asked for");
        }
    }

    #[test]
    fn what_panics_when_it_is_let_go_holds_nobody_up() {
        let set = DeviceSet::builder().devices(DeviceList::host(1)).build().unwrap();
        let promise = set.promise("lunch");
        let (event, count) = (promise.event().clone(), Arc::new(AtomicUsize::new(0)));
        let held = || Held::Other(Box::new(Dropped(Arc::clone(&count))));
        let pending = Pending {
            point: 1,
            event: Some(event.clone()),
            native: None,
            cause: Arc::default(),
            failed: None,
            after: Vec::new(),
            held: vec![held(), held()],
        };
        pending.finish();
        assert!(event.is_complete());
        assert_eq!(count.load(Ordering::Relaxed), 2);
    }
}
