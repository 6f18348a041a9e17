//! The permit for kernels that wait for each other. Each GPU has one.

use std::sync::{Arc, Weak};

use futures_util::lock::OwnedMutexGuard;
use millstream_device::{Completion, Event, Result, Stream};

/// Allows kernels that wait for each other to be launched, until the last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct GangPermit(Arc<Vec<OwnedMutexGuard<()>>>);

impl GangPermit {
    pub(crate) fn new(turns: Vec<OwnedMutexGuard<()>>) -> GangPermit {
        GangPermit(Arc::new(turns))
    }

    /// [`Stream::completed`]. The permit is held until then, whether or not anybody waits for the completion.
    pub(crate) fn completed(&self, stream: &Stream) -> Result<Completion> {
        let end = stream.completed().inspect_err(|_| self.ends_with(stream))?;
        let permit = self.clone();
        end.on_complete(move |_| drop(permit));
        Ok(end)
    }

    /// The same with an [event](Stream::record).
    pub(crate) fn record(&self, stream: &Stream) -> Result<Event> {
        let event = stream.record().inspect_err(|_| self.ends_with(stream))?;
        let permit = self.clone();
        event.on_complete(move |_| drop(permit));
        Ok(event)
    }

    /// Holds the permit for a failed stream: kernels that have begun on it may still wait for others.
    pub(crate) fn ends_with(&self, stream: &Stream) {
        // If the driver refuses, there is nothing to wait for.
        if let Ok(over) = stream.over() {
            let permit = self.clone();
            over.on_complete(move |_| drop(permit));
        }
    }

    pub(crate) fn downgrade(&self) -> WeakGangPermit {
        WeakGangPermit(Arc::downgrade(&self.0))
    }
}

/// Refers to a permit without holding it.
#[derive(Debug, Default)]
pub(crate) struct WeakGangPermit(Weak<Vec<OwnedMutexGuard<()>>>);

impl WeakGangPermit {
    pub(crate) fn upgrade(&self) -> Option<GangPermit> {
        self.0.upgrade().map(GangPermit)
    }
}
