//! The permit for kernels that wait for each other, of which there is one for each GPU.

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

    /// [Completes](Stream::completed) with the stream, and so does this permit, whoever waits for
    /// that.
    pub(crate) fn completed(&self, stream: &Stream) -> Result<Completion> {
        let end = stream.completed().inspect_err(|_| self.ends_with(stream))?;
        let permit = self.clone();
        end.on_complete(move |_| drop(permit));
        Ok(end)
    }

    /// The same by an [event](Stream::record).
    pub(crate) fn record(&self, stream: &Stream) -> Result<Event> {
        let event = stream.record().inspect_err(|_| self.ends_with(stream))?;
        let permit = self.clone();
        event.on_complete(move |_| drop(permit));
        Ok(event)
    }

    /// Of a stream that has failed: what had begun there may still wait for others.
    pub(crate) fn ends_with(&self, stream: &Stream) {
        // What the driver refuses is nothing to wait for.
        if let Ok(over) = stream.over() {
            let permit = self.clone();
            over.on_complete(move |_| drop(permit));
        }
    }

    pub(crate) fn downgrade(&self) -> WeakGangPermit {
        WeakGangPermit(Arc::downgrade(&self.0))
    }
}

/// A permit that somebody else may hold.
#[derive(Debug, Default)]
pub(crate) struct WeakGangPermit(Weak<Vec<OwnedMutexGuard<()>>>);

impl WeakGangPermit {
    pub(crate) fn upgrade(&self) -> Option<GangPermit> {
        self.0.upgrade().map(GangPermit)
    }
}
